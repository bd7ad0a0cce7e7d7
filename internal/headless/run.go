package headless

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// CutShort says why a command that had begun, or may have, did not end by itself.
type CutShort struct{ Why error }

func (c *CutShort) Error() string { return c.Why.Error() }

func (c *CutShort) Unwrap() error { return c.Why }

// outputPatience is how long to wait for output after the program has ended.
const outputPatience = 2 * time.Second

// Run runs a command to its end and returns its status. Unlike a person's command it gets no
// signals, and it is abandoned when ctx ends. Both writers are used at the same time.
func (s *Session) Run(ctx context.Context, q wire.Command, stdin string, stdout, stderr io.Writer) (status int, err error) {
	return s.RunUntil(ctx, nil, q, stdin, stdout, stderr)
}

// RunUntil is Run for a command that is ended when enough is closed. Unlike an abandoned command, such a
// command does not end the sandbox that was made for it.
func (s *Session) RunUntil(ctx context.Context, enough <-chan struct{}, q wire.Command, stdin string, stdout, stderr io.Writer) (status int, err error) {
	tell := func(notes []string) {
		for _, n := range notes {
			fmt.Fprintln(stderr, n)
		}
	}
	st := Streams{strings.NewReader(stdin), stdout, stderr}
	pipes, err := openPipes(st.In, false)
	if err != nil {
		return 0, err
	}
	return s.run(ctx, ctx, enough, q, pipes, st, tell)
}

// Streams are the streams of a program.
type Streams struct {
	// In is the input; nil: none. The program reads a pipe itself. Any other [os.File] is read until the
	// program ends: bytes that arrive later stay in it, but bytes that were read, and that the program did
	// not read, are lost. A Read of any other reader may go on after the program's end, in a goroutine of its
	// own, and its bytes are lost.
	In       io.Reader
	Out, Err io.Writer // the same writer for both gets their output in order
}

// abandonTime is how long Exec waits for the end of a program that it has ended. The time of an unwanted
// program is over by then.
const abandonTime = 4 * endGrace

// Exec runs a command to its end and returns its status. When ctx ends, the program gets SIGTERM, and
// SIGKILL a second later; the error is the cause of ctx. A program whose output a writer does not take gets
// SIGPIPE when it writes more; the error is the writer's if the program succeeds nevertheless.
func (s *Session) Exec(ctx context.Context, q wire.Command, st Streams) (status int, err error) {
	waits, abandon := context.WithCancelCause(context.WithoutCancel(ctx))
	defer abandon(nil)
	defer context.AfterFunc(ctx, func() {
		time.AfterFunc(abandonTime, func() { abandon(context.Cause(ctx)) })
	})()
	tell := func(notes []string) {
		for _, n := range notes {
			if s.Note != nil {
				s.Note(n)
			}
		}
	}
	pipes, err := openPipes(st.In, sameWriter(st.Out, st.Err))
	if err != nil {
		return 0, err
	}
	status, err = s.run(ctx, waits, ctx.Done(), q, pipes, st, tell)
	if ctx.Err() != nil {
		return status, context.Cause(ctx)
	}
	if err == nil && status == 0 {
		err = pipes.lostOutput()
	}
	return status, err
}

// sameWriter reports whether two writers are the same. Writers of some types cannot be compared.
func sameWriter(a, b io.Writer) bool {
	defer func() { _ = recover() }()
	return a == b
}

// run runs a command. starting ends the attempt to start it, ctx the wait for it. It gives the keeper's
// notes to tell when the output has ended.
func (s *Session) run(starting, ctx context.Context, enough <-chan struct{}, q wire.Command, pipes *pipes, st Streams, tell func([]string)) (status int, err error) {
	defer pipes.close()
	conn, _, err := s.Ask(starting, s.execRequest(q), pipes.theirs[:]...)
	if errors.Is(err, spec.ErrMayHaveRun) {
		return 0, &CutShort{err}
	}
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	over := make(chan struct{})
	defer close(over)
	go endWhenEnough(conn, enough, over)
	ended := pipes.copyStreams(st)
	f, err := conn.Receive()
	var notes []string // for the end: until then the goroutine that copies the output writes to stderr
	for err == nil && f.Kind == wire.Note {
		notes = append(notes, string(f.Payload))
		f, err = conn.Receive()
	}
	pipes.endInput()
	select {
	case <-ended:
	case <-ctx.Done():
	case <-time.After(outputPatience): // a child holds the streams open
	}
	pipes.close()
	<-ended
	tell(notes)
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	return exitOf(f, err)
}

// endGrace is how long an unwanted program may take to end.
const endGrace = time.Second

// endWhenEnough ends a program when enough is closed, unless it has ended by then.
func endWhenEnough(conn *unixconn.Conn, enough, over <-chan struct{}) {
	select {
	case <-over:
		return
	case <-enough:
	}
	for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGKILL} {
		if conn.Send(wire.SignalFrame(0, int(sig))) != nil { // the program has ended
			return
		}
		select {
		case <-over:
			return
		case <-time.After(endGrace):
		}
	}
}

// exitOf returns how a running command ended.
func exitOf(f wire.Frame, err error) (int, error) {
	switch {
	case err != nil:
		return 0, &CutShort{Lost(err)}
	case f.Kind == wire.Failure:
		err := f.Failure()
		if errors.Is(err, spec.ErrTimeout) || errors.Is(err, spec.ErrSandbox) {
			err = &CutShort{err}
		}
		return 0, err
	}
	e, err := f.Ended()
	return e.Status(), err
}
