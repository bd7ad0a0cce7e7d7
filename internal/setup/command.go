package setup

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/headless"
	"github.com/bothy-dev/bothy/internal/records"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// runCommand runs a command of the devcontainer.json inside, and shows its output.
func (s *sequence) runCommand(ctx context.Context, c spec.SetUp) error {
	s.viewer.Note("%s: %s", c.Title(), shownCommand(c.Args))
	began := time.Now()
	status, err := s.runInside(ctx, wire.Command{Args: c.Args})
	if ctx.Err() != nil {
		return err
	}
	if err == nil && status != 0 {
		err = fmt.Errorf("exit code %d", status)
	}
	if err == nil {
		return nil
	}
	return &spec.Error{
		Class: spec.ErrSandbox, Op: fmt.Sprintf("%s of %s", c.Title(), term.Sanitize(s.sandbox.Devcontainer.File)),
		Err: errors.New(err.Error()), Hint: s.hintFailed(began),
	}
}

// session returns a session for programs after which others follow.
func (s *sequence) session() *headless.Session {
	return &headless.Session{Engine: s.engine, Sandbox: s.sandbox, Prepares: true}
}

// runInside runs a program to its end, and shows its output.
func (s *sequence) runInside(ctx context.Context, q wire.Command) (status int, err error) {
	out, errs := term.NewLineWriters(s.viewer.Output)
	status, err = s.session().Run(ctx, q, "", out, errs)
	out.End()
	errs.End()
	return status, err
}

// hintFailed says what to do about a command that began at a time and failed.
func (s *sequence) hintFailed(began time.Time) string {
	name := s.sandbox.Name
	hint := "to look: bothy exec --no-setup -it " + name + " /bin/sh; the next bothy run or bothy exec begins with this command again"
	if s.sandbox.Remove {
		hint = "without --rm the sandbox stays, to look at it"
	}
	if refused := records.Refused(s.engine.Store, s.sandbox, began); len(refused) > 0 {
		hint = fmt.Sprintf("the network policy refused %s; if that is why: bothy policy allow --sandbox %s %s, or a --preset; %s", strings.Join(refused, ", "), name, refused[0], hint)
	}
	return hint
}

// maxShown bounds the part of a command that is shown, in characters.
const maxShown = 200

// shownCommand formats a command for people: a shell line as it was written.
func shownCommand(args []string) string {
	if len(args) == 3 && args[0] == "/bin/sh" && args[1] == "-c" {
		args = args[2:]
	}
	return term.Sanitize(term.Shorten(strings.Join(args, " "), maxShown))
}
