package sshserver

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/guest"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
)

// Bounds of a session.
const (
	maxVariables = 64
	maxValue     = 1024 // of a variable, in bytes
	maxTerm      = 64   // of a terminal's name, in bytes
)

// session is a channel in which one program runs.
type session struct {
	s       *server
	ch      ssh.Channel
	env     []string
	tty     bool
	size    wire.Winsize
	began   bool
	out     *outflow      // of a program without a terminal; else nil
	running chan struct{} // closed when the program has ended
	wake    chan struct{} // has an element if something is pending

	mu      sync.Mutex // guards all below
	conn    *unixconn.Conn
	gone    bool         // the client closed the channel
	deaf    bool         // the client reads no more output
	pending []wire.Frame // for the program: the last size, and each signal at most once
}

// serveSession serves a session until the client closes it and its program has ended.
func (s *server) serveSession(ctx context.Context, nc ssh.NewChannel) {
	ch, requests, err := nc.Accept()
	if err != nil {
		return
	}
	t := &session{s: s, ch: ch, running: make(chan struct{}), wake: make(chan struct{}, 1)}
	for r := range requests {
		ok := t.request(ctx, r)
		if r.WantReply {
			_ = r.Reply(ok, nil)
		}
		if t.began && (r.Type == "exec" || r.Type == "shell" || r.Type == "subsystem") && ok {
			go t.runProgram(ctx, t.command(r))
		}
	}
	t.hangUp()
	if t.began {
		<-t.running
	}
	_ = ch.Close()
}

// request carries out a request of the client. A malformed one fails.
func (t *session) request(ctx context.Context, r *ssh.Request) bool {
	switch r.Type {
	case "env":
		return t.setVariable(r.Payload)
	case "pty-req":
		return t.openTerminal(r.Payload)
	case "window-change":
		return t.resize(r.Payload)
	case "signal":
		return t.signal(r.Payload)
	case "eow@openssh.com":
		t.endOutput()
		return true
	case "exec", "shell", "subsystem":
		if t.began || ctx.Err() != nil || !t.isCommand(r) {
			return false
		}
		t.began = true
		return true
	case "auth-agent-req@openssh.com":
		t.s.refuse("forwarding of the SSH agent is refused: a sandbox must not use your keys; lend it a secret: bothy secret lease --help")
	case "x11-req":
		t.s.refuse("forwarding of X11 is refused: a program on your display can read its keys and windows")
	}
	return false
}

// setVariable sets an environment variable of the program.
func (t *session) setVariable(payload []byte) bool {
	var v struct{ Name, Value string }
	if ssh.Unmarshal(payload, &v) != nil || t.began || len(t.env) >= maxVariables {
		return false
	}
	if !mayPass(v.Name) || len(v.Value) > maxValue || !isPlain(v.Value) {
		return false
	}
	t.env = append(t.env, v.Name+"="+v.Value)
	return true
}

// openTerminal gives the program a terminal.
func (t *session) openTerminal(payload []byte) bool {
	var p struct {
		Term                      string
		Cols, Rows, Width, Height uint32
		Modes                     string
	}
	if ssh.Unmarshal(payload, &p) != nil || t.began || t.tty || len(p.Term) > maxTerm || !isPlain(p.Term) {
		return false
	}
	t.tty, t.size = true, winsize(p.Cols, p.Rows, p.Width, p.Height)
	if p.Term != "" {
		t.env = append(t.env, "TERM="+p.Term)
	}
	return true
}

// winsize returns a size of a terminal. One that no terminal has becomes the largest.
func winsize(cols, rows, width, height uint32) wire.Winsize {
	fit := func(n uint32) uint16 { return uint16(min(n, 1<<16-1)) }
	return wire.Winsize{Cols: fit(cols), Rows: fit(rows), Width: fit(width), Height: fit(height)}
}

func (t *session) resize(payload []byte) bool {
	var p struct{ Cols, Rows, Width, Height uint32 }
	if ssh.Unmarshal(payload, &p) != nil || !t.tty {
		return false
	}
	w := winsize(p.Cols, p.Rows, p.Width, p.Height)
	t.size = w
	if t.began {
		t.queueFrame(wire.ResizeFrame(0, w))
	}
	return true
}

// signals are the signals that SSH has names for.
var signals = map[string]unix.Signal{
	"ABRT": unix.SIGABRT, "ALRM": unix.SIGALRM, "FPE": unix.SIGFPE, "HUP": unix.SIGHUP, "ILL": unix.SIGILL,
	"INT": unix.SIGINT, "KILL": unix.SIGKILL, "PIPE": unix.SIGPIPE, "QUIT": unix.SIGQUIT, "SEGV": unix.SIGSEGV,
	"TERM": unix.SIGTERM, "USR1": unix.SIGUSR1, "USR2": unix.SIGUSR2,
}

func (t *session) signal(payload []byte) bool {
	var p struct{ Name string }
	if ssh.Unmarshal(payload, &p) != nil || !t.began {
		return false
	}
	sig, known := signals[p.Name]
	if known {
		t.queueFrame(wire.SignalFrame(0, int(sig)))
	}
	return known
}

// isCommand reports whether a request to start a program can be carried out.
func (t *session) isCommand(r *ssh.Request) bool {
	var p struct{ Word string }
	switch r.Type {
	case "shell":
		return len(r.Payload) == 0
	case "exec":
		return ssh.Unmarshal(r.Payload, &p) == nil && !strings.ContainsRune(p.Word, 0)
	}
	return ssh.Unmarshal(r.Payload, &p) == nil && p.Word == "sftp" && !t.tty
}

// command returns the program that a request means.
func (t *session) command(r *ssh.Request) wire.Command {
	args := []string{guest.Path, guest.ShellName}
	switch r.Type {
	case "exec":
		var p struct{ Word string }
		_ = ssh.Unmarshal(r.Payload, &p) // isCommand has read it
		args = append(args, p.Word)
	case "subsystem":
		args = []string{guest.Path, guest.SftpName}
	}
	return wire.Command{Args: args, Env: t.env, Dir: "/", User: t.s.user, TTY: t.tty, Size: t.size}
}

// queueFrame has a size or a signal sent to the program, now or when it has started. It does not wait: a program
// that does not read its terminal blocks its connection with the keeper. A new size replaces one that waits, and a
// signal that waits is not repeated.
func (t *session) queueFrame(f wire.Frame) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.IndexFunc(t.pending, func(p wire.Frame) bool {
		return p.Kind == f.Kind && (f.Kind == wire.Resize || bytes.Equal(p.Payload, f.Payload))
	})
	if i >= 0 {
		t.pending[i] = f
		return
	}
	t.pending = append(t.pending, f)
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// started hands over the connection with the keeper. It is false if the client has gone.
func (t *session) started(conn *unixconn.Conn) bool {
	t.mu.Lock()
	if t.gone {
		t.mu.Unlock()
		return false
	}
	t.conn = conn
	t.mu.Unlock()
	if t.sendPending(conn) == nil { // before any input
		go t.keepSending(conn)
	}
	return true
}

// keepSending sends the program the client's sizes and signals until the program has ended.
func (t *session) keepSending(conn *unixconn.Conn) {
	for {
		select {
		case <-t.running:
			return
		case <-t.wake:
		}
		if t.sendPending(conn) != nil {
			return
		}
	}
}

// sendPending sends the program the sizes and signals that wait.
func (t *session) sendPending(conn *unixconn.Conn) error {
	t.mu.Lock()
	frames := t.pending
	t.pending = nil
	t.mu.Unlock()
	for _, f := range frames {
		if err := conn.Send(f); err != nil {
			return err
		}
	}
	return nil
}

// hangUp ends the program's conversation: the client has closed the channel. The keeper hangs up the
// program.
func (t *session) hangUp() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.gone = true
	if t.conn != nil {
		t.conn.Close()
	}
}

// endOutput closes the program's output: its reader has gone.
func (t *session) endOutput() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.deaf = true
	if t.out != nil {
		t.out.closeStream()
	}
}
