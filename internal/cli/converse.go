package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/headless"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// session is what the command line knows about the program it watches.
type session struct {
	headless.Session
	keys     []byte // detach keys; empty turns detaching off
	reattach bool   // bothy run attaches to it again
	noStdin  bool
	rings    bool // the bell may ring when it waits for a person
	raw      bool // nothing is added to the program's output
}

// converse starts a program in a sandbox and stays with it until it ends or the terminal detaches.
// The command takes over the program's exit code.
func (a *app) converse(ctx context.Context, ask wire.Ask, s session) error {
	if ask.Command.TTY {
		return a.attach(ctx, ask, s)
	}
	return a.stream(ctx, ask, s)
}

// stream runs a program on pipes.
func (a *app) stream(ctx context.Context, q wire.Ask, s session) error {
	signal.Ignore(unix.SIGPIPE)
	st, err := cmdline.OpenStreams(a.App, s.noStdin)
	if err != nil {
		return err
	}
	defer st.Close()
	conn, _, err := s.Ask(ctx, q, st.Theirs[:]...)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer forwardSignals(conn)() // before the user sees output that they may answer with Ctrl-C
	st.Start()
	if ctx.Err() != nil { // a signal that came too early to be passed on
		return context.Cause(ctx)
	}
	for {
		f, err := conn.Receive()
		if err != nil {
			return headless.Lost(err)
		}
		switch f.Kind {
		case wire.Note:
			a.Note("%s", console.Printable(string(f.Payload)))
		case wire.Exit:
			ended, err := f.Ended()
			if err != nil {
				return err
			}
			if err := st.Drain(); err != nil && ended.Status() == 0 {
				return err
			}
			return exited(ended)
		case wire.Failure:
			_ = st.Drain()
			return f.Failure()
		}
	}
}

// forwarded are the signals that the CLI passes on to a program inside.
var forwarded = append([]os.Signal{unix.SIGUSR1, unix.SIGUSR2}, cmdline.Leaving...)

// forwardSignals passes signals on until the caller calls the returned function.
func forwardSignals(conn *unixconn.Conn) func() {
	sigs := make(chan os.Signal, 16)
	console.Notify(sigs, forwarded...)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case s := <-sigs:
				_ = conn.Send(wire.SignalFrame(0, int(s.(unix.Signal))))
			case <-done:
				return
			}
		}
	}()
	return func() { signal.Stop(sigs); close(done) }
}

// attach runs a program on a terminal inside, shown on ours.
func (a *app) attach(ctx context.Context, q wire.Ask, s session) error {
	q.Command.Env = append([]string{"TERM=" + cmp.Or(os.Getenv("TERM"), "xterm")}, q.Command.Env...)
	if size, ok := a.terminalSize(); ok {
		q.Command.Size = size
	} else if s.raw {
		q.Command.Size = wire.Winsize{Rows: 24, Cols: 80} // the usual one: many programs cannot draw without a size
	}
	conn, started, err := s.Ask(ctx, q)
	if err != nil {
		return err
	}
	defer conn.Close()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if started.Existing {
		a.Note("back in the running session; a second shell beside it: bothy exec -it %s sh", s.Sandbox.Name)
	}
	return a.watchSession(conn, s)
}

// watchSession shows a session until it ends or the user detaches.
func (a *app) watchSession(conn *unixconn.Conn, s session) error {
	var raw *term.Raw
	if term.IsTerminal(a.In) {
		var err error
		if raw, err = term.MakeRaw(a.In); err != nil {
			return err
		}
		raw.Silent = s.raw
	}
	var out io.Writer = a.Out
	restore := func() {}
	var b *bell
	if raw != nil {
		out = io.MultiWriter(&raw.Modes, a.Out)
		if s.rings {
			b = newBell(a.Settings.Bell, s.Sandbox.Name, a.Out)
		}
		if b != nil {
			out = io.MultiWriter(&raw.Modes, a.Out, b)
		}
		restore = func() { b.silence(); _ = raw.Restore() }
	}
	defer restore()

	detached := make(chan error, 2)
	stopSignals := a.watchSignals(conn, func(why error) { detached <- why })
	defer stopSignals()
	go a.typeKeys(conn, s.keys, b, detached)

	var notes []string
	result := make(chan error, 1)
	go func() {
		if raw != nil && !s.raw && a.Settings.Title() {
			_, _ = io.WriteString(out, raw.Title(s.Sandbox.Name))
		}
		result <- showOutput(conn, out, &notes)
	}()
	select {
	case err := <-result:
		restore()
		for _, n := range notes {
			a.Note("%s", console.Printable(n))
		}
		return err
	case why := <-detached:
		if errors.Is(why, errDetached) {
			_ = conn.Send(wire.Frame{Kind: wire.Detach})
		}
		conn.Close() // show no more output: it could set terminal modes again
		if err := <-result; err != nil && !errors.Is(err, spec.ErrSandbox) {
			a.Note("%v", err) // it ended for another reason than our closing
		}
		restore()
		if errors.Is(why, errDetached) {
			fmt.Fprintln(a.Err)
			if s.reattach {
				a.Note("detached; the session goes on: bothy run --name %s", s.Sandbox.Name)
			} else {
				a.Note("detached; the command goes on in %s", s.Sandbox.Name)
			}
			return nil
		}
		return why
	}
}

var errDetached = errors.New("detached")

// showOutput prints the program's output. It keeps notes for later, because the program still owns the
// terminal.
func showOutput(conn *unixconn.Conn, out io.Writer, notes *[]string) error {
	for {
		f, err := conn.Receive()
		if err != nil {
			return headless.Lost(err)
		}
		switch f.Kind {
		case wire.Data, wire.Data2:
			if _, err := out.Write(f.Payload); err != nil {
				return &spec.Error{Op: "write to the terminal", Err: err}
			}
		case wire.Note:
			*notes = append(*notes, string(f.Payload))
		case wire.Exit:
			ended, err := f.Ended()
			if err != nil {
				return err
			}
			return exited(ended)
		case wire.Failure:
			return f.Failure()
		}
	}
}

// keyPatience is how long the first half of the detach keys is held back.
const keyPatience = 500 * time.Millisecond

// typeKeys sends the user's keys. The end of input does not end the session: the program may go on
// printing.
func (a *app) typeKeys(conn *unixconn.Conn, keys []byte, bell *bell, detached chan<- error) {
	filter := term.NewFilter(keys)
	typed := make(chan []byte)
	go func() {
		defer close(typed)
		for {
			b := make([]byte, wire.Chunk)
			n, err := a.In.Read(b)
			if n > 0 {
				typed <- b[:n]
			}
			if err != nil {
				return
			}
		}
	}()
	send := func(b []byte) {
		if len(b) > 0 {
			_ = conn.Send(wire.Frame{Kind: wire.Data, Payload: b})
		}
	}
	timer := time.NewTimer(0)
	for {
		select {
		case b, ok := <-typed:
			if !ok {
				_ = conn.Send(wire.Frame{Kind: wire.EOF})
				return
			}
			bell.noteKeys(b)
			out, gone := filter.Feed(b)
			send(out)
			if gone {
				detached <- errDetached
				return
			}
			if filter.Holding() {
				timer.Reset(keyPatience)
			}
		case <-timer.C:
			send(filter.Flush())
		}
	}
}

// watchSignals keeps the window size in sync, and leaves in order on a signal to end. An agent
// inside then keeps running; the keeper hangs up any other program.
func (a *app) watchSignals(conn *unixconn.Conn, leave func(error)) func() {
	sigs := make(chan os.Signal, 16)
	console.Notify(sigs, unix.SIGWINCH, unix.SIGTERM, unix.SIGHUP, unix.SIGINT, unix.SIGQUIT)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-done:
				return
			case s := <-sigs:
				if s == unix.SIGWINCH {
					if size, ok := a.terminalSize(); ok {
						_ = conn.Send(wire.ResizeFrame(0, size))
					}
					continue
				}
				leave(&spec.Exited{Code: spec.ExitSignal + int(s.(unix.Signal))})
				return
			}
		}
	}()
	return func() { signal.Stop(sigs); close(done) }
}

// terminalSize returns the terminal's size, if there is one.
func (a *app) terminalSize() (wire.Winsize, bool) {
	s, err := term.Winsize(a.Out)
	return wire.Winsize{Rows: s.Row, Cols: s.Col, Width: s.Xpixel, Height: s.Ypixel}, err == nil
}

// exited turns the end of a program into the command's result.
func exited(e wire.Ended) error {
	if e.Status() == 0 {
		return nil
	}
	return &spec.Exited{Code: e.Status()}
}
