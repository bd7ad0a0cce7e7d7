package launch

import (
	"context"
	"errors"
	"strconv"

	"github.com/bothy-dev/bothy/internal/checkpoint"
	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/notify"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/runner"
	"github.com/bothy-dev/bothy/internal/runstate"
	"github.com/bothy-dev/bothy/spec"
)

// RewindRequest asks that a loop goes on from an earlier iteration.
type RewindRequest struct {
	Iteration int // 0 is before the first
	// Agreed has a person agree that the files of the sandbox are put back to a checkpoint; its error ends
	// the rewind. Nil: they have agreed.
	Agreed func(*spec.Sandbox, checkpoint.Point) error
	Hint   string // for the next iteration; empty: none
}

// Rewind puts the files of a loop back to the end of an iteration, and has the loop wait there. No process may
// carry it on. It updates the loop's state.
func (l *Launcher) Rewind(ctx context.Context, of *runstate.Loop, req RewindRequest) error {
	h, events, err := of.Run.Host()
	if err != nil {
		return err
	}
	defer h.Close()
	if of.State, err = loop.Fold(events); err != nil {
		return err
	}
	if of.State.Status == run.Cancelled {
		return of.CheckOpen()
	}
	b, err := loop.Behind(events, req.Iteration)
	if err != nil {
		return err
	}
	sb, err := of.Workplace()
	if err != nil {
		return err
	}
	p, err := l.snapshots().Checkpoints(sb).Find(strconv.FormatInt(b.Checkpoint, 10))
	if errors.Is(err, spec.ErrNotFound) {
		err = spec.Errorf(spec.ErrNotFound, "checkpoint %d, which iteration %d ended with, was removed", b.Checkpoint, req.Iteration)
	}
	if err == nil && req.Agreed != nil {
		err = req.Agreed(sb, p)
	}
	if err != nil {
		return err
	}
	if req.Hint != "" {
		if err := of.Run.Leave(run.Message{Kind: run.Hint, Text: req.Hint, Actor: runstate.Actor()}); err != nil {
			return err
		}
	}
	works := runner.NewLoop(l, l.Engine, l.snapshots(), sb, nil, &of.Plan, nil, of.Run.Originals())
	back := &loop.Loop{Plan: &of.Plan, Run: of.Run, Host: h, Runner: works, Queue: runstate.TaskQueueOf(l.Engine, &of.Plan, of.Run)}
	if of.State, err = back.Rewind(ctx, events, b, runstate.Actor()); err != nil {
		return err
	}
	of.Hosted = false
	h.Close() // a notified program may resume it at once
	told := runstate.NoticeOfEnd(of.Notice(), &of.State.Result)
	told.Event = notify.Rewound
	l.notify(context.WithoutCancel(ctx), told)
	return nil
}
