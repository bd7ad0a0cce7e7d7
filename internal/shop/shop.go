// Package shop is where the work of loops and flows is done: in sandboxes of the engine, by
// agents and commands that nobody is at, judged in copies that those cannot reach. What comes
// next is decided by internal/loop and internal/flow, which know no sandboxes; who watches, and
// which sandboxes there are, is the command line's to know.
package shop

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/bothy-dev/bothy/internal/checkpoint"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/inside"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// Host is who has a shop: whom a person watches.
type Host interface {
	// Note tells something.
	Note(format string, args ...any)
	// SetUp runs those commands of a sandbox's devcontainer.json that are due.
	SetUp(ctx context.Context, sb *spec.Sandbox) error
	// House finds the program of an agent for a sandbox. It is installed if it is not there.
	House(ctx context.Context, of *spec.Agent, sb *spec.Sandbox) (*spec.Program, error)
}

// shop is what all work needs.
type shop struct {
	host   Host
	engine *engine.Engine
	// going is what is done beside the work, and has to be over at the end.
	going sync.WaitGroup
}

// Grace is how long what still runs when work is over may take to end: the agent has ended,
// so that it is nothing that has to save anything.
const Grace = time.Second

// in is a sandbox that programs are run in.
func (s *shop) in(sb *spec.Sandbox) *inside.Session {
	return &inside.Session{Engine: s.engine, Sandbox: sb, Note: func(text string) { s.host.Note("%s", text) }}
}

// preparing is a sandbox that is made for one command, before that.
func (s *shop) preparing(sb *spec.Sandbox) *inside.Session {
	in := s.in(sb)
	in.Prepares = true
	return in
}

// run runs a command to its end, or until enough is closed, and gives the end of what it said
// on standard error.
func run(ctx context.Context, enough <-chan struct{}, in *inside.Session, q wire.Command, stdin string, stdout, stderr io.Writer) (status int, said string, err error) {
	last := &inside.Ending{}
	status, err = in.RunUntil(ctx, enough, q, stdin, stdout, io.MultiWriter(stderr, last))
	return status, last.String(), err
}

// inProof does something in a copy of what a sandbox worked on, which is gone afterwards.
func (s *shop) inProof(ctx context.Context, of *spec.Sandbox, p checkpoint.Point, f func(*spec.Sandbox) error) error {
	sb, err := s.engine.Proof(ctx, of, p)
	if err != nil {
		return err
	}
	defer s.remove(ctx, sb)
	return f(sb)
}

// remove removes a copy, whatever has ended what was done in it. Nobody waits for that but
// who ends the work.
func (s *shop) remove(ctx context.Context, sb *spec.Sandbox) {
	s.going.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		if err := s.engine.Remove(ctx, sb, true); err != nil {
			s.host.Note("%s was not removed: %v", sb.Name, err)
		}
	})
}
