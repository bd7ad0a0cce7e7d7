// Package agents runs the real agents (Claude Code, Codex, Gemini CLI, opencode),
// as their makers publish them in the npm registry, in real sandboxes: through
// the real gateway, which looks into their TLS and gives their requests the
// credential, to a scripted model (test/modelserver) that stands where the
// provider does (test/stage). No key and no account is needed.
//
// They do their work and end; they are held while their memory, files and
// environment are searched for the credential; and a hostile model has them do
// what cases C of the project's attack list say (hostile_test.go).
//
// The agents are installed once for a run of the tests, at the versions the tests
// are written for. Where no registry can be reached, the tests skip and say so.
// BOTHY_TEST_AGENTS names a directory that keeps what is installed from run to
// run; BOTHY_TEST_AGENTS_LATEST=1 takes the newest versions.
package agents
