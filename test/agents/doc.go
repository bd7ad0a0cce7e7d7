// Package agents runs the real agents (Claude Code, Codex, Gemini CLI, opencode), as their makers
// publish them in the npm registry, in real sandboxes. The real gateway looks into their TLS and adds
// the credential to their requests. A scripted model (internal/modelserver) replaces the provider
// (test/stage). The tests need no key and no account.
//
// The agents do their work and exit. They are stopped while their memory, files and environment are
// searched for the credential. Their provider is busy, hangs and hangs up. And a hostile model, or a
// hostile repository, makes them try cases C of the project's attack list:
//
//	C1   credentials of one's own beside the lent one: TestHostileModel (echo)
//	C2   an endpoint that echoes requests: TestHostileModel (echo)
//	C3   the placeholder to another host: TestHostileModel (send)
//	C4   in clear text, in the head of a proxy's request: TestHostileModel (plain)
//	C6   in arguments, environment, memory, core dumps (gVisor makes none), files, logs:
//	     TestClaude, TestCodex, TestGemini, TestOpencode
//	C7   through other programs' output: TestHostileModel (look)
//	C8   a base URL in the repository: TestHostileRepository
//	C11  another server in the provider's place: TestSomebodyElseIsProvider
//	C12  use after it was revoked: TestRevokedWhileAsking
//
// The tests read back the agents' words and actions, from their output and their session files,
// including those of a terminal (TestAtTerminal). BOTHY_TEST_AGENTS_RECORD names a directory that stores
// these.
//
// TestMockClaude and the tests like it run the agents with nothing but --mock. TestServerClaude and the
// tests like it use the user's own model server.
//
// TestCrashClaude kills the process that runs a loop in each of its states.
//
// TestForkClaude forks an agent that waits for an answer, and makes it continue from a checkpoint.
//
// In TestLoginInside and TestLoggedOut the agents start without a credential, and log in. Bothy keeps
// the credentials outside.
//
// In TestMCP they use tools of servers inside, on the network and on the host.
//
// The model also tries other sandboxes' homes, the sandbox's policy and limits, and the host (neighbour,
// policy, host). C5: the tokens that claude and codex obtain by a login inside stay outside
// (TestLoginInside, TestLoggedOut). C9: only the gateway asks on their behalf (internal/gateway
// TestC9RenewalIsJudged). C10: they are not lent an agent for keys (test/attacks TestC10SSHAgent is).
//
// The agents are installed once for a run of the tests, at the versions that the tests are written for.
// If no registry can be reached, the tests skip and print the reason; with BOTHY_TEST_COMPLETE they
// fail. BOTHY_TEST_AGENTS names a directory that keeps the installed agents between runs;
// BOTHY_TEST_AGENTS_LATEST=1 takes the newest versions.
package agents
