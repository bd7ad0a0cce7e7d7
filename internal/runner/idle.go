package runner

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/spec"
)

// idleError says that an agent was stopped because it was idle.
type idleError struct{ limit time.Duration }

func (s *idleError) Error() string {
	return fmt.Sprintf("it was idle for %s, and was ended", s.limit)
}

// How often to check whether an agent is still active, and how much processor time an idle sandbox
// uses: the share of a waiting runtime, and our own check.
const (
	pulsePoll      = 5 * time.Second
	restingShare   = 0.02
	restingAtALook = 20 * time.Millisecond
)

// activity is the activity of a sandbox until now.
type activity struct {
	cpu     time.Duration
	carried int64 // bytes, over the open connections
	open    int   // open connections
}

// idleWatch stops an idle agent. Output is not the only sign of life: a long test prints nothing, and a
// model may think for just as long.
type idleWatch struct {
	limit   time.Duration
	look    func(context.Context) (activity, error)
	printed atomic.Int64 // number of writes
}

// Write notes that the agent printed something.
func (p *idleWatch) Write(b []byte) (int, error) {
	p.printed.Add(1)
	return len(b), nil
}

// watchAgent checks until ctx is done. It cancels with an [idleError] if the agent was idle for as long
// as the limit. A sandbox that does not answer counts as idle.
func (p *idleWatch) watchAgent(ctx context.Context, giveUp context.CancelCauseFunc) {
	var last activity
	printed, heard, looked := int64(0), time.Now(), time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(min(pulsePoll, max(p.limit/10, time.Millisecond))):
		}
		now, err := p.look(ctx)
		at, said := time.Now(), p.printed.Load()
		rest := restingAtALook + time.Duration(restingShare*float64(at.Sub(looked)))
		if said != printed || err == nil && (now.cpu-last.cpu > rest || now.carried != last.carried || now.open != last.open) {
			heard = at
		}
		printed, looked = said, at
		if err == nil {
			last = now
		}
		if at.Sub(heard) >= p.limit {
			giveUp(&idleError{p.limit})
			return
		}
	}
}

// activityOf asks a sandbox for its activity.
func activityOf(ctx context.Context, e *engine.Engine, sb *spec.Sandbox) (activity, error) {
	st, err := e.Keepers().Inside(ctx, sb)
	return activity{cpu: time.Duration(st.Usage.CPUSeconds * float64(time.Second)), open: st.Open, carried: st.Carried}, err
}
