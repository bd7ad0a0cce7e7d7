package runs

import (
	"context"
	"strings"

	"github.com/bothy-dev/bothy/internal/checkpoint"
	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/snapshot"
	"github.com/bothy-dev/bothy/spec"
)

// flowFork is the sandbox that the copies of a flow start from, instead of PATH.
type flowFork struct {
	text string // SANDBOX, or SANDBOX@CHECKPOINT

	of    *spec.Sandbox // nil: none
	past  string        // a checkpoint of it; empty means now
	point checkpoint.Point
}

// branch finds the sandbox that the copies start from. Without PATH they use the sandbox's
// workspaces.
func (m *flowMaking) branch() error {
	f := &m.flags.fork
	if f.text == "" {
		return nil
	}
	name, past, at := strings.Cut(f.text, "@")
	if name == "" || at && past == "" {
		return spec.Errorf(spec.ErrUsage, "--fork takes SANDBOX or SANDBOX@CHECKPOINT, not %q", f.text)
	}
	_, of, err := m.app.Existing(name)
	if err != nil {
		return err
	}
	if of.Mode() != spec.WorkspaceReview {
		return spec.Errorf(spec.ErrUsage, "--fork %s: it is in --workspace %s, and the copies keep for review what they change", of.Name, of.Mode()).
			WithHint("the copies begin with its changes in your directories anyway; for the rest use bothy fork")
	}
	if len(m.paths) == 0 {
		m.paths = []string{of.Workspaces[0].Source}
	}
	f.of, f.past = of, past
	return nil
}

// settle chooses the checkpoint that the copies start from.
func (m *flowMaking) settle(ctx context.Context, copies bool) (err error) {
	f := &m.flags.fork
	switch {
	case f.of == nil:
	case !copies:
		err = spec.Errorf(spec.ErrUsage, "--fork %s: no step of this flow works in a copy", f.of.Name)
	case f.past != "":
		f.point, err = cmdline.Snapshots(m.engine).Checkpoints(f.of).Find(f.past)
	default:
		f.point, err = cmdline.Snapshots(m.engine).Checkpoint(ctx, f.of, "", "flow", false)
	}
	return err
}

// continues gives a copy the contents of the sandbox that it starts from.
func (m *flowMaking) continues(ctx context.Context, copied *spec.Sandbox) error {
	f := &m.flags.fork
	if f.of == nil {
		return nil
	}
	return snapshot.NewExchange(cmdline.Snapshots(m.engine)).HandOut(ctx, f.of, f.point, copied)
}
