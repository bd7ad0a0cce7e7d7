// Package modelserver is a scripted model behind the APIs that agents speak: Anthropic's
// Messages, OpenAI's Responses and chat completions, Gemini's generateContent. The real
// command lines (Claude Code, Codex, Gemini CLI, opencode) run against it without a key and
// without a network. Tests can look at their requests afterwards.
//
// # Scripts
//
// A script is data, in YAML or JSON; [modelscript.Parse] reads it and refuses unknown keys:
//
//	turns:
//	  - text: I write the file first.
//	    tools:
//	      - write_file: {path: hello.txt, content: "hello\n"}
//	  - fail: {status: 529, times: 1}
//	    tools:
//	      - run_command: {command: cat hello.txt}
//	  - text: Done.
//	    usage: {input: 1200, output: 40}
//
// Tools have neutral names. Each client offers its own in the request, and the server calls
// those: write_file is Write for Claude Code and a patch fed to a shell for Codex. A client
// that offers no fitting tool gets an error. So does one that asks for a turn the script
// does not have. A test that goes wrong therefore ends, and says where.
//
// # Which turn is answered
//
// The server keeps no conversation. Clients send all of it each time, and the server counts
// the turn in the request: how often the model has spoken since the last prompt. So a
// repeated request gets the same answer to the byte, sessions in parallel do not disturb
// each other, and a prompt that resumes a session begins with the first turn again. The
// text of that last prompt selects the conversation of the script.
//
// The server counts only how often a turn has failed: for each session, as the client's
// headers name it, prompt and turn. Clients that name none (Gemini CLI) are told apart by
// the whole conversation; two that run in the same directory and hear the same share a
// count.
//
// # Side calls
//
// Before or during the conversation clients ask for a title, a rating, a verdict: without
// tools, for a text of a given shape. Those requests do not use the script. They get a
// minimal answer of that shape, and are marked in the record.
package modelserver
