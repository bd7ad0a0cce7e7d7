package loop

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

// TestRotationRemoved checks that the place of an agent that takes turns is replaced after a person
// removes it, in every state of the loop, and also by the next carrier. Lost work is repeated by the
// same agent with the same hints. No other work is.
func TestRotationRemoved(t *testing.T) {
	b := Seat{Agent: "b"} // it has the iterations 2 and 4
	for _, at := range []struct {
		kind     string
		turn     int
		again    int    // iterations of b that are repeated
		sessions string // sessions that b continues
	}{
		{Baseline, 0, 0, " s"},
		{Judged, 1, 0, " s"},
		{Iteration, 2, 1, "  s"},
		{Worked, 2, 1, "  s"},
		{Kept, 2, 0, " "},
		{Judged, 2, 0, " "},
		{Worked, 3, 0, " "},
		{Iteration, 4, 1, " s "},
		{Worked, 4, 1, " s "},
	} {
		for _, dies := range []bool{false, true} {
			t.Run(fmt.Sprint(at.kind, at.turn, dies), func(t *testing.T) {
				p := plan()
				p.Rotate([]loopplan.Turn{{Agent: "a", Model: "one"}, {Agent: "b", Model: "two"}})
				p.Limits.MaxIterations, p.Resume = 4, true
				f := &fake{
					gone: map[Seat]bool{}, changes: always(1), green: always(false),
					work: func(int) (Work, error) { return Work{Verdict: spec.VerdictOK, Tokens: 1, Session: "s"}, nil },
				}
				r, err := run.Create(t.TempDir(), "x", p)
				must(t, err)
				left := 1
				carry := func() (*State, error) {
					h, events, err := r.Host()
					must(t, err)
					defer h.Close()
					return (&Loop{Plan: p, Run: r, Host: h, Runner: f, Tell: func(ev run.Event, s *State) {
						if ev.Type == Kept && s.Iteration == 1 {
							must(t, r.Leave(run.Message{Kind: run.Hint, Actor: "ann", Text: "for b"}))
						}
						if left == 0 || ev.Type != at.kind || s.Iteration != at.turn {
							return
						}
						left--
						f.gone[b] = true
						if dies {
							h.Close() // no event can be written any more
						}
					}}).Carry(t.Context(), events)
				}
				s, err := carry()
				if dies {
					if err == nil {
						t.Fatal("it did not die")
					}
					s, err = carry()
				}
				must(t, err)
				events, err := r.Events()
				must(t, err)
				kinds, sessions := map[string]int{}, []string{}
				for _, ev := range events {
					kinds[ev.Type]++
					if ev.Type != Iteration {
						continue
					}
					must(t, run.Read(ev, func(e Begun) {
						if e.Agent == "b" {
							sessions = append(sessions, e.Session)
						}
					}))
				}
				if s.Status != run.Limited || s.Iteration != 4 || kinds[Kept] != 4 || kinds[Judged] != 4 || kinds[Replaced] != 1 || len(s.Places) != 1 || s.Places[0].ID != "new" {
					t.Errorf("it is %s (%s: %s) after %d iterations, with %v and %v", s.Status, s.Reason, s.Detail, s.Iteration, kinds, s.Places)
				}
				if got := strings.Join(sessions, " "); got != at.sessions {
					t.Errorf("b goes on with %q, want %q", got, at.sessions)
				}
				filled := 0
				for _, seat := range f.begun {
					if seat == b {
						filled++
					}
				}
				if filled != 2+at.again || len(sessions) != 2+at.again {
					t.Errorf("the place of b is filled %d times, and it begins %d times", filled, len(sessions))
				}
				told := len(slices.DeleteFunc(slices.Clone(f.prompts), func(text string) bool { return !strings.Contains(text, "for b") }))
				if twice := at.turn == 2 && at.again > 0; told != 1 && !twice || twice && told != 2 {
					t.Errorf("b is told %d times", told)
				}
				again, err := Fold(events)
				if must(t, err); !reflect.DeepEqual(again, s) {
					t.Errorf("folded anew it is\n%+v\nnot\n%+v", again, s)
				}
			})
		}
	}
}
