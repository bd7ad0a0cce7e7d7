package headless

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	pipes, err := openPipes()
	if err != nil {
		return 0, err
	}
	defer pipes.close()
	conn, _, err := s.Ask(ctx, s.exec(q), pipes.theirs[:]...)
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
	go end(conn, enough, over)
	ended := pipes.copy(stdin, stdout, stderr)
	f, err := conn.Receive()
	var notes []byte // for the end: until then the goroutine that copies the output writes to stderr
	for err == nil && f.Kind == wire.Note {
		notes = fmt.Appendf(notes, "%s\n", f.Payload)
		f, err = conn.Receive()
	}
	select {
	case <-ended:
	case <-ctx.Done():
	case <-time.After(outputPatience): // a child holds the streams open
	}
	pipes.close()
	<-ended
	_, _ = stderr.Write(notes)
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	return endOf(f, err)
}

// endGrace is how long an unwanted program may take to end.
const endGrace = time.Second

// end ends a program when enough is closed, unless it has ended by then.
func end(conn *unixconn.Conn, enough, over <-chan struct{}) {
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

// endOf returns how a running command ended.
func endOf(f wire.Frame, err error) (int, error) {
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
