// Package headless runs programs in a sandbox without a person at a terminal: it runs them to their
// end, reads their output, puts files in before and takes a document out after. Terminals of people
// belong to the command line.
//
// Root inside the sandbox may have written any output that comes out of it.
package headless

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/carried"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// Session runs programs in a sandbox.
type Session struct {
	Engine  *engine.Engine
	Sandbox *spec.Sandbox
	Conn    *unixconn.Conn // with its keeper, for the first program; nil: make one
	// Prepares says that more programs follow, in a sandbox that is made for one command.
	Prepares bool
	// Note receives the keeper's notes on the programs; nil: they are dropped.
	Note func(text string)
}

// Close ends the conversation in Conn, if there is one. A program that was started over it has ended, or is left
// to itself.
func (s *Session) Close() {
	if s.Conn != nil {
		s.Conn.Close()
		s.Conn = nil
	}
}

// execRequest returns the request to run a command.
func (s *Session) execRequest(q wire.Command) wire.Ask {
	return wire.Ask{Op: wire.OpExec, Prepares: s.Prepares, Command: q}
}

// Retries for a sandbox that stops just while it is asked.
const (
	askTries = 50
	askPause = 50 * time.Millisecond
)

// Ask reaches a sandbox, starting it if needed, and starts a program in it. It returns the keeper's
// first answer; the caller owns the rest of the conversation.
func (s *Session) Ask(ctx context.Context, q wire.Ask, files ...*os.File) (*unixconn.Conn, wire.Started, error) {
	var started wire.Started
	if err := CheckCommand(&q.Command); err != nil {
		return nil, started, err
	}
	q.Command.Caller = carried.Settings(q.Command.Caller.Named, q.Command.TTY)
	for try := 1; ; try++ {
		conn := s.Conn
		var err error
		if conn == nil || try > 1 {
			if conn, err = s.Engine.Connect(ctx, s.Sandbox); err != nil {
				return nil, started, err
			}
		}
		if conn.SendJSON(wire.Request, q, files...) != nil {
			err = spec.ErrStopping // it ended before it read the request: a retry repeats nothing
		} else {
			done := s.Engine.Keepers().WhileAnswering(ctx, s.Sandbox, conn)
			err = unanswered(s.Sandbox.Name, conn.Expect(wire.Reply, &started))
			_ = done()
			if limit := time.Duration(q.Command.Timeout); err == nil && limit > 0 {
				conn.SetDeadline(time.Now().Add(limit + endPatience))
			}
		}
		if err == nil {
			return conn, started, nil
		}
		conn.Close()
		if ctx.Err() != nil {
			return nil, started, context.Cause(ctx)
		}
		if !errors.Is(err, spec.ErrStopping) || try == askTries {
			return nil, started, Lost(err)
		}
		time.Sleep(askPause)
	}
}

// CheckCommand refuses a command that cannot be passed into any sandbox.
func CheckCommand(q *wire.Command) error {
	for _, word := range slices.Concat(q.Args, q.Env, []string{q.Dir, q.User}) {
		if !utf8.ValidString(word) {
			return spec.Errorf(spec.ErrUsage, "%q is not UTF-8: it cannot be passed into a sandbox", word)
		}
	}
	return nil
}

// endPatience is how long after its time limit a command may end: a keeper that ends it needs some
// seconds.
const endPatience = 20 * time.Second

// unanswered returns the error for an unanswered request to start a command. A keeper that answers knows
// whether the command has begun; without an answer, it may have.
func unanswered(sandbox string, err error) error {
	if _, answered := errors.AsType[*spec.Error](err); err == nil || answered {
		return err
	}
	if errors.Is(err, unix.ECONNRESET) { // on a unix socket: the keeper closed it with the request unread
		return spec.ErrStopping
	}
	return spec.Errorf(spec.ErrMayHaveRun, "the command may have run: the sandbox ended before it said whether it has").
		WithHint("check its effects before you run it again; bothy logs --source events %s shows the fate of the sandbox", sandbox)
}

// Lost returns the error for a conversation that ended unexpectedly.
func Lost(err error) error {
	if _, ok := errors.AsType[*spec.Error](err); ok {
		return err
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return spec.Errorf(spec.ErrTimeout, "the time of the command is over, and the sandbox does not answer").
			WithHint("bothy stop ends the sandbox")
	}
	return spec.Errorf(spec.ErrSandbox, "the sandbox ended").
		WithHint("bothy ls shows its state, bothy inspect the reason")
}
