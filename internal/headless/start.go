package headless

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/bothy-dev/bothy/internal/guest"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// maxComplaint is how much of a program's stderr is read, in bytes.
const maxComplaint = 4096

// Start starts a program, to talk with it over pipes. A nil stream carries nothing. The returned
// function waits for the program, or until ctx ends, and returns the program's complaint as an error.
func (s *Session) Start(ctx context.Context, q wire.Command, stdin, stdout *os.File) (wait func() error, err error) {
	er, ew, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer ew.Close()
	nr, nw, err := os.Pipe() // for the unused stream
	if err != nil {
		er.Close()
		return nil, err
	}
	defer nr.Close()
	defer nw.Close()
	if stdin == nil {
		stdin = nr
	}
	if stdout == nil {
		stdout = nw
	}
	conn, _, err := s.Ask(ctx, s.execRequest(q), stdin, stdout, ew)
	if err != nil {
		er.Close()
		return nil, err
	}
	complaint := make(chan string, 1)
	go func() {
		defer er.Close()
		b, _ := io.ReadAll(io.LimitReader(er, maxComplaint))
		complaint <- term.Sanitize(strings.TrimSpace(string(b)))
	}()
	return func() error {
		defer conn.Close()
		defer context.AfterFunc(ctx, func() { conn.Close() })() // root inside may have stopped the program
		f, err := conn.Receive()
		for err == nil && f.Kind == wire.Note {
			if s.Note != nil {
				s.Note(string(f.Payload))
			}
			f, err = conn.Receive()
		}
		if err != nil {
			return Lost(err)
		}
		if f.Kind == wire.Failure {
			return f.Failure()
		}
		ended, err := f.Ended()
		if err != nil || ended.Status() == 0 {
			return err
		}
		why := ""
		select {
		case why = <-complaint:
		case <-ctx.Done(): // a process inside holds the stream
		}
		return complained(ended.Status(), why)
	}, nil
}

// complained returns the error for a program that failed.
func complained(status int, why string) error {
	var class error
	if status == guest.CopyNotFound {
		class = spec.ErrNotFound
	}
	return spec.Errorf(class, "in the sandbox: %s", cmp.Or(why, fmt.Sprintf("exit status %d", status)))
}
