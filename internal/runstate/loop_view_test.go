package runstate

import (
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// TestLoopViewUntil checks that a loop whose workers all wait for models waits until the first of
// them resumes. A loop paused meanwhile waits only for a person. Lists without entries are empty,
// not null.
func TestLoopViewUntil(t *testing.T) {
	st, err := store.Open(t.TempDir())
	must(t, err)
	r, err := run.Create(st.Runs(), "x", &loopplan.Plan{Agent: "a", Workers: 2})
	must(t, err)
	h, _, err := r.Host()
	must(t, err)
	defer h.Close()
	one := loop.By{Worker: 1}
	until := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	keep := func(kind string, data any) {
		_, err := h.Append(kind, run.ActorHost, data)
		must(t, err)
	}
	view := func() LoopView {
		l, err := ReadLoop(&engine.Engine{Store: st}, r)
		must(t, err)
		return l.View().(LoopView)
	}
	keep(run.Began, nil)
	keep(loop.Took, loop.Taken{ID: "bd-1", By: one})
	keep(loop.Iteration, loop.Begun{Iteration: 1, By: one})
	keep(loop.Worked, loop.Work{Iteration: 1, By: one, Verdict: spec.VerdictLimit, Until: until})
	if v := view(); v.WaitingFor != run.RateLimited || !v.Until.Equal(until) || v.Hints == nil {
		t.Errorf("it waits for %q until %s, with the hints %#v", v.WaitingFor, v.Until, v.Hints)
	}
	keep(run.Ended, loop.End{Status: run.Waiting, Reason: "paused"})
	if v := view(); v.WaitingFor != "" || !v.Until.IsZero() {
		t.Errorf("it was paused, and waits for %q until %s", v.WaitingFor, v.Until)
	}
}

// TestLateStop checks that a stop which arrives just after the loop ended is removed. Otherwise it
// would end the loop that a person resumes.
func TestLateStop(t *testing.T) {
	st, err := store.Open(t.TempDir())
	must(t, err)
	r, err := run.Create(st.Runs(), "x", &loopplan.Plan{Agent: "a"})
	must(t, err)
	h, _, err := r.Host()
	must(t, err)
	_, err = h.Append(run.Ended, run.ActorHost, loop.End{Status: run.Completed})
	must(t, err)
	h.Close()
	must(t, r.Leave(run.Message{Kind: run.Stop, Actor: "ann"}))
	l := &Loop{Record: Record{Engine: &engine.Engine{Store: st}, Run: r}}
	must(t, Cancel(l))
	if list, err := r.Mail(); err != nil || len(list) != 0 || l.Ours || l.State.Status != run.Completed {
		t.Errorf("%d messages are left, %v; it is %s", len(list), err, l.State.Status)
	}
}
