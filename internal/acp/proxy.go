package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// Agent is a running agent.
type Agent struct {
	In  io.WriteCloser // a write deadline, if it has one, bounds the wait for an agent that does not read
	Out io.Reader
	// Terminate asks the agent to end. Kill ends it with everything that it has started.
	Terminate, Kill func()
	// Wait returns once the agent has ended; the error says how. It is called once.
	Wait func() error
}

// Host is the machine of the editor, as far as the proxy needs it.
type Host interface {
	// Start starts the agent for a directory of the host, which is empty if the host knows it.
	Start(ctx context.Context, dir string) (*Agent, error)
	// Inside returns the path at which the agent sees a directory of the host. The error names the command
	// that shares the directory.
	Inside(dir string) (string, error)
	// CheckServer returns why the agent cannot use an MCP server, or nil if it can.
	CheckServer(ctx context.Context, m MCPServer) error
}

// Proxy connects one editor with one agent.
type Proxy struct {
	Host Host
	// Deferred says that the first session names the directory that the agent starts in. Until then the
	// proxy answers for the agent.
	Deferred bool
	// SkipServers leaves out MCP servers that cannot be used. Otherwise they are an error.
	SkipServers bool
	// Bypass is the mode of a session in which the agent asks for no permission. Empty: the editor's choice.
	Bypass string
	// Version is told to an editor that greets before the agent runs.
	Version string
	// Note receives messages for a person.
	Note func(format string, args ...any)
	// Grace bounds the wait for an agent after its input has ended, and again after Terminate. 0: the usual
	// 5 and 2 seconds.
	Grace time.Duration

	editor  *lineWriter
	begun   chan struct{} // closed when the agent runs, or could not be started
	over    chan struct{} // closed when the agent has ended
	noInput chan struct{} // closed when the editor's input has ended
	ended   chan error    // holds why the agent says nothing more
	agent   *Agent
	toAgent *lineWriter
	failed  error           // of the start
	exit    error           // how the agent ended
	hello   json.RawMessage // the editor's handshake

	mu      sync.Mutex
	asked   map[string]question // requests to the agent, by ID
	asks    map[string]bool     // requests of the agent, by ID
	form    bool                // the editor can show a form
	noted   map[string]bool     // refusals that were noted
	left    bool                // the conversation has ended before the agent was started
	lastOwn int
}

// question is a request to the agent that is not answered yet.
type question struct {
	method  string
	session string       // of a request to continue a session
	own     func(answer) // for a request of the proxy's own
}

// answer is a response of the agent.
type answer struct{ result, fault json.RawMessage }

// maxOpen bounds the open requests in each direction.
const maxOpen = 1024

// Run carries messages until the editor's input ends, ctx ends, or the agent has ended. Afterwards the
// agent is gone. The error is nil if the editor ended the conversation.
func (p *Proxy) Run(ctx context.Context, in io.Reader, out io.Writer) error {
	p.editor = &lineWriter{w: out, gone: errEditorGone}
	p.begun, p.over, p.ended = make(chan struct{}), make(chan struct{}), make(chan error, 1)
	p.noInput = make(chan struct{})
	p.asked, p.asks, p.noted = map[string]question{}, map[string]bool{}, map[string]bool{}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	lines := make(chan input, 4)
	go p.readEditor(ctx, in, lines)
	if !p.Deferred {
		go func() { _ = p.startAgent(ctx, "") }()
	}
	done := make(chan error, 1)
	go func() { done <- p.converse(ctx, lines) }()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		select {
		case err = <-done:
		case <-time.After(p.graceFor(killGrace)): // the editor does not read an answer
			err = context.Cause(ctx)
		}
	}
	cancel(nil) // of a start that is under way
	p.endAgent()
	if errors.Is(err, errEditorGone) {
		return nil
	}
	return err
}

// errEditorGone is the error of an editor that does not read any more.
var errEditorGone = errors.New("the editor has closed the connection")

// input is a line of the editor, or the error in its place.
type input struct {
	line []byte
	err  error
}

// readEditor reads the editor's lines until its input ends.
func (p *Proxy) readEditor(ctx context.Context, in io.Reader, lines chan<- input) {
	defer close(lines)
	defer close(p.noInput)
	r := newLineReader(in)
	for {
		line, err := r.readLine()
		if errors.Is(err, errTooLong) {
			if r.skipLine() != nil {
				return
			}
		} else if err != nil {
			return
		}
		select {
		case lines <- input{line, err}:
		case <-ctx.Done():
			return
		}
	}
}

// converse handles the editor's lines until one side is over.
func (p *Proxy) converse(ctx context.Context, lines <-chan input) error {
	for {
		select {
		case in, ok := <-lines:
			if !ok {
				return p.awaitPrepared(ctx)
			}
			if err := p.handleInput(ctx, in); err != nil {
				return err
			}
		case err := <-p.ended:
			p.ended <- err // for endAgent
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// awaitPrepared waits for a start that is under way at the end of the editor's input: a caller may want
// nothing but the preparation.
func (p *Proxy) awaitPrepared(ctx context.Context) error {
	if p.Deferred && !p.isRunning() {
		return nil
	}
	return p.awaitAgent(ctx)
}

func (p *Proxy) isRunning() bool {
	select {
	case <-p.begun:
		return true
	default:
		return false
	}
}

// startAgent starts the agent. It is called once, or again after an error if the start is deferred.
func (p *Proxy) startAgent(ctx context.Context, dir string) error {
	agent, err := p.Host.Start(ctx, dir)
	if err != nil && p.Deferred {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left && err == nil {
		_ = agent.In.Close()
		agent.Kill()
		return context.Cause(ctx)
	}
	p.agent, p.failed = agent, err
	if err == nil {
		p.toAgent = &lineWriter{w: agent.In, limit: stallTime}
		context.AfterFunc(ctx, func() { _ = agent.In.Close() }) // also ends a write to an agent that does not read
		go func() {
			p.exit = agent.Wait()
			close(p.over)
		}()
		go p.readAgent()
		go p.hurryAgent()
	}
	close(p.begun)
	return err
}

// hurryAgent bounds the wait for an agent that does not read, once the editor's input has ended.
func (p *Proxy) hurryAgent() {
	select {
	case <-p.noInput:
		p.toAgent.shorten(p.graceFor(usualGrace))
	case <-p.over:
	}
}

// awaitAgent waits until the agent runs.
func (p *Proxy) awaitAgent(ctx context.Context) error {
	select {
	case <-p.begun:
		return p.failed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// readAgent carries the agent's messages, and says why they end.
func (p *Proxy) readAgent() {
	r := newLineReader(p.agent.Out)
	for {
		line, err := r.readLine()
		switch {
		case err == nil:
			err = p.handleAgent(line)
		case errors.Is(err, errTooLong):
			err = violation(err)
		default:
			err = p.howEnded()
		}
		if err != nil {
			p.failOpen(err)
			return
		}
	}
}

// howEnded returns the error for an agent that has closed its output.
func (p *Proxy) howEnded() error {
	switch {
	case !isOver(p.over, p.graceFor(usualGrace)):
		return spec.Errorf(spec.ErrSandbox, "the agent has closed its output")
	case p.exit != nil:
		return p.exit
	}
	return spec.Errorf(spec.ErrSandbox, "the agent has ended")
}

// failOpen answers all open requests with an error, and ends the conversation.
func (p *Proxy) failOpen(err error) {
	p.mu.Lock()
	open := p.asked
	p.asked = map[string]question{}
	p.mu.Unlock()
	for id, q := range open {
		r := refusal(id, codeInternal, spec.Advised(err))
		if q.own != nil {
			q.own(answer{fault: r.fault})
		} else if p.editor.writeMessage(r) != nil {
			break
		}
	}
	p.ended <- err
}

const (
	usualGrace = 5 * time.Second
	killGrace  = 2 * time.Second
)

func (p *Proxy) graceFor(usual time.Duration) time.Duration {
	if p.Grace > 0 {
		return p.Grace
	}
	return usual
}

// endAgent ends the agent's input and waits for its end and its last messages. An agent that goes on is
// terminated, and then killed.
func (p *Proxy) endAgent() {
	p.mu.Lock()
	p.left = p.Deferred && !p.isRunning()
	p.mu.Unlock()
	if p.left {
		return
	}
	<-p.begun // a start ends when it is canceled
	if p.agent == nil {
		return
	}
	_ = p.agent.In.Close()
	if !isOver(p.over, p.graceFor(usualGrace)) {
		p.agent.Terminate()
		if !isOver(p.over, p.graceFor(killGrace)) {
			p.Note("the agent did not end, and is killed")
		}
	}
	p.agent.Kill() // its children may have outlived it
	select {
	case err := <-p.ended:
		_ = err // converse had the reason
	case <-time.After(p.graceFor(killGrace)): // the editor does not read
	}
}

func isOver(over <-chan struct{}, within time.Duration) bool {
	select {
	case <-over:
		return true
	case <-time.After(within):
		return false
	}
}

// violation is the error of an agent that does not keep to the protocol.
func violation(err error) error {
	return spec.Errorf(spec.ErrSandbox, "the agent broke the protocol: %w", err).
		WithHint("each line of its output must be one message of ACP; its standard error may tell more")
}

// noteOnce tells a person about a refused method, once.
func (p *Proxy) noteOnce(key, format string, args ...any) {
	p.mu.Lock()
	noted := p.noted[key] || len(p.noted) >= maxOpen
	if !noted {
		p.noted[key] = true
	}
	p.mu.Unlock()
	if !noted {
		p.Note("%s", fmt.Sprintf(format, args...))
	}
}
