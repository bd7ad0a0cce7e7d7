// Package runner does the work of loops and flows. Agents and commands work unattended in sandboxes of
// the engine, and are judged in copies that they cannot reach. internal/loop and internal/flow decide
// the next action without knowing sandboxes. internal/launch makes the sandboxes.
package runner

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/bothy-dev/bothy/internal/checkpoint"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/headless"
	"github.com/bothy-dev/bothy/internal/snapshot"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// Host is the owner of a runner. It talks to the person who watches.
type Host interface {
	// Note tells the person something.
	Note(format string, args ...any)
	// SetUp runs the due commands of a sandbox's devcontainer.json.
	SetUp(ctx context.Context, sb *spec.Sandbox) error
	// InstallAgent returns the program of an agent for a sandbox, and installs it if it is missing.
	InstallAgent(ctx context.Context, of *spec.Agent, sb *spec.Sandbox) (*spec.Program, error)
}

// base has the common parts of all work.
type base struct {
	host      Host
	engine    *engine.Engine
	snapshots *snapshot.Snapshots
	// going counts background work, which must end before the runner does.
	going sync.WaitGroup
}

// Grace is how long the remaining processes may take to end after the work: the agent has ended, so they
// have nothing to save.
const Grace = time.Second

// exchange copies work from one sandbox to another.
func (s *base) exchange() *snapshot.Exchange { return snapshot.NewExchange(s.snapshots) }

// sessionIn returns a session that runs programs in a sandbox.
func (s *base) sessionIn(sb *spec.Sandbox) *headless.Session {
	return &headless.Session{Engine: s.engine, Sandbox: sb, Note: func(text string) { s.host.Note("%s", text) }}
}

// preparedSession returns a session in a sandbox that was made for one command, before that command
// runs.
func (s *base) preparedSession(sb *spec.Sandbox) *headless.Session {
	in := s.sessionIn(sb)
	in.Prepares = true
	return in
}

// runCommand runs a command to its end, or until enough is closed. It returns the end of its stderr.
func runCommand(ctx context.Context, enough <-chan struct{}, in *headless.Session, q wire.Command, stdin string, stdout, stderr io.Writer) (status int, said string, err error) {
	last := &headless.Ending{}
	status, err = in.RunUntil(ctx, enough, q, stdin, stdout, io.MultiWriter(stderr, last))
	return status, last.String(), err
}

// inProof calls f with a copy of a sandbox's work, and removes the copy afterwards.
func (s *base) inProof(ctx context.Context, of *spec.Sandbox, p checkpoint.Point, f func(*spec.Sandbox) error) error {
	sb, err := s.snapshots.Proof(ctx, of, p)
	if err != nil {
		return err
	}
	defer s.removeCopy(ctx, sb)
	return f(sb)
}

// removeCopy removes a copy in the background, even after ctx is cancelled. Closing the runner waits for
// that.
func (s *base) removeCopy(ctx context.Context, sb *spec.Sandbox) {
	s.going.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		if err := s.engine.Remove(ctx, sb, true); err != nil {
			s.host.Note("%s was not removed: %v", sb.Name, err)
		}
	})
}
