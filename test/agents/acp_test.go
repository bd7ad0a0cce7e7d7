package agents

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
	"github.com/bothy-dev/bothy/test/harness"
)

// acpSDK is the client library that editors use.
var acpSDK = agent.Request{
	Name: "acp-sdk", Version: "2.4.0", Target: agent.TargetOf("/"),
	Source: spec.AgentSource{
		Package: "@agentclientprotocol/sdk", With: []string{"zod@4.6.7"},
		Platforms: map[string]spec.AgentPlatform{"any": {Binary: "dist/v1/stable/acp.js"}},
	},
}

// atEditor is the model of an agent whose user sits at an editor.
const atEditor = `
conversations:
  - match: write first
    turns:
      - tools: [{write_file: {path: WORK/first.txt, content: "one\n"}}]
      - text: The first is written.
  - match: write second
    turns:
      - tools: [{write_file: {path: WORK/second.txt, content: "two\n"}}]
      - text: So be it.
  - match: remember
    turns:
      - tools: [{mcp: {server: own, tool: remember, arguments: {text: of the editor}}}]
      - text: It is remembered.
  - match: think
    turns:
      - text: Too late.
        delay: 10m
turns:
  - text: Hello, editor.
`

// act is a step of the test's editor. sight is one of its observations.
type act map[string]any

type sight struct {
	What  string `json:"what"`
	Value struct {
		Method  string          `json:"method"`
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Result  json.RawMessage `json:"result"`
		Update  string          `json:"sessionUpdate"`
		Status  string          `json:"status"`
		Content json.RawMessage `json:"content"`
		Title   string          `json:"title"`
		Kind    string          `json:"kind"`
		Ms      int             `json:"ms"`
	} `json:"value"`
}

// editorSaw is the conversation of an editor.
type editorSaw struct {
	list []sight
	text string // of all lines
}

// countOf counts what sight of a kind.
func (s editorSaw) countOf(what string) (n int) {
	for _, h := range s.list {
		if h.What == what {
			n++
		}
	}
	return n
}

// result returns the n-th answer to a method.
func (s editorSaw) result(t *testing.T, method string, n int) string {
	t.Helper()
	for _, h := range s.list {
		if h.What == "result" && h.Value.Method == method {
			if n--; n < 0 {
				return string(h.Value.Result)
			}
		}
	}
	t.Fatalf("%s was not answered %d times:\n%s", method, n+1, s.text)
	return ""
}

// runEditor runs the steps of an editor with the official client over a command of bothy. permissions are the
// answers to the agent's questions.
func (w *world) runEditor(t *testing.T, permissions []string, steps []act, command ...string) (s editorSaw) {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		harness.Missing(t, "the editor's client needs Node.js: %v", err)
	}
	doc, err := json.Marshal(map[string]any{"steps": steps, "permissions": permissions})
	if err != nil {
		t.Fatal(err)
	}
	client := w.Write(t, filepath.Join(w.Base, "client.mjs"), read(t, "test", "agents", "testdata", "acp", "client.mjs"))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := w.Command(ctx, command...)
	cmd.Args = slices.Concat([]string{node, client, cmd.Path}, command)
	cmd.Path = node
	cmd.Env = append(cmd.Env,
		"ACP_SDK="+filepath.Join(w.State, "agents", acpSDK.Name, acpSDK.Version, "package", acpSDK.Source.Platforms["any"].Binary),
		"STEPS="+w.Write(t, filepath.Join(w.Base, "steps.json"), string(doc)))
	r := harness.Finish(ctx, cmd, command)
	s.text = r.Stdout + r.Stderr
	lines := bufio.NewScanner(bytes.NewReader([]byte(r.Stdout)))
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var h sight
		_ = json.Unmarshal(lines.Bytes(), &h) // some fields have other types elsewhere
		s.list = append(s.list, h)
	}
	if r.Code != 0 || s.countOf("ready") != 1 || s.countOf("reached") != 0 {
		t.Fatalf("%v\nthe model was asked\n%s", r, summary(w.model.Requests()))
	}
	if !strings.Contains(s.text, `{"what":"exit","value":{"code":0,`) {
		t.Errorf("bothy acp did not end well:\n%s", s.text)
	}
	return s
}

// Steps of every editor.
var (
	hello = act{"request": "initialize", "params": act{"protocolVersion": 1, "clientInfo": act{"name": "test", "version": "1"}, "clientCapabilities": act{
		"fs": act{"readTextFile": true, "writeTextFile": true}, "terminal": true, "auth": act{"terminal": true},
	}}}
	begin = act{"request": "session/new", "params": act{"cwd": "$cwd", "mcpServers": []act{}}}
)

func prompt(text string) act {
	return act{"request": "session/prompt", "params": act{"sessionId": "$session", "prompt": []act{{"type": "text", "text": text}}}}
}

// inEditor runs a test of an agent with an editor.
func inEditor(t *testing.T, a cli, f func(t *testing.T, w *world, script string)) {
	t.Helper()
	harness.AsRoot(t)
	if testing.Short() {
		t.Skip("short: no sandboxes are started")
	}
	st, err := store.Open(os.Getenv(agentsVar))
	if err != nil {
		t.Fatal(err)
	}
	more := []agent.Installation{download(t, st, acpSDK)}
	if d := agent.Adapter(described(t, a.name)); d != nil {
		more = append(more, download(t, st, agent.Request{Name: d.Name, Source: *d.Install, Version: d.Install.Version, Target: agent.TargetOf("/")}))
		if need := d.Install.Needs; need != nil && !agent.AtLeast(onHost(t, need.Name), need.Version) {
			more = append(more, download(t, st, ordering(t, need.Name)))
		}
	}
	inWorld(t, a, atEditor, func(t *testing.T, w *world) {
		for _, one := range more {
			lay(t, w.Caller, one)
		}
		f(t, w, w.Write(t, filepath.Join(w.Base, "editor.yaml"), strings.ReplaceAll(atEditor, "WORK", w.Work)))
	})
}

// TestACPClaude checks everything that an editor does with the official adapter.
func TestACPClaude(t *testing.T) {
	inEditor(t, claude, func(t *testing.T, w *world, script string) {
		own := act{"name": "own", "command": w.Plant(t, w.Work), "args": []string{"mcp"}, "env": []act{}}
		ask := act{"request": "session/set_mode", "params": act{"sessionId": "$session", "modeId": "default"}}
		thinks := prompt("think")
		thinks["background"] = true
		s := w.runEditor(t, []string{"allow_once", "reject_once", "allow_once"}, []act{
			hello,
			{"request": "session/new", "params": act{"cwd": "$cwd", "mcpServers": []act{own}}},
			ask,
			prompt("write first"), prompt("write second"), prompt("remember"),
			thinks,
			{"sleep": 3000},
			{"notify": "session/cancel", "params": act{"sessionId": "$session"}},
			{"sleep": 1000},
			{"request": "session/list", "params": act{"cwd": "$cwd"}},
			{"request": "session/new", "params": act{"cwd": "/etc", "mcpServers": []act{}}},
			{"request": "session/new", "params": act{"cwd": "$cwd", "mcpServers": []act{{"name": "gone", "command": "/nowhere/x", "args": []string{}, "env": []act{}}}}},
			{"request": "session/new", "params": act{"cwd": "$cwd", "mcpServers": []act{{"type": "http", "name": "far", "url": "https://mcp.example/mcp", "headers": []act{}}}}},
			{"request": "session/new", "params": act{"cwd": "$cwd", "mcpServers": []act{{"name": "keyed", "command": "/bin/true", "args": []string{}, "env": []act{{"name": "TOKEN", "value": "CANARY"}}}}}},
		}, "acp", "--name", box, "--mock", script, "claude", w.Work)

		if got := s.result(t, "initialize", 0); !strings.Contains(got, "claude-agent-acp") || strings.Contains(got, "terminal") {
			t.Errorf("initialize: %s", got)
		}
		if got := w.read(t, "first.txt"); got != "one\n" {
			t.Errorf("with permission it wrote %q", got)
		}
		if _, err := os.Stat(filepath.Join(w.Work, "second.txt")); err == nil {
			t.Error("it wrote without permission")
		}
		if got := w.read(t, "remembered.txt"); got != "of the editor, on 4.19.0-gvisor\n" {
			t.Errorf("the editor's MCP server wrote %q", got)
		}
		if n := s.countOf("permission"); n != 3 {
			t.Errorf("it asked for permission %d times", n)
		}
		for i, want := range []string{"end_turn", "", "end_turn", "cancelled"} {
			if got := s.result(t, "session/prompt", i); !strings.Contains(got, want) {
				t.Errorf("prompt %d: %s", i, got)
			}
		}
		for _, want := range []string{
			`"type":"diff"`, `"newText":"one\n"`, "The first is written.",
			"does not see /etc; for an agent there, the editor starts: bothy acp claude /etc",
			"its program /nowhere/x is not in the sandbox", "--skip-mcp",
			"the network policy keeps " + box + " from mcp.example; allow it: bothy policy allow mcp.example:443 --sandbox " + box,
			"it gets variables (TOKEN), which may be secrets",
		} {
			if !strings.Contains(s.text, want) && !strings.Contains(strings.ReplaceAll(s.text, `\\n`, `\n`), want) {
				t.Errorf("the editor did not see %q:\n%s", want, s.text)
			}
		}
		w.unasked(t)

		// Another editor loads the session, in a mode without questions, and works in the same sandbox.
		var made struct {
			Session string `json:"sessionId"`
		}
		if err := json.Unmarshal([]byte(s.result(t, "session/new", 0)), &made); err != nil {
			t.Fatal(err)
		}
		s = w.runEditor(t, nil, []act{
			hello,
			{"request": "session/load", "params": act{"sessionId": made.Session, "cwd": "$cwd", "mcpServers": []act{}}},
			begin, prompt("write second"),
		}, "acp", "--bypass-permissions", "--skip-mcp", "--name", box, "claude")
		if !strings.Contains(s.text, "The first is written.") {
			t.Errorf("the loaded session has forgotten:\n%s", s.text)
		}
		if got := w.read(t, "second.txt"); got != "two\n" || s.countOf("permission") != 0 {
			t.Errorf("it asked %d times, and wrote %q", s.countOf("permission"), got)
		}
		if out := w.Must(t, "exec", box, "sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"); strings.Contains(out, "adapter") || strings.Contains(out, "agent/claude") {
			t.Errorf("the agent is left: %s", out)
		}
	})
}

// unasked checks that the provider was not asked.
func (w *world) unasked(t *testing.T) {
	t.Helper()
	for _, q := range w.model.Requests() {
		t.Errorf("the real provider was asked %s %s", q.Method, q.Path)
	}
}

// TestACPTwo checks that two editors at once have agents of their own in one sandbox.
func TestACPTwo(t *testing.T) {
	harness.Sweep(t, "agents")
	inEditor(t, codex, func(t *testing.T, w *world, script string) {
		args := []string{"acp", "--name", box, "--mock", script, "codex", w.Work}
		var other editorSaw
		ended := make(chan struct{})
		mate := *w.Caller
		mate.Base = filepath.Join(w.Base, "mate")
		w.Mkdir(t, mate.Base)
		second := &world{stage: w.stage, Caller: &mate, cli: w.cli, model: w.model}
		go func() {
			defer close(ended)
			other = second.runEditor(t, nil, []act{hello, begin, prompt("write first")}, args...)
		}()
		s := w.runEditor(t, nil, []act{hello, begin, prompt("write second")}, args...)
		<-ended
		if s.result(t, "session/new", 0) == other.result(t, "session/new", 0) {
			t.Error("they share a session")
		}
		if w.read(t, "first.txt") != "one\n" || w.read(t, "second.txt") != "two\n" {
			t.Errorf("%s\n%s", s.text, other.text)
		}
		if list := strings.Fields(w.Must(t, "ls", "-q")); len(list) != 1 {
			t.Errorf("the sandboxes %q", list)
		}
	})
}

// writesFor checks the first session of an agent.
func writesFor(t *testing.T, a cli) {
	t.Helper()
	harness.Sweep(t, "agents")
	inEditor(t, a, func(t *testing.T, w *world, script string) {
		s := w.runEditor(t, nil, []act{hello, begin, prompt("write first"), prompt("hello")}, "acp", "--name", box, "--mock", script, a.name, w.Work)
		if got := w.read(t, "first.txt"); got != "one\n" || !strings.Contains(s.text, "The first is written.") {
			t.Errorf("%q\n%s", got, s.text)
		}
		w.unasked(t)
	})
}

func TestACPCodex(t *testing.T)    { writesFor(t, codex) }
func TestACPGemini(t *testing.T)   { writesFor(t, gemini) }
func TestACPOpencode(t *testing.T) { writesFor(t, opencode) }

// TestACPSettings checks that the settings of the page start an agent as an editor would.
func TestACPSettings(t *testing.T) {
	page := read(t, "docs", "guide", "editors-acp.md")
	n := 0
	for _, block := range strings.Split(page, "```json\n")[1:] {
		text, _, _ := strings.Cut(block, "```")
		var settings struct {
			Servers map[string]struct {
				Command string
				Args    []string
			} `json:"agent_servers"`
		}
		if err := json.Unmarshal([]byte(text), &settings); err != nil {
			t.Fatalf("%v:\n%s", err, text)
		}
		for _, s := range settings.Servers {
			n++
			if s.Command != "bothy" || !slices.Equal(s.Args, []string{"acp", "claude"}) {
				t.Errorf("the page says %+v, and the test of the page runs something else", s)
			}
		}
	}
	if n != 2 {
		t.Fatalf("the page has %d settings", n)
	}
	inEditor(t, claude, func(t *testing.T, w *world, script string) {
		// The page's command names no mock. So its sandbox is made before, and the editor finds it.
		w.Must(t, "acp", "--mock", script, "claude")
		s := w.runEditor(t, nil, []act{hello, begin, prompt("hello")}, "acp", "claude")
		if !strings.Contains(s.text, "Hello, editor.") {
			t.Error(s.text)
		}
	})
}
