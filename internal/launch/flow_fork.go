package launch

import (
	"context"
	"strings"

	"github.com/bothy-dev/bothy/internal/checkpoint"
	"github.com/bothy-dev/bothy/internal/snapshot"
	"github.com/bothy-dev/bothy/spec"
)

// fork is the sandbox that the copies of a flow start from, instead of PATH.
type fork struct {
	of    *spec.Sandbox // nil: none
	past  string        // a checkpoint of it; empty means now
	point checkpoint.Point
}

// findFork finds the sandbox that the copies of a flow start from. Without PATH they use the sandbox's
// workspaces.
func (l *Launcher) findFork(pl *FlowPlan) (fork, error) {
	if pl.Fork == "" {
		return fork{}, nil
	}
	name, past, at := strings.Cut(pl.Fork, "@")
	if name == "" || at && past == "" {
		return fork{}, spec.Errorf(spec.ErrUsage, "%s takes SANDBOX or SANDBOX@CHECKPOINT, not %q", spec.Option("fork"), pl.Fork)
	}
	of, err := l.Engine.Find(name)
	if err != nil {
		return fork{}, err
	}
	if of.Mode() != spec.WorkspaceReview {
		return fork{}, spec.Errorf(spec.ErrUsage, "%s %s: it is in %s %s, and the copies keep for review what they change", spec.Option("fork"), of.Name, spec.Option("workspace"), of.Mode()).
			WithHint("the copies begin with its changes in your directories anyway; for the rest use bothy fork")
	}
	if len(pl.Sandbox.Workspaces) == 0 {
		pl.Sandbox.Workspaces = []string{of.Workspaces[0].Source}
	}
	return fork{of: of, past: past}, nil
}

// choosePoint chooses the checkpoint that the copies start from.
func (l *Launcher) choosePoint(ctx context.Context, f *fork) (err error) {
	switch {
	case f.of == nil:
	case f.past != "":
		f.point, err = l.snapshots().Checkpoints(f.of).Find(f.past)
	default:
		f.point, err = l.snapshots().Checkpoint(ctx, f.of, "", "flow", false)
	}
	return err
}

// fillCopy gives a copy the contents of the sandbox that it starts from.
func (l *Launcher) fillCopy(ctx context.Context, f *fork, copied *spec.Sandbox) error {
	if f.of == nil {
		return nil
	}
	return snapshot.NewExchange(l.snapshots()).HandOut(ctx, f.of, f.point, copied)
}
