package cli

import (
	"context"
	"strings"

	"github.com/bothy-dev/bothy/internal/checkpoint"
	"github.com/bothy-dev/bothy/spec"
)

// flowFork is what the copies of a flow begin with, if it is not what PATH is.
type flowFork struct {
	text string // SANDBOX, or SANDBOX@CHECKPOINT

	of    *spec.Sandbox // nil: nothing
	past  string        // a checkpoint of it; empty is now
	point checkpoint.Point
}

// branch finds the sandbox that the copies go on from. Without PATH they work on what it
// works on.
func (m *flowMaking) branch() error {
	f := &m.flags.fork
	if f.text == "" {
		return nil
	}
	name, past, at := strings.Cut(f.text, "@")
	if name == "" || at && past == "" {
		return spec.Errorf(spec.ErrUsage, "--fork takes SANDBOX or SANDBOX@CHECKPOINT, not %q", f.text)
	}
	_, of, err := m.app.existing(name)
	if err != nil {
		return err
	}
	if of.Mode() != spec.WorkspaceReview {
		return spec.Errorf(spec.ErrUsage, "--fork %s: it is in --workspace %s, and the copies keep for review what they change", of.Name, of.Mode()).
			WithHint("what it has changed in your directories they begin with anyway; for the rest there is bothy fork")
	}
	if len(m.paths) == 0 {
		m.paths = []string{of.Workspaces[0].Source}
	}
	f.of, f.past = of, past
	return nil
}

// settle chooses the moment that the copies go on from.
func (m *flowMaking) settle(ctx context.Context, copies bool) (err error) {
	f := &m.flags.fork
	switch {
	case f.of == nil:
	case !copies:
		err = spec.Errorf(spec.ErrUsage, "--fork %s: no step of this flow works in a copy", f.of.Name)
	case f.past != "":
		f.point, err = m.engine.Checkpoints(f.of).Find(f.past)
	default:
		f.point, err = m.engine.Checkpoint(ctx, f.of, "", "flow", false)
	}
	return err
}

// continues has a copy hold what the sandbox held that it goes on from.
func (m *flowMaking) continues(ctx context.Context, copied *spec.Sandbox) error {
	f := &m.flags.fork
	if f.of == nil {
		return nil
	}
	return m.engine.HandOut(ctx, f.of, f.point, copied)
}
