package loop

import (
	"context"
	"errors"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// This file has what all workers use up together, and the claims that they hold.

// spend is what models have taken.
type spend struct {
	tokens int64
	usd    float64
}

// watch renews claims, and gives work up when what all have used is all there is.
func (t *Team) watch(ctx context.Context) error {
	for _, h := range t.hands {
		if err := t.renew(ctx, h); err != nil {
			return err
		}
		select {
		case h.spend = <-h.spent:
		default:
		}
	}
	if time.Since(t.looked) > tasksEvery {
		t.looked = time.Now()
		t.wake()
	}
	end := spent(t.Plan, t.used(), time.Now())
	if end == nil || end.Reason == "time" { // for which each is stopped by itself
		return nil
	}
	t.wind(end)
	for _, h := range t.hands {
		if h.stop != nil && (h.what == Worked || h.what == Reviewed) {
			h.stop(errSpent)
		}
	}
	return nil
}

// used is how all stand, with what was used just now by work that is under way.
func (t *Team) used() *State {
	now := *t.state
	for _, h := range t.hands {
		now.use(Work{Tokens: h.spend.tokens, USD: h.spend.usd})
	}
	return &now
}

// errSpent is the cause for which work is given up when nothing is left for it.
var errSpent = errors.New("the means of all are used up")

// renew makes a claim last.
func (t *Team) renew(ctx context.Context, h *hand) error {
	w := t.state.Workers[h.worker-1]
	if w.Task == nil || !w.held || h.lost != nil || time.Since(h.renewed) < Lease/3 {
		return nil
	}
	h.renewed = time.Now()
	err := t.Desk.Renew(ctx, w.Task.ID)
	if !errors.Is(err, spec.ErrConflict) {
		return nil // what else goes wrong may go right the next time
	}
	h.lost = err
	if h.stop == nil {
		return t.lost(h)
	}
	h.stop(errLost)
	return nil
}

// spentEvery is how often it is looked what work that is under way has used.
const spentEvery = time.Second

// follow tells what a worker has used, as long as it works.
func (t *Team) follow(ctx context.Context, h *hand) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(spentEvery):
		}
		tokens, usd, err := t.Bench.Spent(ctx, h.at)
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
