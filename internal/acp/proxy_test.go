package acp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// patience is the longest wait on a slow machine.
const patience = 3 * time.Minute

// pair is a proxy between an editor and an agent that the test plays.
type pair struct {
	cancel context.CancelFunc
	t      *testing.T
	editor io.WriteCloser // what the editor sends
	heard  *bufio.Reader  // what the editor gets
	agent  *fakeAgent
	proxy  *Proxy
	result chan error
	mu     sync.Mutex
	notes  []string
}

// fakeAgent is the agent's side of the proxy's pipes.
type fakeAgent struct {
	in         *bufio.Reader // what the agent gets
	out        io.WriteCloser
	gone       chan struct{}
	once       sync.Once
	terminated chan struct{}
	killed     chan struct{}
	starts     []string
	dirs       map[string]string
	bad        map[string]error // of MCP servers
	failed     error
	starting   chan struct{} // closed when a start begins; nil: not asked
	slow       chan struct{} // a start waits until it is closed; nil: none does
}

func (f *fakeAgent) endFake() { f.once.Do(func() { close(f.gone); f.out.Close() }) }

// fakeHost starts the fake agent.
type fakeHost struct {
	*fakeAgent
	agent *Agent
}

func (h fakeHost) Start(_ context.Context, dir string) (*Agent, error) {
	h.starts = append(h.starts, dir)
	if h.slow != nil {
		close(h.starting)
		<-h.slow
	}
	return h.agent, h.failed
}

func (h fakeHost) Inside(dir string) (string, error) {
	if to := h.dirs[dir]; to != "" {
		return to, nil
	}
	return "", spec.Errorf(spec.ErrUsage, "the sandbox does not see %s", dir).WithHint("bothy acp x %s", dir)
}

func (h fakeHost) CheckServer(_ context.Context, m MCPServer) error { return h.bad[m.Name] }

func openPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// beginPair starts a proxy. set may change it before.
func beginPair(t *testing.T, set func(*Proxy, *fakeAgent)) *pair {
	t.Helper()
	er, ew := openPipe(t)
	or, ow := openPipe(t)
	ar, aw := openPipe(t)
	gr, gw := openPipe(t)
	f := &fakeAgent{in: bufio.NewReaderSize(ar, 1<<20), out: gw, gone: make(chan struct{}), terminated: make(chan struct{}), killed: make(chan struct{}), dirs: map[string]string{"/host/work": "/work"}, bad: map[string]error{}}
	p := &pair{t: t, editor: ew, heard: bufio.NewReaderSize(or, 1<<20), agent: f, result: make(chan error, 1)}
	a := &Agent{
		In: aw, Out: gr, Terminate: sync.OnceFunc(func() { close(f.terminated) }),
		Kill: sync.OnceFunc(func() { close(f.killed); f.endFake() }),
		Wait: func() error { <-f.gone; return errors.New("the agent has ended with exit code 3") },
	}
	p.proxy = &Proxy{Host: fakeHost{f, a}, Grace: 50 * time.Millisecond, Note: func(format string, args ...any) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.notes = append(p.notes, fmt.Sprintf(format, args...))
	}}
	if set != nil {
		set(p.proxy, f)
	}
	ctx, cancel := context.WithCancel(t.Context())
	p.cancel = cancel
	go func() { p.result <- p.proxy.Run(ctx, er, ow); ow.Close() }()
	t.Cleanup(f.endFake)
	return p
}

func (p *pair) sendLines(lines ...string) {
	p.t.Helper()
	for _, line := range lines {
		if _, err := io.WriteString(p.editor, line+"\n"); err != nil {
			p.t.Fatal(err)
		}
	}
}

func (p *pair) sayLines(lines ...string) {
	p.t.Helper()
	for _, line := range lines {
		if _, err := io.WriteString(p.agent.out, line+"\n"); err != nil {
			p.t.Fatal(err)
		}
	}
}

func nextLine(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	type read struct {
		text string
		err  error
	}
	got := make(chan read, 1)
	go func() {
		text, err := r.ReadString('\n')
		got <- read{text, err}
	}()
	select {
	case g := <-got:
		if g.err != nil {
			t.Fatalf("%q: %v", g.text, g.err)
		}
		return strings.TrimSuffix(g.text, "\n")
	case <-time.After(patience):
		t.Fatal("no line came")
	}
	return ""
}

// editorHears checks the editor's next line, and receives the agent's.
func (p *pair) editorHears(want string) {
	p.t.Helper()
	if got := nextLine(p.t, p.heard); got != want {
		p.t.Errorf("the editor got\n%s\nnot\n%s", got, want)
	}
}

func (p *pair) receives(want string) {
	p.t.Helper()
	if got := nextLine(p.t, p.agent.in); got != want {
		p.t.Errorf("the agent got\n%s\nnot\n%s", got, want)
	}
}

func (p *pair) awaitEnd() error {
	p.t.Helper()
	select {
	case err := <-p.result:
		return err
	case <-time.After(patience):
		p.t.Fatal("the proxy goes on")
		return nil
	}
}

// TestHandshake checks that the agent is offered nothing of the host, and that the editor gets no login
// that it would run.
func TestHandshake(t *testing.T) {
	p := beginPair(t, nil)
	p.sendLines(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":2,"clientCapabilities":{"fs":{"readTextFile":true,"writeTextFile":true},"terminal":true,"auth":{"terminal":true},"elicitation":{"form":{},"url":{}},"_meta":{"terminal-auth":true,"terminal_output":true}},"clientInfo":{"name":"e"}}}`)
	p.receives(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{"fs":{"readTextFile":false,"writeTextFile":false},"terminal":false,"auth":{"terminal":false},"elicitation":{"form":{}},"_meta":{"terminal_output":true}},"clientInfo":{"name":"e"}}}`)
	p.sayLines(strings.ReplaceAll(`{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true},"_meta":{"run":"this"},"_Meta":{"run":"this"},"AuthMethods":[{"id":"t","type":"terminal"}],"authMethod\u017f":[{"id":"t","type":"terminal"}],"authMethods":[
		{"id":"t","name":"Log in","type":"terminal","args":["--evil"]},{"id":"e","name":"Key","type":"env_var","vars":[{"name":"LD_PRELOAD"}]},
		{"id":"a","name":"Own","description":"d","_meta":{"terminal-auth":{"command":"/bin/sh","args":["-c","evil"]}}},{"type":"agent","id":"b","name":"B"}]}}`, "\n", ""))
	p.editorHears(`{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true},"authMethods":[{"id":"a","name":"Own","description":"d"},{"id":"b","name":"B"}]}}`)
	// A minimal editor.
	p.sendLines(`{"jsonrpc":"2.0","id":"x","method":"initialize"}`)
	p.receives(`{"jsonrpc":"2.0","id":"x","method":"initialize","params":{"clientCapabilities":{"fs":{"readTextFile":false,"writeTextFile":false},"terminal":false},"protocolVersion":1}}`)
	p.sayLines(`{"jsonrpc":"2.0","id":"x","result":{"protocolVersion":2}}`)
	if got := nextLine(t, p.heard); !strings.Contains(got, "does not speak version 1") {
		t.Errorf("of another version it got %s", got)
	}
	if err := p.awaitEnd(); !errors.Is(err, spec.ErrSandbox) {
		t.Errorf("%v", err)
	}
}

// TestRefused checks that no request of an agent reaches the host, however it is written, and that
// everything of a session passes.
func TestRefused(t *testing.T) {
	p := beginPair(t, nil)
	for i, method := range []string{
		"fs/read_text_file", "fs/write_text_file", "terminal/create", "terminal/output", "terminal/release", "terminal/wait_for_exit", "terminal/kill",
		"elicitation/create", "mcp/message", "_zed/run", "session/new", "initialize", "FS/read_text_file", "session/update", "", "\u2028",
	} {
		name, _ := json.Marshal(method)
		p.sayLines(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%s,"params":{"path":"/etc/passwd"}}`, i, name))
		if method == "" {
			if err := p.awaitEnd(); err == nil || !strings.Contains(err.Error(), "its method is not a text") {
				t.Errorf("%v", err)
			}
			p = beginPair(t, nil)
			continue
		}
		if got := nextLine(t, p.agent.in); !strings.HasPrefix(got, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"error":{"code":-32601,`, i)) {
			t.Errorf("%q: the agent got %s", method, got)
		}
	}
	// Notifications that no editor should act on are dropped; the next message is the first that it gets.
	p.sayLines(`{"jsonrpc":"2.0","method":"fs/write_text_file","params":{}}`, `{"jsonrpc":"2.0","method":"_zed/open","params":{}}`,
		`{"jsonrpc":"2.0","method":"auth/status_update","params":{}}`)
	p.sayLines(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"plan"}}}`)
	p.editorHears(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"plan"}}}`)
	p.sayLines(`{"jsonrpc":"2.0","id":"p","method":"session/request_permission","params":{"sessionId":"s"}}`)
	p.editorHears(`{"jsonrpc":"2.0","id":"p","method":"session/request_permission","params":{"sessionId":"s"}}`)
	p.sayLines(`{"jsonrpc":"2.0","id":"p","method":"session/request_permission","params":{}}`) // not answered yet
	if got := nextLine(t, p.agent.in); !strings.Contains(got, "not answered yet") {
		t.Errorf("%s", got)
	}
	p.sendLines(`{"jsonrpc":"2.0","id":"p","result":{"outcome":{"outcome":"cancelled"}}}`, `{"jsonrpc":"2.0","id":"p","result":{"again":1}}`, `{"jsonrpc":"2.0","id":7,"result":{}}`,
		`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}`)
	p.receives(`{"jsonrpc":"2.0","id":"p","result":{"outcome":{"outcome":"cancelled"}}}`)
	p.receives(`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}`)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.notes) < 3 {
		t.Errorf("notes: %q", p.notes)
	}
}

// TestSameBytes checks that no reader can find another message in the bytes that the editor gets.
func TestSameBytes(t *testing.T) {
	for name, text := range map[string]string{
		"a name twice":          `{"jsonrpc":"2.0","id":1,"method":"session/update","method":"fs/read_text_file"}`,
		"a name twice, escaped": `{"jsonrpc":"2.0","id":1,"method":"session/update","m\u0065thod":"fs/read_text_file"}`,
		"two messages":          `{"jsonrpc":"2.0","method":"session/update"}{"jsonrpc":"2.0","id":1,"method":"fs/read_text_file"}`,
		"not UTF-8":             "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"x\":\"\xff\"}}",
		"not JSON":              `hello`,
		"another version":       `{"jsonrpc":"1.0","method":"session/update"}`,
		"an ID that is a list":  `{"jsonrpc":"2.0","id":[1],"method":"session/request_permission"}`,
		"a long ID":             `{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 300) + `","method":"session/request_permission"}`,
		"a long method":         `{"jsonrpc":"2.0","method":"` + strings.Repeat("x", 300) + `"}`,
		"many members":          `{"jsonrpc":"2.0","method":"session/update"` + manyMembers(1000) + `}`,
		"neither":               `{"jsonrpc":"2.0"}`,
		"both":                  `{"jsonrpc":"2.0","id":1,"result":{},"error":{}}`,
		"deep":                  `{"jsonrpc":"2.0","method":"session/update","params":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`,
	} {
		t.Run(name, func(t *testing.T) {
			p := beginPair(t, nil)
			p.sendLines(`{"jsonrpc":"2.0","id":5,"method":"session/prompt"}`)
			nextLine(t, p.agent.in)
			p.sayLines(text)
			if got := nextLine(t, p.heard); !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":5,"error":{"code":-32603,"message":"the agent broke the protocol: `) {
				t.Errorf("the editor got %s", got)
			}
			if err := p.awaitEnd(); !errors.Is(err, spec.ErrSandbox) {
				t.Errorf("%v", err)
			}
		})
	}
	t.Run("other names", func(t *testing.T) {
		p := beginPair(t, nil)
		p.sayLines("{\"jsonrpc\":\"2.0\",\r\"Method\":\"fs/read_text_file\",\"extra\":{\"method\":1},\t\"method\":\"session/update\",\"params\":\r{\"t\":\"a\u2028b\u0085c\u202e\"}\r}")
		p.editorHears(`{"jsonrpc":"2.0","method":"session/update","params":{"t":"a\u2028b\u0085c\u202e"}}`)
	})
	t.Run("a batch", func(t *testing.T) {
		p := beginPair(t, nil)
		p.sayLines(`[{"jsonrpc":"2.0","id":1,"method":"fs/read_text_file"}]`)
		if got := nextLine(t, p.agent.in); !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`) {
			t.Errorf("the agent got %s", got)
		}
	})
}

func manyMembers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"%d":0`, i)
	}
	return b.String()
}

// TestAnswers checks that an editor gets answers to its own questions only, once, whatever their order.
func TestAnswers(t *testing.T) {
	p := beginPair(t, nil)
	p.sendLines(`{"jsonrpc":"2.0","id":1,"method":"session/prompt"}`, `{"jsonrpc":"2.0","id":"1","method":"session/prompt"}`, `{"jsonrpc":"2.0","id":2,"method":"session/list","params":{"cwd":"/host/work"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"session/prompt"}`)
	p.receives(`{"jsonrpc":"2.0","id":1,"method":"session/prompt"}`)
	p.receives(`{"jsonrpc":"2.0","id":"1","method":"session/prompt"}`)
	p.receives(`{"jsonrpc":"2.0","id":2,"method":"session/list","params":{"cwd":"/work"}}`)
	if got := nextLine(t, p.heard); !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":1,"error":{"code":-32600,`) {
		t.Errorf("to a second request of the same ID: %s", got)
	}
	p.sayLines(`{"jsonrpc":"2.0","id":99,"result":{"nobody":"asked"}}`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}`,
		`{"jsonrpc":"2.0","id":2,"result":[]}`, `{"jsonrpc":"2.0","id":2,"result":["again"]}`,
		`{"jsonrpc":"2.0","id":"1","error":{"code":-32000,"message":"log in","Data":{"authMethods":[]},"data":{"authMethods":[{"_meta":{"terminal-auth":{}}}]}}}`, `{"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn"}}`)
	p.editorHears(`{"jsonrpc":"2.0","id":2,"result":[]}`)
	p.editorHears(`{"jsonrpc":"2.0","id":"1","error":{"code":-32000,"message":"log in"}}`)
	p.editorHears(`{"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn"}}`)
}

// TestSetup checks where sessions work and which servers they get.
func TestSetup(t *testing.T) {
	p := beginPair(t, func(_ *Proxy, f *fakeAgent) {
		f.dirs["/host/more"] = "/more"
		f.bad["bad"] = spec.Errorf(spec.ErrNotFound, "its program is not there").WithHint("install it")
	})
	p.sendLines(`{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/host/work","additionalDirectories":["/host/more"],"mcpServers":[{"name":"good","command":"/bin/x","args":["a"],"env":[]}],"_meta":{"k":1}}}`)
	p.receives(`{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/work","additionalDirectories":["/more"],"mcpServers":[{"name":"good","command":"/bin/x","args":["a"],"env":[]}],"_meta":{"k":1}}}`)
	for params, want := range map[string]string{
		`{"cwd":"/etc","mcpServers":[]}`:                                              "the sandbox does not see /etc; bothy acp x /etc",
		`{"cwd":"work","mcpServers":[]}`:                                              "not an absolute path",
		`{"mcpServers":[]}`:                                                           "not an absolute path",
		`{"cwd":"/host/work","additionalDirectories":["/etc"]}`:                       "does not see /etc",
		`{"cwd":"/host/work","mcpServers":[{"name":"bad","command":"y"}]}`:            "its program is not there; install it",
		`{"cwd":"/host/work","mcpServers":{}}`:                                        "mcpServers",
		`{"cwd":"/host/work","cwd":"/etc"}`:                                           "twice",
		`{"cwd":"/host/work","mcpServers":[{"name":"n","command":"y","env":"text"}]}`: "env of",
	} {
		for _, method := range []string{"session/new", "session/load", "session/resume", "session/fork"} {
			p.sendLines(`{"jsonrpc":"2.0","id":2,"method":"` + method + `","params":` + params + `}`)
			if got := nextLine(t, p.heard); !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":2,"error":{"code":-32602,`) || !strings.Contains(got, want) {
				t.Errorf("%s %s: %s", method, params, got)
			}
		}
	}
	p = beginPair(t, func(p *Proxy, f *fakeAgent) {
		p.SkipServers = true
		f.bad["bad"] = errors.New("it is bad")
	})
	p.sendLines(`{"jsonrpc":"2.0","id":1,"method":"session/load","params":{"sessionId":"s","cwd":"/host/work","mcpServers":[{"name":"bad","command":"y"},{"name":"good","type":"http","url":"https://x"}]}}`)
	p.receives(`{"jsonrpc":"2.0","id":1,"method":"session/load","params":{"sessionId":"s","cwd":"/work","mcpServers":[{"name":"good","type":"http","url":"https://x"}]}}`)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.notes) != 1 || !strings.Contains(p.notes[0], "it is bad") {
		t.Errorf("notes: %q", p.notes)
	}
}

// TestBypass checks that an editor learns of a session only once the session asks for no permission.
func TestBypass(t *testing.T) {
	p := beginPair(t, func(p *Proxy, _ *fakeAgent) { p.Bypass = "all" })
	p.sendLines(`{"jsonrpc":"2.0","id":"bothy-1","method":"session/new","params":{"cwd":"/host/work"}}`)
	nextLine(t, p.agent.in)
	p.sayLines(`{"jsonrpc":"2.0","id":"bothy-1","result":{"sessionId":"s\u00e4"}}`)
	p.receives(`{"jsonrpc":"2.0","id":"bothy-1","method":"session/set_mode","params":{"sessionId":"sä","modeId":"all"}}`)
	p.sayLines(`{"jsonrpc":"2.0","id":"bothy-1","result":{}}`)
	p.editorHears(`{"jsonrpc":"2.0","id":"bothy-1","result":{"sessionId":"s\u00e4"}}`)
	p.sendLines(`{"jsonrpc":"2.0","id":2,"method":"session/load","params":{"sessionId":"t","cwd":"/host/work"}}`)
	nextLine(t, p.agent.in)
	p.sayLines(`{"jsonrpc":"2.0","id":2,"result":null}`)
	p.receives(`{"jsonrpc":"2.0","id":"bothy-2","method":"session/set_mode","params":{"sessionId":"t","modeId":"all"}}`)
	p.sayLines(`{"jsonrpc":"2.0","id":"bothy-2","error":{"code":-32602,"message":"no"}}`)
	if got := nextLine(t, p.heard); !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":2,"error":`) || !strings.Contains(got, "the mode all") {
		t.Errorf("%s", got)
	}
	// An agent that ends instead of an answer.
	p.sendLines(`{"jsonrpc":"2.0","id":3,"method":"session/new","params":{"cwd":"/host/work"}}`)
	nextLine(t, p.agent.in)
	p.sayLines(`{"jsonrpc":"2.0","id":3,"result":{"sessionId":"u"}}`)
	nextLine(t, p.agent.in)
	p.agent.endFake()
	if got := nextLine(t, p.heard); !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":3,"error":`) {
		t.Errorf("%s", got)
	}
}

// TestEditorMistakes checks that an editor gets an answer to a malformed line, and that the next line
// counts.
func TestEditorMistakes(t *testing.T) {
	p := beginPair(t, nil)
	for text, code := range map[string]int{
		`{"jsonrpc":`: -32700, "hello": -32700, `{"a":1}`: -32600, `[]`: -32600, `{"jsonrpc":"2.0","id":1.5,"method":"x"}`: -32600, `7`: -32600,
	} {
		p.sendLines("", "  ", text)
		if got := nextLine(t, p.heard); !strings.HasPrefix(got, fmt.Sprintf(`{"jsonrpc":"2.0","id":null,"error":{"code":%d,`, code)) {
			t.Errorf("%s: %s", text, got)
		}
	}
	p.sendLines(`{"jsonrpc":"2.0","id":1,"method":"session/prompt"}`)
	p.receives(`{"jsonrpc":"2.0","id":1,"method":"session/prompt"}`)
}

// endless is the same bytes, again and again, up to a length.
func endless(n int64) io.Reader { return io.LimitReader(repeated{}, n) }

var xs = bytes.Repeat([]byte("x"), 1<<20)

type repeated struct{}

func (repeated) Read(b []byte) (int, error) {
	return copy(b, xs), nil
}

// TestLong checks that messages of tens of megabytes pass, and that longer ones are neither kept nor
// passed on.
func TestLong(t *testing.T) {
	p := beginPair(t, nil)
	const size = 40 << 20
	go func() {
		_, _ = io.WriteString(p.editor, `{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"t":"`)
		_, _ = io.Copy(p.editor, endless(size))
		_, _ = io.WriteString(p.editor, "\"}}\n")
	}()
	if got := len(nextLine(t, p.agent.in)); got < size {
		t.Errorf("%d bytes came", got)
	}
	go func() {
		_, _ = io.Copy(p.editor, endless(MaxMessage+1))
		_, _ = io.WriteString(p.editor, "\n")
	}()
	if got := nextLine(t, p.heard); !strings.Contains(got, "-32700") || !strings.Contains(got, "longer than 64 MiB") {
		t.Errorf("%s", got)
	}
	go func() { _, _ = io.Copy(p.agent.out, endless(1<<40)) }()
	if got := nextLine(t, p.heard); !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,`) || !strings.Contains(got, "longer than 64 MiB") {
		t.Errorf("%s", got)
	}
	if err := p.awaitEnd(); !errors.Is(err, spec.ErrSandbox) {
		t.Errorf("%v", err)
	}
}

// TestEnd checks that nothing of the agent is left, however it takes the end of its input, and that its
// last messages arrive.
func TestEnd(t *testing.T) {
	t.Run("at once", func(t *testing.T) {
		p := beginPair(t, nil)
		go func() {
			_, _ = io.Copy(io.Discard, p.agent.in)
			p.sayLines(`{"jsonrpc":"2.0","method":"session/update","params":{"last":1}}`)
			p.agent.endFake()
		}()
		p.editor.Close()
		p.editorHears(`{"jsonrpc":"2.0","method":"session/update","params":{"last":1}}`)
		if err := p.awaitEnd(); err != nil {
			t.Error(err)
		}
		select {
		case <-p.agent.terminated:
			t.Error("it was terminated")
		default:
		}
	})
	t.Run("at SIGTERM", func(t *testing.T) {
		p := beginPair(t, nil)
		go func() { <-p.agent.terminated; p.agent.endFake() }()
		p.editor.Close()
		if err := p.awaitEnd(); err != nil {
			t.Error(err)
		}
	})
	t.Run("never", func(t *testing.T) {
		p := beginPair(t, nil)
		p.editor.Close()
		if err := p.awaitEnd(); err != nil {
			t.Error(err)
		}
		<-p.agent.killed
	})
	t.Run("without reading", func(t *testing.T) {
		p := beginPair(t, nil)
		p.sendLines(`{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":"` + strings.Repeat("x", 4<<20) + `"}`)
		p.editor.Close()
		if err := p.awaitEnd(); !errors.Is(err, spec.ErrSandbox) || !strings.Contains(err.Error(), "does not read its input") {
			t.Error(err)
		}
		<-p.agent.killed
	})
	t.Run("by itself", func(t *testing.T) {
		p := beginPair(t, nil)
		p.sendLines(`{"jsonrpc":"2.0","id":1,"method":"session/prompt"}`)
		nextLine(t, p.agent.in)
		p.agent.endFake()
		p.editorHears(`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"the agent has ended with exit code 3"}}`)
		if err := p.awaitEnd(); err == nil || !strings.Contains(err.Error(), "exit code 3") {
			t.Error(err)
		}
	})
	t.Run("not started", func(t *testing.T) {
		p := beginPair(t, func(_ *Proxy, f *fakeAgent) { f.failed = spec.Errorf(spec.ErrConflict, "no").WithHint("do this") })
		p.sendLines(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`)
		p.editorHears(`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"no; do this"}}`)
		if err := p.awaitEnd(); !errors.Is(err, spec.ErrConflict) {
			t.Error(err)
		}
	})
}

// TestDeferred checks that the first session decides where the agent starts, and that the agent gets the
// editor's handshake.
func TestDeferred(t *testing.T) {
	p := beginPair(t, func(p *Proxy, _ *fakeAgent) { p.Deferred, p.Version = true, "1.2" })
	p.sendLines(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}`)
	p.editorHears(`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{},"authMethods":[],"agentInfo":{"name":"bothy","version":"1.2"}}}`)
	p.sendLines(`{"jsonrpc":"2.0","id":2,"method":"session/list","params":{}}`)
	if got := nextLine(t, p.heard); !strings.Contains(got, "no session has begun") {
		t.Error(got)
	}
	p.sendLines(`{"jsonrpc":"2.0","id":3,"method":"session/new","params":{"cwd":"/host/work"}}`)
	p.receives(`{"jsonrpc":"2.0","id":"bothy-1","method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{"fs":{"readTextFile":false,"writeTextFile":false},"terminal":false}}}`)
	p.sayLines(`{"jsonrpc":"2.0","id":"bothy-1","result":{"protocolVersion":1}}`)
	p.receives(`{"jsonrpc":"2.0","id":3,"method":"session/new","params":{"cwd":"/work"}}`)
	if got := strings.Join(p.agent.starts, " "); got != "/host/work" {
		t.Errorf("it started in %q", got)
	}
	// An agent that starts after the end is killed.
	slow := make(chan struct{})
	p = beginPair(t, func(p *Proxy, f *fakeAgent) { p.Deferred, f.slow, f.starting = true, slow, make(chan struct{}) })
	p.sendLines(`{"jsonrpc":"2.0","id":3,"method":"session/new","params":{"cwd":"/host/work"}}`)
	<-p.agent.starting
	p.cancel()
	if err := p.awaitEnd(); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	close(slow)
	<-p.agent.killed
	p = beginPair(t, func(p *Proxy, f *fakeAgent) { p.Deferred = true })
	p.editor.Close()
	if err := p.awaitEnd(); err != nil {
		t.Error(err)
	}
}

// FuzzMessage checks that a message that was read is written as one line that everyone reads alike, and that
// its parts are those that other readers find.
func FuzzMessage(f *testing.F) {
	f.Add(`{"jsonrpc":"2.0","method":"session/update","params":{}}`)
	f.Add(`{"jsonrpc":"2.0","id":1,"method":"fs/read_text_file"}`)
	f.Add("{ \"jsonrpc\" : \"2.0\",\r\n\"id\":-7 , \"result\" :[ 1 , {\"a\\\\\" : \"}\\\"]\"} , true,null ,1e5] }")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := parseMessage([]byte(text))
		if err != nil {
			return
		}
		var other struct {
			Params, Result, Error json.RawMessage
		}
		if err := json.Unmarshal([]byte(text), &map[string]json.RawMessage{}); err != nil {
			t.Fatalf("%q was taken: %v", text, err)
		}
		var all map[string]json.RawMessage
		_ = json.Unmarshal([]byte(text), &all)
		other.Params, other.Result, other.Error = all["params"], all["result"], all["error"]
		if string(m.params) != string(other.Params) || string(m.result) != string(other.Result) || string(m.fault) != string(other.Error) {
			t.Fatalf("%q: %+v", text, m)
		}
		out := m.encode()
		if bytes.Count(out, []byte("\n")) != 1 || out[len(out)-1] != '\n' || bytes.ContainsAny(out[:len(out)-1], "\r\x00\x1b\u0085\u2028") {
			t.Fatalf("%q", out)
		}
		again, err := parseMessage(out)
		if err != nil || again.id != m.id || again.method != m.method || !sameJSON(again.params, m.params) || !sameJSON(again.result, m.result) {
			t.Fatalf("%q: %v", out, err)
		}
	})
}

func sameJSON(a, b json.RawMessage) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}
