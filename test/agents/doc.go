// Package agents runs the real agents (Claude Code, Codex, Gemini CLI, opencode),
// as their makers publish them in the npm registry, in real sandboxes: through
// the real gateway, which looks into their TLS and gives their requests the
// credential, to a scripted model (internal/modelserver) that takes the
// provider's place (test/stage). No key and no account is needed.
//
// They do their work and end; they are held while their memory, files and
// environment are searched for the credential; their provider is busy, hangs and
// hangs up. And a hostile model, or a hostile repository, has them try cases C
// of the project's attack list:
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
// also those at a terminal (TestAtTerminal). BOTHY_TEST_AGENTS_RECORD names a directory that
// stores these.
//
// TestMockClaude and its like run them with --mock as all that is needed, TestServerClaude and its like
// with a model server of the user's own.
//
// TestCrashClaude kills the process that carries a loop on in each of its states.
//
// TestForkClaude forks one that waits for an answer, and has it go on from a checkpoint.
//
// TestLoginInside and TestLoggedOut have them begin without a credential, and log in. Bothy
// keeps the credentials outside.
//
// TestMCP has them use tools of servers inside, on the network and on the host.
//
// Besides, the model tries other sandboxes' homes, the sandbox's policy and limits,
// and the host (neighbour, policy, host). C5: the tokens that claude and codex obtain by a
// login inside stay outside (TestLoginInside, TestLoggedOut). C9: the gateway alone asks on their
// behalf (internal/gateway TestC9RenewalIsJudged). C10: none
// of them is lent an agent for keys (test/attacks TestC10SSHAgent is).
//
// The agents are installed once for a run of the tests, at the versions the tests
// are written for. Where no registry can be reached, the tests skip and say so; with
// BOTHY_TEST_COMPLETE they fail.
// BOTHY_TEST_AGENTS names a directory that keeps the installed agents from run to
// run; BOTHY_TEST_AGENTS_LATEST=1 takes the newest versions.
package agents
