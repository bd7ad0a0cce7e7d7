package loop

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/racetest"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

// killed is the panic that stands for a killed process.
type killed struct{}

// mortal is a runner with a story in which a loop reaches every possible state. The process that carries
// it on may be killed at any moment: when an action begins, when it is done but not yet recorded, and
// after each event.
type mortal struct {
	*fake
	run     *run.Run
	dies    int            // at this moment, counted from 1
	moments []string       // moments so far, by the loop's action
	told    int            // recorded tries of the agent
	struck  map[string]int // the states in which it was killed
}

// at is a moment at which the process may be killed.
func (m *mortal) at(what string) {
	if m.moments = append(m.moments, what); len(m.moments) == m.dies {
		m.struck[what]++
		panic(killed{})
	}
}

// story returns the agent's work in each of its tries.
func (m *mortal) story(int) (Work, error) {
	w := Work{Verdict: spec.VerdictOK, Message: "not yet"}
	switch m.told {
	case 0:
		w.Verdict, w.Overloaded = spec.VerdictLimit, true
	case 1:
		w.Verdict, w.Until = spec.VerdictLimit, time.Now().Add(5*time.Second)
	case 2:
		w.Message, w.Asks = "Which colour?", true
	case 3: // a person pauses the loop
		return w, m.run.Leave(run.Message{Kind: run.Pause, Actor: "ann"})
	default:
		w.Message = done
	}
	return w, nil
}

func (m *mortal) Work(ctx context.Context, job Job) (Work, error) {
	m.at("agent")
	defer m.at("agent")
	return m.fake.Work(ctx, job)
}

func (m *mortal) Keep(ctx context.Context, seat Seat, cause string) (int64, error) {
	m.at("checkpoint")
	defer m.at("checkpoint")
	return m.fake.Keep(ctx, seat, cause)
}

func (m *mortal) Judge(ctx context.Context, n int64, baseline map[string]string) ([]Gate, map[string]string, error) {
	m.at("gates")
	defer m.at("gates")
	return m.fake.Judge(ctx, n, baseline)
}

func (m *mortal) Review(ctx context.Context, job ReviewJob) (Opinion, error) {
	m.at("reviewer")
	defer m.at("reviewer")
	return m.fake.Review(ctx, job)
}

func (m *mortal) Restore(ctx context.Context, n int64) error {
	m.at("rewinding")
	defer m.at("rewinding")
	return m.fake.Restore(ctx, n)
}

// tell is called after an event, with the loop's state then.
func (m *mortal) tell(ev run.Event, s *State) {
	if ev.Type == Worked {
		m.told++
	}
	what := "behind " + ev.Type
	if d, ok := s.Waits(); ok {
		what = d.For
	} else if s.Status != run.Running {
		what = string(s.Status) + " " + s.Reason
	}
	m.at(what)
}

// live is a process that carries the loop on, or rewinds it, until it ends or is killed.
func (m *mortal) live(t *testing.T, p *loopplan.Plan, back bool) (s *State) {
	h, events, err := m.run.Host()
	must(t, err)
	defer h.Close()
	defer func() {
		if why := recover(); why != nil && why != (killed{}) {
			panic(why)
		}
	}()
	l := &Loop{Plan: p, Run: m.run, Host: h, Runner: m, Tell: m.tell}
	if !back {
		s, err = l.Carry(t.Context(), events)
	} else if b, berr := Behind(events, 1); berr == nil {
		s, err = l.Rewind(t.Context(), events, b, "ann")
	}
	must(t, err)
	return s
}

// events returns the recorded events.
func (m *mortal) events(t *testing.T) []run.Event {
	events, err := m.run.Events()
	must(t, err)
	return events
}

// results lists the results of steps, in order.
func (m *mortal) results(t *testing.T) (list []string) {
	s, err := Fold(nil)
	must(t, err)
	for _, ev := range m.events(t) {
		must(t, s.Add(ev))
		if slices.Contains([]string{Baseline, Worked, Kept, Judged, Reviewed, Rewound, Restored}, ev.Type) {
			list = append(list, fmt.Sprint(ev.Type, " ", s.Iteration))
		}
	}
	return list
}

// tale tells the story, in which the process is killed at most once: a person answers the question,
// resumes, and in the end rewinds once.
func tale(t *testing.T, dies int) (m *mortal, s *State) {
	p := reviewed()
	p.Stall.Questions = 1
	r, err := run.Create(filepath.Join(t.TempDir(), "runs"), "x", p)
	must(t, err)
	m = &mortal{fake: &fake{changes: always(1), green: func(int) bool { return true }, opinion: func(int) (Opinion, error) { return opinion(agrees), nil }}, run: r, dies: dies, struck: map[string]int{}}
	m.work = m.story
	for range 12 {
		s, err = Fold(m.events(t))
		must(t, err)
		gone := slices.ContainsFunc(m.events(t), func(ev run.Event) bool { return ev.Type == Rewound })
		switch {
		case s.Status == run.Completed && gone:
			return m, s
		case s.Status == run.Waiting && s.Reason == ReasonQuestion:
			must(t, r.Leave(run.Message{Kind: run.Hint, Text: "blue", Actor: "ann"}))
		}
		m.live(t, p, s.Status == run.Completed)
	}
	t.Fatalf("killed at moment %d (%v) it comes to no end: %+v", dies, m.struck, s)
	return m, s
}

// TestCrashEverywhere kills the process that carries a loop on in every state of a story that has all
// states, at the first and at the last moment of each. The next carrier continues with the first step
// without a result. The results are the same, each once, and an agent works at most once more.
func TestCrashEverywhere(t *testing.T) {
	racetest.Skip(t)
	var want, moments []string
	var works int
	synctest.Test(t, func(t *testing.T) {
		m, s := tale(t, 0)
		want, works, moments = m.results(t), m.n, m.moments
		if s.Reason != reasonDone || s.Iteration != 2 {
			t.Errorf("nobody is killed, and it is %+v", s)
		}
	})
	struck := map[string]int{}
	for i, what := range moments {
		if i != slices.Index(moments, what) && slices.Contains(moments[i+1:], what) {
			continue
		}
		n := i + 1
		synctest.Test(t, func(t *testing.T) {
			m, s := tale(t, n)
			if got := m.results(t); s.Reason != reasonDone || !slices.Equal(got, want) || m.n > works+1 {
				t.Errorf("killed at moment %d (%v), after %d of work, not %d, it is %s (%s), and came to\n%q, not\n%q", n, m.struck, m.n, works, s.Status, s.Reason, got, want)
			}
			for what, n := range m.struck {
				struck[what] += n
			}
		})
	}
	for _, state := range []string{
		"agent", "checkpoint", "gates", "reviewer", "rewinding", run.RateLimited, run.Overloaded,
		"waiting paused", "waiting " + ReasonQuestion, "waiting rewound", "completed done", "behind " + run.Began, "behind " + Iteration, "behind " + Worked,
	} {
		if struck[state] == 0 {
			t.Errorf("nobody was killed in the state %q: %v", state, struck)
		}
	}
}
