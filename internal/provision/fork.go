package provision

import (
	"context"
	"fmt"

	"github.com/bothy-dev/bothy/internal/checkpoint"
	"github.com/bothy-dev/bothy/internal/snapshot"
	"github.com/bothy-dev/bothy/spec"
)

// ForkPlan is a request for forks after all decisions.
type ForkPlan struct {
	Of *spec.Sandbox
	// Point is the checkpoint to begin from; nil: the present state.
	Point *checkpoint.Point
	// Names are those of the forks. An empty one is chosen when the fork is made.
	Names []string
	// Files says that no program runs in the forks.
	Files bool
	// Fork is a fork as it will be, without the ID and the name of its own.
	Fork  spec.Sandbox
	Notes []string // for a person
}

// PlanFork decides what a request for forks means. It changes nothing, but removes the remains of crashed
// commands. Its error is of class [spec.ErrUsage] if the request is wrong, and of class [spec.ErrNotFound]
// or [spec.ErrConflict] if the sandbox or the checkpoint does not exist, or a name is taken.
func (p *Provisioner) PlanFork(req spec.ForkRequest) (*ForkPlan, error) {
	count := max(req.Count, 1)
	if req.Count < 0 || count > spec.MaxForks {
		return nil, spec.Errorf(spec.ErrUsage, "-n takes a number from 1 to %d", spec.MaxForks)
	}
	of, err := p.Engine.Find(req.Sandbox)
	if err != nil {
		return nil, err
	}
	pl := &ForkPlan{Of: of, Names: make([]string, count), Files: req.Files, Fork: snapshot.Forked(of)}
	for i := range pl.Names {
		pl.Names[i] = req.Name
		if req.Name != "" && count > 1 {
			pl.Names[i] = fmt.Sprintf("%s-%d", req.Name, i+1)
		}
	}
	p.Engine.Sweep() // a killed command may have left half a fork with this name
	if err := p.Engine.CheckNames(pl.Names); err != nil {
		return nil, &spec.Error{Op: "fork " + of.Name, Err: err}
	}
	if req.Checkpoint != "" {
		point, err := snapshot.New(p.Engine).Checkpoints(of).Find(req.Checkpoint)
		if err != nil {
			return nil, err
		}
		pl.Point = &point
	}
	if note := ForkNote(of); note != "" {
		pl.Notes = append(pl.Notes, note)
	}
	return pl, nil
}

// ForkNote explains a fork of a sandbox that writes to the host's files; empty for another one.
func ForkNote(sb *spec.Sandbox) string {
	if sb.Mode() != spec.WorkspaceLive || len(sb.Workspaces) == 0 {
		return ""
	}
	return sb.Name + " writes to your files at once; a fork of it begins with them as they are now, and keeps its changes for bothy diff and apply"
}

// Fork makes the forks of a plan. With an error it also returns those that it made.
func (p *Provisioner) Fork(ctx context.Context, pl *ForkPlan) ([]*spec.Sandbox, error) {
	s := snapshot.New(p.Engine)
	if pl.Point == nil {
		return s.ForkNow(ctx, pl.Of, pl.Names, pl.Files)
	}
	return s.Fork(ctx, pl.Of, *pl.Point, pl.Names, pl.Files)
}
