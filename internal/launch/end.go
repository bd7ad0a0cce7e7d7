package launch

import (
	"context"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/runstate"
)

// Stop ends a run for good. It leaves a message for the process that carries the run on, or ends an orphaned
// run itself. It updates the state of the run.
func (l *Launcher) Stop(ctx context.Context, of runstate.Run) error {
	err := of.CheckOpen()
	if err == nil {
		err = of.CheckUndone()
	}
	if err != nil {
		return err
	}
	err = stopRun(ctx, of)
	if r := of.Recorded(); r.Ours { // otherwise the process that runs it notifies
		l.notify(context.WithoutCancel(ctx), runstate.NoticeOfEnd(r.Notice(), of.Result()))
	}
	return err
}

func stopRun(ctx context.Context, of runstate.Run) error {
	if err := of.Recorded().Run.Leave(run.Message{Kind: run.Stop, Actor: runstate.Actor()}); err != nil {
		return err
	}
	for !of.Progress().Final() {
		if err := runstate.Cancel(of); err != nil {
			return err
		}
		if of.Progress().Final() {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(runstate.PollEvery):
		}
	}
	return nil
}

// Remove removes a run that no process is running, with the sandboxes that belong to it. They would be orphans
// without it.
func (l *Launcher) Remove(ctx context.Context, of runstate.Run) error {
	h, events, err := of.Recorded().Run.Host()
	if err != nil {
		return err
	}
	defer h.Close()
	if err := of.Fold(events); err != nil {
		return err
	}
	kept, err := runstate.Erase(ctx, of, h)
	if err == nil && len(kept) > 0 {
		l.Note("sandboxes that were started since stay: bothy rm %s", strings.Join(kept, " "))
	}
	return err
}
