package loop

import (
	"context"
	"errors"
	"time"

	"github.com/bothy-dev/bothy/internal/loop/taskqueue"
	"github.com/bothy-dev/bothy/spec"
)

// This file handles the common usage of all workers, and their claims.

// spend is the usage of models.
type spend struct {
	tokens int64
	usd    float64
}

// watchTeam renews claims, and cancels work when the common budget is used up.
func (t *team) watchTeam(ctx context.Context) error {
	for _, h := range t.hands {
		if err := t.renewClaim(ctx, h); err != nil {
			return err
		}
		select {
		case h.spend = <-h.spent:
		default:
		}
	}
	if time.Since(t.looked) > tasksEvery {
		t.looked = time.Now()
		t.wakeIdle()
	}
	end := spentEnd(t.Plan, t.usageNow(), time.Now())
	if end == nil || end.Reason == "time" { // the time limit, which stops each worker by itself
		return nil
	}
	t.windDown(end)
	for _, h := range t.hands {
		if h.stop != nil && (h.what == Worked || h.what == Reviewed) {
			h.stop(errSpent)
		}
	}
	return nil
}

// usageNow returns the state of the loop, with the newest usage of running work.
func (t *team) usageNow() *State {
	now := *t.state
	for _, h := range t.hands {
		now.addUsage(Work{Tokens: h.spend.tokens, USD: h.spend.usd})
	}
	return &now
}

// errSpent is the cause for cancelling work when the budget is used up.
var errSpent = errors.New("the means of all are used up")

// renewClaim extends a claim.
func (t *team) renewClaim(ctx context.Context, h *hand) error {
	w := t.state.Workers[h.worker-1]
	if w.Task == nil || !w.held || h.lost != nil || time.Since(h.renewed) < taskqueue.Lease/3 {
		return nil
	}
	h.renewed = time.Now()
	err := t.Queue.Renew(ctx, w.Task.ID)
	if !errors.Is(err, spec.ErrConflict) {
		return nil // other errors may be gone the next time
	}
	h.lost = err
	if h.stop == nil {
		return t.loseTask(h)
	}
	h.stop(errLost)
	return nil
}

// spentEvery is how often to look at the usage of running work.
const spentEvery = time.Second

// follow reports a worker's usage while it works.
func (t *team) follow(ctx context.Context, h *hand) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(spentEvery):
		}
		tokens, usd, err := t.runner.Spent(ctx, h.at)
		if err != nil {
			continue // its sandbox has a budget, too
		}
		select {
		case <-h.spent:
		default:
		}
		select {
		case h.spent <- spend{tokens, usd}:
		default:
		}
	}
}
