package sshserver

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/bothy-dev/bothy/internal/headless"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// runProgram runs the session's program to its end, and tells the client how it ended.
func (t *session) runProgram(ctx context.Context, c wire.Command) {
	defer close(t.running)
	defer func() { _ = t.ch.Close() }()
	ask := wire.Ask{Op: wire.OpExec, Prepares: true, Spares: true, Command: c}
	var ended wire.Ended
	var err error
	if c.TTY {
		ended, err = t.runOnTerminal(ctx, ask)
	} else {
		ended, err = t.runOnPipes(ctx, ask)
	}
	if err != nil {
		t.complain(err)
		ended = wire.Ended{Code: spec.ExitCode(err)}
	}
	t.tellEnd(ended)
}

// complain writes an error for the person.
func (t *session) complain(err error) {
	t.sayLine("error: " + err.Error())
	if hint := spec.Hint(err); hint != "" {
		t.sayLine("hint: " + hint)
	}
}

// sayLine writes a line of our own to the client's standard error.
func (t *session) sayLine(text string) {
	fmt.Fprintf(t.ch.Stderr(), "bothy: %s\r\n", term.Sanitize(text))
}

// tellEnd sends the program's status.
func (t *session) tellEnd(e wire.Ended) {
	for name, sig := range signals {
		if int(sig) == e.Signal {
			_, _ = t.ch.SendRequest("exit-signal", false, ssh.Marshal(struct {
				Name     string
				Core     bool
				Text     string
				Language string
			}{Name: name}))
			return
		}
	}
	_, _ = t.ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{uint32(e.Status())}))
}

// runOnTerminal runs a program on a terminal inside.
func (t *session) runOnTerminal(ctx context.Context, ask wire.Ask) (wire.Ended, error) {
	conn, _, err := t.s.Inside.Ask(ctx, ask)
	if err != nil {
		return wire.Ended{}, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })() // ctx ends with the client
	if !t.started(conn) {
		return wire.Ended{}, nil
	}
	go t.typeKeys(conn)
	return t.awaitEnd(conn, t.ch)
}

// typeKeys sends the client's input to the terminal. Its end does not end the program.
func (t *session) typeKeys(conn *unixconn.Conn) {
	buf := make([]byte, wire.Chunk)
	for {
		n, err := t.ch.Read(buf)
		if n > 0 && conn.Send(wire.Frame{Kind: wire.Data, Payload: buf[:n]}) != nil || err != nil {
			return
		}
	}
}

// awaitEnd receives the keeper's frames until the program has ended. It writes output of a terminal to
// out.
func (t *session) awaitEnd(conn *unixconn.Conn, out io.Writer) (wire.Ended, error) {
	for {
		f, err := conn.Receive()
		if err != nil {
			return wire.Ended{}, headless.Lost(err)
		}
		switch f.Kind {
		case wire.Data, wire.Data2:
			if _, err := out.Write(f.Payload); err != nil {
				return wire.Ended{}, err
			}
		case wire.Note:
			t.sayLine(string(f.Payload))
		case wire.Exit:
			return f.Ended()
		case wire.Failure:
			return wire.Ended{}, f.Failure()
		}
	}
}

// runOnPipes runs a program on pipes.
func (t *session) runOnPipes(ctx context.Context, ask wire.Ask) (wire.Ended, error) {
	p, err := openPipes()
	if err != nil {
		return wire.Ended{}, err
	}
	defer p.closeAll()
	conn, _, err := t.s.Inside.Ask(ctx, ask, p.theirs[:]...)
	p.closeTheirs()
	if err != nil {
		return wire.Ended{}, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })() // ctx ends with the client
	if !t.started(conn) {
		return wire.Ended{}, nil
	}
	in := p.ours[0]
	go func() {
		_, _ = io.Copy(in, t.ch) // a program may ignore its input
		in.Close()
	}()
	out, errs := newOutflow(p.ours[1], t.ch), newOutflow(p.ours[2], t.ch.Stderr())
	t.watchOutput(out)
	ended, err := t.awaitEnd(conn, io.Discard)
	drainFlows(out, errs)
	return ended, err
}

// watchOutput lets the client end the program's output, or ends it if the client has done so before.
func (t *session) watchOutput(out *outflow) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.out = out
	if t.deaf {
		out.closeStream()
	}
}

// quiet is how long output must not move after the program's end before it counts as finished, although a
// child of the program holds the stream open.
const quiet = 150 * time.Millisecond

// drainFlows waits for the last output of a program that has ended. A client that does not read is waited for.
func drainFlows(flows ...*outflow) {
	for _, o := range flows {
		for !o.isOver() {
			before := o.moved.Load()
			select {
			case <-o.done:
			case <-time.After(quiet):
				if !o.src.IsPending() && o.moved.Load() == before {
					o.closeStream()
				}
			}
		}
	}
}

// pipes are the standard streams of a program.
type pipes struct{ theirs, ours [3]*os.File }

func openPipes() (*pipes, error) {
	p := &pipes{}
	for i := range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			p.closeAll()
			return nil, fmt.Errorf("make a pipe: %w", err)
		}
		p.theirs[i], p.ours[i] = w, r
		if i == 0 {
			p.theirs[i], p.ours[i] = r, w
		}
	}
	return p, nil
}

func (p *pipes) closeTheirs() {
	for i, f := range p.theirs {
		if f != nil {
			f.Close()
			p.theirs[i] = nil
		}
	}
}

func (p *pipes) closeAll() {
	p.closeTheirs()
	for _, f := range p.ours {
		if f != nil {
			f.Close()
		}
	}
}

// firstLine returns the beginning of a text from inside, to be shown.
func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return term.Sanitize(line)
}
