// Package agents runs the real agents (Claude Code, Codex, Gemini CLI, opencode),
// as their makers publish them in the npm registry, in real sandboxes: through
// the real gateway, which looks into their TLS and gives their requests the
// credential, to a scripted model (internal/modelserver) that stands where the
// provider does (test/stage). No key and no account is needed.
//
// They do their work and end; they are held while their memory, files and
// environment are searched for the credential; their provider is busy, hangs and
// hangs up. And a hostile model, or a hostile repository, has them do what cases C
// of the project's attack list say:
//
//	C1   credentials of one's own beside the lent one: TestHostileModel (echo)
//	C2   an endpoint that tells what it was sent: TestHostileModel (echo)
//	C3   the placeholder to another host: TestHostileModel (send)
//	C4   in clear text, in the head of a proxy's request: TestHostileModel (plain)
//	C6   in arguments, environment, memory, core dumps (gVisor makes none), files, logs:
//	     TestClaude, TestCodex, TestGemini, TestOpencode
//	C7   by way of what other programs tell: TestHostileModel (look)
//	C8   a base URL in the repository: TestHostileRepository
//	C11  somebody else in the provider's place: TestSomebodyElseIsProvider
//	C12  use after it was revoked: TestRevokedWhileAsking
//
// What they said and did is read back, from what they print and what they keep, also
// of what they do at a terminal (TestAtTerminal).
// BOTHY_TEST_AGENTS_RECORD names a directory to put that into.
//
// TestMockClaude and its like run them with --mock as all that is needed, TestServerClaude and its like
// with a model server of the user's own.
//
// TestCrashClaude kills the process that carries a loop on in each of its states.
//
// TestForkClaude forks one that waits for an answer, and has it go on from a checkpoint.
//
// TestLoginInside and TestLoggedOut have them begin without a credential, and log in; what
// they get is kept outside.
//
// TestMCP has them use tools of servers inside, on the network and on the host.
//
// Besides, the model tries other sandboxes' homes, the sandbox's policy and limits,
// and the host (neighbour, policy, host). C5: what claude and codex obtain by a login
// inside does not come in (TestLoginInside, TestLoggedOut). C9: the gateway alone asks on their
// behalf (internal/gateway TestC9RenewalIsJudged). C10: none
// of them is lent an agent for keys (test/attacks TestC10SSHAgent is).
//
// The agents are installed once for a run of the tests, at the versions the tests
// are written for. Where no registry can be reached, the tests skip and say so; with
// BOTHY_TEST_COMPLETE they fail.
// BOTHY_TEST_AGENTS names a directory that keeps what is installed from run to
// run; BOTHY_TEST_AGENTS_LATEST=1 takes the newest versions.
package agents
