package loop

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

// TestSession checks that an agent continues the session of its last iteration that ended well, if the
// plan says so and the session's name is valid.
func TestSession(t *testing.T) {
	ok := func(n int, id string) Work { return Work{Iteration: n, Verdict: spec.VerdictOK, Session: id} }
	for name, c := range map[string]struct {
		work []Work
		more string // a later event
		want string
	}{
		"none yet":            {nil, "", ""},
		"the last":            {[]Work{ok(1, "a"), ok(2, "b")}, "", "b"},
		"after a failure":     {[]Work{ok(1, "a"), {Iteration: 2, Verdict: spec.VerdictFailed, Session: "a"}}, "", ""},
		"after a limit":       {[]Work{ok(1, "a"), {Iteration: 2, Verdict: spec.VerdictLimit, Session: "b"}}, "", "a"},
		"an option":           {[]Work{ok(1, "--dangerous")}, "", ""},
		"no name":             {[]Work{ok(1, "a b")}, "", ""},
		"too long":            {[]Work{ok(1, strings.Repeat("a", 201))}, "", ""},
		"a task is closed":    {[]Work{ok(1, "a")}, Closed, ""},
		"it was rewound":      {[]Work{ok(1, "a")}, Rewound, ""},
		"a task is another's": {[]Work{ok(1, "a")}, Lost, ""},
	} {
		t.Run(name, func(t *testing.T) {
			events := []run.Event{{Type: run.Began}}
			for _, w := range c.work {
				events = append(events, event(t, Iteration, Begun{Iteration: w.Iteration}), event(t, Worked, w))
			}
			if c.more != "" {
				events = append(events, event(t, c.more, struct{}{}))
			}
			s, err := Fold(events)
			if err != nil {
				t.Fatal(err)
			}
			p := &loopplan.Plan{Resume: true}
			if got := sessionOf(p, s, 3); got != c.want {
				t.Errorf("it goes on with %q", got)
			}
			if got := sessionOf(&loopplan.Plan{}, s, 3); got != "" {
				t.Errorf("with a fresh memory it goes on with %q", got)
			}
		})
	}
}

// TestSessionOfEach checks that each agent of a rotation has sessions of its own.
func TestSessionOfEach(t *testing.T) {
	p := &loopplan.Plan{Agent: "a", Agents: []string{"a", "b"}, Models: []string{"x", "y"}, Resume: true}
	s, err := Fold([]run.Event{
		{Type: run.Began},
		event(t, Iteration, Begun{Iteration: 1, Agent: "a"}), event(t, Worked, Work{Iteration: 1, Verdict: spec.VerdictOK, Session: "of-a"}),
		event(t, Iteration, Begun{Iteration: 2, Agent: "b"}), event(t, Worked, Work{Iteration: 2, Verdict: spec.VerdictOK, Session: "of-b"}),
	})
	if err != nil {
		t.Fatal(err)
	}
	if a, b := sessionOf(p, s, 3), sessionOf(p, s, 4); a != "of-a" || b != "of-b" {
		t.Errorf("they go on with %q and %q", a, b)
	}
}

func event(t *testing.T, kind string, data any) run.Event {
	t.Helper()
	b, err := json.Marshal(data)
	if err != nil {
		t.Fatal(err)
	}
	return run.Event{Type: kind, Time: time.Unix(1, 0), Data: b}
}
