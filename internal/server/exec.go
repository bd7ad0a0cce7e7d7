package server

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/bothy-dev/bothy/internal/apitoken"
	"github.com/bothy-dev/bothy/internal/document"
	"github.com/bothy-dev/bothy/internal/headless"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

func execRoutes() []Route {
	return []Route{{
		Method: "POST", Pattern: "/v1/sandboxes/{name}/exec", Scope: apitoken.Exec,
		Summary: "Run a command, like bothy exec; the sandbox is started if it is stopped, and the command ends when the client is gone",
		Request: Command{}, Answer: Ended{}, Limit: commands,
		Stream: "application/x-ndjson", Part: "with output=stream: lines with stdout_b64, stderr_b64 or note, and at last one with exit or error",
		Failures: []int{spec.ExitNotFound, spec.ExitTimeout, spec.ExitNoSuchFile, spec.ExitNotRunnable, spec.ExitMayHaveRun, spec.ExitSandbox},
		handle:   (*call).runCommand,
	}}
}

// Command is a command to run.
type Command struct {
	Args    []string `json:"args"`
	Env     []string `json:"env,omitempty"` // KEY=VALUE
	Workdir string   `json:"workdir,omitempty"`
	User    string   `json:"user,omitempty"`
	// StdinB64 is the input, in base64.
	StdinB64 []byte `json:"stdin_b64,omitempty"`
	// Timeout ends the command, such as 90s.
	Timeout spec.Duration `json:"timeout,omitempty"`
	// NoSetUp leaves the commands of a devcontainer.json that are due for later.
	NoSetUp bool `json:"no_setup,omitempty"`
	// Output is "capture", which is the default, or "stream".
	Output string `json:"output,omitempty"`
}

// Ended is how a command ended, and its output. Output that is not UTF-8 is in the fields for base64 alone.
type Ended struct {
	Exit      int    `json:"exit"`
	Stdout    string `json:"stdout"`
	Stderr    string `json:"stderr"`
	StdoutB64 []byte `json:"stdout_b64,omitempty"`
	StderrB64 []byte `json:"stderr_b64,omitempty"`
	// Truncated says that the command printed more than 8 MiB into a stream, and the rest is lost.
	Truncated bool     `json:"truncated"`
	Notes     []string `json:"notes"`
}

// Values of Command.Output.
const (
	outputCapture = "capture"
	outputStream  = "stream"
)

// maxCaptured is how much of a stream is captured, in bytes.
const maxCaptured = 8 << 20

func (c *call) runCommand() error {
	var q Command
	if err := c.decodeUpTo(&q, maxDocument); err != nil {
		return err
	}
	switch {
	case len(q.Args) == 0:
		return spec.Errorf(spec.ErrUsage, "no command is given").WithHint(`{"args": ["make", "test"]}`)
	case q.Timeout < 0:
		return spec.Errorf(spec.ErrUsage, "the timeout %s is negative", time.Duration(q.Timeout))
	case q.Output != "" && q.Output != outputCapture && q.Output != outputStream:
		return spec.Errorf(spec.ErrUsage, "output is %s or %s", outputCapture, outputStream)
	}
	if err := spec.CheckEnv(q.Env); err != nil {
		return err
	}
	sb, err := c.sandbox()
	if err != nil {
		return err
	}
	ctx, done := c.whileAllowed()
	defer done()
	run := &execution{ctx: ctx, stdin: q.StdinB64, command: wire.Command{
		Args: q.Args, Env: q.Env, Dir: q.Workdir, User: q.User, Timeout: q.Timeout,
	}}
	if run.in, err = c.provisioner().Enter(ctx, sb, &run.command, q.NoSetUp); err != nil {
		return err
	}
	defer run.in.Close()
	if q.Output == outputStream {
		return c.streamCommand(run)
	}
	return c.captureCommand(run)
}

// execution is a command under way.
type execution struct {
	ctx     context.Context
	in      headless.Session
	command wire.Command
	stdin   []byte
}

func (x *execution) runCaptured(out, err *captured) (int, error) {
	return x.in.Exec(x.ctx, x.command, x.streams(out, err))
}

func (x *execution) streams(out, err *captured) headless.Streams {
	return headless.Streams{In: bytes.NewReader(x.stdin), Out: out, Err: err}
}

// captured keeps the first bytes of a stream.
type captured struct {
	bytes.Buffer
	cut bool
}

func (k *captured) Write(b []byte) (int, error) {
	n := len(b)
	if room := maxCaptured - k.Len(); n > room {
		b, k.cut = b[:room], true
	}
	_, _ = k.Buffer.Write(b)
	return n, nil
}

func (c *call) captureCommand(x *execution) error {
	var out, errs captured
	ended := Ended{Notes: []string{}}
	x.in.Note = func(text string) { ended.Notes = append(ended.Notes, term.Line(text)) }
	status, err := x.runCaptured(&out, &errs)
	if err != nil {
		return err
	}
	ended.Exit, ended.Truncated = status, out.cut || errs.cut
	ended.Stdout, ended.StdoutB64 = textOrBytes(out.Bytes())
	ended.Stderr, ended.StderrB64 = textOrBytes(errs.Bytes())
	return c.answer(http.StatusOK, ended)
}

func textOrBytes(b []byte) (string, []byte) {
	if utf8.Valid(b) {
		return string(b), nil
	}
	return "", b
}

// startedAfter is when a stream without output begins its answer: until then an error has a status of its own.
const startedAfter = time.Second

func (c *call) streamCommand(x *execution) error {
	l := &lines{call: c}
	waited := time.AfterFunc(startedAfter, func() { l.writeLine(nil) })
	defer waited.Stop()
	x.in.Note = func(text string) { l.writeLine(map[string]any{"note": term.Line(text)}) }
	status, err := x.in.Exec(x.ctx, x.command, headless.Streams{
		In: bytes.NewReader(x.stdin), Out: chunks{l, "stdout_b64"}, Err: chunks{l, "stderr_b64"},
	})
	if !l.endTimer() && err != nil { // nothing was sent
		return err
	}
	if err != nil {
		l.writeLine(document.FailureOf(err))
	} else {
		l.writeLine(map[string]any{"exit": status})
	}
	return nil
}

// lines writes lines of JSON.
type lines struct {
	call *call
	mu   sync.Mutex
	over bool // no timer may begin the answer any more
	err  error
}

// writeLine sends a line, and the header before the first. A nil value sends the header alone.
func (l *lines) writeLine(v any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil || v == nil && (l.over || l.call.begun) {
		return
	}
	if !l.call.begun {
		l.call.beginAnswer()
		l.call.w.Header().Set("Content-Type", "application/x-ndjson")
		l.call.w.WriteHeader(http.StatusOK)
	}
	rc := http.NewResponseController(l.call.w)
	_ = rc.SetWriteDeadline(time.Now().Add(l.call.server.patience.answer))
	if v != nil {
		b, err := json.Marshal(v)
		if err == nil {
			_, err = l.call.w.Write(append(term.EscapeJSON(b), '\n'))
		}
		l.err = err
	}
	if err := rc.Flush(); l.err == nil {
		l.err = err
	}
}

// endTimer keeps the timer from beginning the answer, and reports whether it has begun.
func (l *lines) endTimer() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	return l.call.begun
}

// chunks sends output as lines with one field.
type chunks struct {
	to    *lines
	field string
}

func (k chunks) Write(b []byte) (int, error) {
	k.to.writeLine(map[string]any{k.field: base64.StdEncoding.EncodeToString(b)})
	k.to.mu.Lock()
	defer k.to.mu.Unlock()
	return len(b), k.to.err
}
