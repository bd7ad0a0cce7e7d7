package runner

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/spec"
)

// silence is why an agent was stopped that gave no sign of life.
type silence struct{ limit time.Duration }

func (s *silence) Error() string {
	return fmt.Sprintf("for %s it printed nothing, asked nobody and did not compute, and was ended", s.limit)
}

// How often to check whether an agent is still active, and how much processor time an idle sandbox
// uses: the share of a waiting runtime, and our own check.
const (
	pulsePoll      = 5 * time.Second
	restingShare   = 0.02
	restingAtALook = 20 * time.Millisecond
)

// sign is what a sandbox has done until now.
type sign struct {
	cpu     time.Duration
	carried int64 // of bytes, by the connections that are open
	open    int   // open connections
}

// pulse stops an agent that gives no sign of life. Output is not the only sign: a long test prints
// nothing, and a model may think for as long.
type pulse struct {
	limit   time.Duration
	look    func(context.Context) (sign, error)
	printed atomic.Int64 // number of writes
}

// Write notes that the agent prints.
func (p *pulse) Write(b []byte) (int, error) {
	p.printed.Add(1)
	return len(b), nil
}

// watch checks until ctx is done. It cancels with a [silence] if the agent gave no sign for as
// long as the limit. A sandbox that does not answer gives none.
func (p *pulse) watch(ctx context.Context, giveUp context.CancelCauseFunc) {
	var last sign
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
			giveUp(&silence{p.limit})
			return
		}
	}
}

// signOf looks at a sandbox.
func signOf(ctx context.Context, e *engine.Engine, sb *spec.Sandbox) (sign, error) {
	st, err := e.Inside(ctx, sb)
	return sign{cpu: time.Duration(st.Usage.CPUSeconds * float64(time.Second)), open: st.Open, carried: st.Carried}, err
}
