package flow

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/flow/flowplan"
	"github.com/bothy-dev/bothy/internal/racetest"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

// beside begins a flow with at most this many steps side by side.
func beside(t *testing.T, most int, text string, given map[string]string, do func(Job) Done) *bench {
	t.Helper()
	b := beginWith(t, text, given, do)
	b.plan.Parallel = most
	must(t, b.plan.Name(b.plan.Called))
	b.again(given)
	return b
}

// again writes the run's record again, for its current plan.
func (b *bench) again(given map[string]string) {
	b.t.Helper()
	var err error
	b.run, err = run.CreateFlow(filepath.Join(b.t.TempDir(), "runs"), "", "flow-2026-11-23-0001", b.plan, func(dir string) error {
		files := map[string][]byte{}
		for _, name := range b.plan.Files {
			files[name] = []byte(given[name])
		}
		return Fill(dir, files)
	})
	must(b.t, err)
}

// patience is how long a test waits for an expected event.
const patience = time.Minute

// meeting makes jobs wait until a number of them have arrived.
type meeting struct {
	mu   sync.Mutex
	left int
	full chan struct{}
}

func meet(count int) *meeting { return &meeting{left: count, full: make(chan struct{})} }

// here waits for the others. If they do not come, the job has failed.
func (m *meeting) here() Done {
	m.mu.Lock()
	if m.left--; m.left == 0 {
		close(m.full)
	}
	m.mu.Unlock()
	select {
	case <-m.full:
		return Done{Verdict: spec.VerdictOK}
	case <-time.After(patience):
		return Done{Verdict: spec.VerdictFailed, Error: "nobody else came"}
	}
}

// met completes a job that has met the others.
func (m *meeting) met(job Job) Done {
	if d := m.here(); d.Verdict != spec.VerdictOK {
		return d
	}
	return fine(job)
}

// until waits until a job is cancelled.
func (b *bench) until(job Job) Done {
	over, _ := b.over.Load(job.Place)
	select {
	case <-over.(<-chan struct{}):
		return Done{Verdict: spec.VerdictFailed, Error: "it was given up"}
	case <-time.After(patience):
		return Done{Verdict: spec.VerdictFailed, Error: "nobody gave it up"}
	}
}

// stepOf returns the node of a job.
func stepOf(job Job) string {
	name := strings.TrimPrefix(job.Place, "/flow/")
	return name[:strings.LastIndex(name, ".")]
}

// rooms returns the room of each step.
func (b *bench) rooms() map[string]string {
	rooms := map[string]string{}
	for _, job := range b.jobs {
		rooms[stepOf(job)] = job.Room
	}
	return rooms
}

func (b *bench) ended(s *State, status run.Status, reason string) {
	b.t.Helper()
	if s.Status != status || s.Reason != reason {
		b.t.Fatalf("it is %s (%s: %s) after %s, want %s (%s)", s.Status, s.Reason, s.Detail, b.steps(), status, reason)
	}
}

const tries = `
name: tries
steps:
  - {id: try, matrix: {n: [1, 2, 3]}, prompt: "Do ${{ matrix.n }}", output: "try-${{ matrix.n }}.txt", retry: 0}
  - {id: judge, needs: [try], prompt: "Judge ${{ steps.try.output }}", output: best.txt}
`

// TestBeside checks that the times of a matrix run at once, each in a room of its own, and then the step
// that needs them, in the first room.
func TestBeside(t *testing.T) {
	m := meet(3)
	b := beside(t, 8, tries, nil, func(job Job) Done {
		if strings.Contains(job.Place, "judge") {
			return fine(job)
		}
		return m.met(job)
	})
	s := b.carry()
	b.ended(s, run.Completed, "done")
	rooms := b.rooms()
	if rooms["try.1"] != "mine" || rooms["try.2"] != "mine.2" || rooms["try.3"] != "mine.3" || rooms["judge"] != "mine" || b.peak != 3 {
		t.Errorf("they were done in %v, %d at once", rooms, b.peak)
	}
	var names []string
	for _, r := range b.plan.Rooms() {
		names = append(names, r.Name+" "+r.Agent)
	}
	if got := strings.Join(names, ", "); got != "mine mine, mine.2 mine, mine.3 mine" {
		t.Errorf("the rooms are %s", got)
	}

	m = meet(2) // the limit
	b = beside(t, 2, tries, nil, func(job Job) Done {
		if strings.Contains(job.Place, "try.3") || strings.Contains(job.Place, "judge") {
			return fine(job)
		}
		return m.met(job)
	})
	b.ended(b.carry(), run.Completed, "done")
	if b.peak != 2 || len(b.plan.Rooms()) != 2 {
		t.Errorf("%d at once, in %v", b.peak, b.plan.Rooms())
	}
	if b = begin(t, tries, fine); len(b.plan.Rooms()) != 1 {
		t.Errorf("one at a time there are %v", b.plan.Rooms())
	}
	if b.carry(); b.peak != 1 {
		t.Errorf("%d at once, and nobody asked for that", b.peak)
	}
}

// TestOnDirectory checks that on the host's directory only fresh commands run beside each other.
func TestOnDirectory(t *testing.T) {
	const text = `
name: on
steps:
  - {id: a, prompt: Do it}
  - {id: b, prompt: Do it}
  - {id: c, needs: [a, b], fresh: true, command: judge}
  - {id: d, needs: [a, b], fresh: true, command: judge}
  - {id: e, needs: [a, b], command: clean}
`
	m := meet(2)
	b := beside(t, 4, text, nil, nil)
	b.plan.Directory = "/project"
	b.again(nil)
	b.do = func(job Job) Done {
		if job.Fresh {
			return m.met(job)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.atWork > 1 {
			t.Errorf("%s is not alone", job.Place)
		}
		return fine(job)
	}
	b.want(b.carry(), run.Completed, "done", b.steps())
	if b.peak != 2 || len(b.plan.Rooms()) != 2 || !b.plan.Beside() {
		t.Errorf("%d at once, in %v", b.peak, b.plan.Rooms())
	}
	b.plan.Flow = parse(t, tries)
	if b.plan.Beside() {
		t.Error("prompts are beside each other on one directory")
	}
}

// TestCopiesBeside checks that copies are worked on at once, and that one is judged while another is
// worked on.
func TestCopiesBeside(t *testing.T) {
	m := meet(2)
	b := beside(t, 3, `
name: copies
steps:
  - {id: try, matrix: {n: [1, 2]}, copy: true, prompt: "Do ${{ matrix.n }}"}
  - {id: gate, of: try, command: judge it, output: "gate-${{ matrix.n }}.txt"}
  - {id: best, needs: [gate], prompt: Choose}
`, nil, nil)
	b.plan.Directory = "/project"
	b.again(nil)
	both := meet(2)
	b.do = func(job Job) Done {
		switch stepOf(job) {
		case "try.1":
			return both.met(job)
		case "try.2":
			if d := both.here(); d.Error != "" {
				return d
			}
			return m.met(job)
		case "gate.1":
			return m.met(job)
		}
		return fine(job)
	}
	b.ended(b.carry(), run.Completed, "done")
}

// TestFailedBeside checks that when a step fails, other steps continue, and steps that need it do not
// run.
func TestFailedBeside(t *testing.T) {
	m := meet(2)
	b := beside(t, 3, `
name: failed
steps:
  - {id: a, command: fail}
  - {id: b, command: go on}
  - {id: c, needs: [b], command: go on}
  - {id: d, needs: [a], command: go on}
`, nil, nil)
	b.do = func(job Job) Done {
		switch stepOf(job) {
		case "a":
			m.here()
			return Done{Verdict: spec.VerdictFailed, Error: "no luck"}
		case "b":
			d := m.met(job)
			for { // until the other has failed
				events, err := b.run.Events()
				if err != nil || slices.ContainsFunc(events, func(ev run.Event) bool { return ev.Type == Worked }) {
					return d
				}
				runtime.Gosched()
			}
		}
		return fine(job)
	}
	s := b.carry()
	b.ended(s, run.Failed, "step")
	if s.Step("b").Status != run.Completed || s.Step("c").Status != run.Completed || s.Step("d").Status != Passed {
		t.Errorf("b is %s, c %s, d %s", s.Step("b").Status, s.Step("c").Status, s.Step("d").Status)
	}
}

// TestBackBeside checks that a running step is cancelled when a step that it needs is sent back. Its
// usage counts, but it is not a try and its result is ignored.
func TestBackBeside(t *testing.T) {
	m := meet(2)
	b := beside(t, 3, `
name: back
steps:
  - {id: a, prompt: Do it, output: a.txt}
  - {id: b, needs: [a], command: judge, back: {to: a}}
  - {id: c, needs: [a], prompt: look at it, output: c.txt, retry: 0}
`, nil, nil)
	b.used = map[string]Used{}
	b.do = func(job Job) Done {
		switch strings.TrimPrefix(job.Place, "/flow/") {
		case "b.1":
			m.here()
			return Done{Verdict: spec.VerdictFailed, Error: "it is bad"}
		case "c.1":
			m.here()
			b.mu.Lock()
			b.used[job.Room] = Used{Tokens: 70, USD: .5}
			b.mu.Unlock()
			return b.until(job)
		}
		return fine(job)
	}
	s := b.carry()
	b.ended(s, run.Completed, "done")
	if st := s.Step("c"); st.Attempts != 2 || s.Step("a").Rounds != 1 || s.Tokens != 70+40 {
		t.Errorf("c is %+v, a %+v, %d tokens", st, s.Step("a"), s.Tokens)
	}
	if !strings.Contains(b.read("events.jsonl"), `"cut"`) {
		t.Error("nothing was given up")
	}
}

// TestShares checks that the budget suffices for all running steps, whatever each of them uses. A step
// whose share was too small gets the whole rest.
func TestShares(t *testing.T) {
	m, third := meet(2), meet(2)
	b := beside(t, 2, tries, nil, nil)
	b.plan.Limits = flowplan.Limits{Tokens: 101, USD: 3}
	b.again(nil)
	b.do = func(job Job) Done {
		d := Done{Verdict: spec.VerdictOK, Tokens: 10, USD: .1, Output: []byte("it")}
		switch strings.TrimPrefix(job.Place, "/flow/") {
		case "try.1.1":
			m.here()
			third.here()                                                                                                     // it begins where the second has left
			d = Done{Verdict: spec.VerdictFailed, Error: "refused", Missing: "there is none", Tokens: job.Budget.Tokens + 1} // it was at its last answer
		case "try.2.1":
			m.here()
		case "try.3.1":
			third.here()
		}
		return d
	}
	s := b.carry()
	b.ended(s, run.Completed, "done")
	budgets := map[string]spec.Budget{}
	for _, job := range b.jobs {
		budgets[strings.TrimPrefix(job.Place, "/flow/")] = job.Budget
	}
	if budgets["try.1.1"] != (spec.Budget{Tokens: 50, USD: 1.5}) || budgets["try.2.1"] != (spec.Budget{Tokens: 51, USD: 1.5}) {
		t.Errorf("the shares were %v", budgets)
	}
	if got := budgets["try.1.2"]; got.Tokens != 101-51-10-10 {
		t.Errorf("then it had %+v", got)
	}
	if st := s.Step("try.1"); st.Attempts != 2 || s.Tokens != 51+10+10+10+10 {
		t.Errorf("it is %+v, after %d tokens", st, s.Tokens)
	}

	b = beside(t, 2, tries, nil, func(job Job) Done { // even the whole budget is never enough
		return Done{Verdict: spec.VerdictFailed, Error: "refused", Missing: "there is none", Tokens: job.Budget.Tokens}
	})
	b.plan.Limits = flowplan.Limits{Tokens: 100}
	b.again(nil)
	s = b.carry()
	b.ended(s, run.Limited, "tokens")
	if s.Tokens != 100 {
		t.Errorf("they took %d", s.Tokens)
	}
}

// TestStopBeside checks that a stop ends all running steps, and that the usage of each counts.
func TestStopBeside(t *testing.T) {
	for _, name := range []string{"stop", "signal"} {
		m := meet(3)
		b := beside(t, 3, tries, nil, nil)
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		b.used = map[string]Used{"mine": {Tokens: 5}}
		b.do = func(job Job) Done {
			b.mu.Lock()
			b.used[job.Room] = Used{Tokens: b.used[job.Room].Tokens + 100}
			b.mu.Unlock()
			m.here()
			if job.Room == "mine" && name == "signal" {
				cancel(&spec.Exited{Code: 143})
			} else if job.Room == "mine" {
				must(t, b.run.Leave(run.Message{Kind: run.Stop, Actor: "ann"}))
			}
			return b.until(job)
		}
		h, events, err := b.run.Host()
		must(t, err)
		s, err := (&Carrier{Plan: b.plan, Run: b.run, Host: h, Runner: b}).Carry(ctx, events)
		must(t, err)
		h.Close()
		code := map[string]int{"stop": spec.ExitCancelled, "signal": 143}[name]
		if want := map[string]run.Status{"stop": run.Cancelled, "signal": run.Interrupted}[name]; s.Status != want || s.ExitCode() != code {
			t.Errorf("%s: it is %s, code %d", name, s.Status, s.ExitCode())
		}
		if s.Tokens != 300 || b.atWork != 0 || strings.Count(b.read("events.jsonl"), `"cut"`) != 3 {
			t.Errorf("%s: after %d tokens %d are at work", name, s.Tokens, b.atWork)
		}
		b.endedLast()
		for _, st := range s.Steps {
			if st.Status != Pending {
				t.Errorf("%s: %s is %s", name, st.ID, st.Status)
			}
		}
	}
}

// endedLast checks that the end is the last event.
func (b *bench) endedLast() {
	b.t.Helper()
	events, err := b.run.Events()
	must(b.t, err)
	if last := events[len(events)-1]; last.Type != run.Ended {
		b.t.Errorf("after its end: %s", last.Type)
	}
}

// TestErrorBeside checks that a missing place ends the flow, and cancels the work in other places.
func TestErrorBeside(t *testing.T) {
	m := meet(3)
	b := beside(t, 3, tries, nil, nil)
	b.do = func(job Job) Done {
		m.here()
		return b.until(job)
	}
	broken := &brokenShop{bench: b, room: "mine.2", m: m}
	h, events, err := b.run.Host()
	must(t, err)
	defer h.Close()
	s, err := (&Carrier{Plan: b.plan, Run: b.run, Host: h, Runner: broken}).Carry(t.Context(), events)
	must(t, err)
	b.ended(s, run.Failed, "error")
	b.endedLast()
	if !strings.Contains(s.Detail, "the sandbox is broken") || b.atWork != 0 {
		t.Errorf("%s, and %d are at work", s.Detail, b.atWork)
	}
}

// TestAskedBeside checks that a person is asked while other steps run, and that the flow waits for the
// person when no step is left to run.
func TestAskedBeside(t *testing.T) {
	b := beside(t, 2, `
name: asked
steps:
  - {id: a, command: do it}
  - {id: good, approval: {message: Good?}}
  - {id: b, needs: [a], command: do it}
  - {id: c, needs: [good], command: do it}
`, nil, nil)
	b.do = func(job Job) Done {
		for stepOf(job) == "a" { // until the person was asked
			events, err := b.run.Events()
			if err != nil || slices.ContainsFunc(events, func(ev run.Event) bool { return ev.Type == Asked }) {
				break
			}
			runtime.Gosched()
		}
		return fine(job)
	}
	s := b.carry()
	b.ended(s, run.Waiting, "approval")
	if s.Step("b").Status != run.Completed {
		t.Errorf("b is %s", s.Step("b").Status)
	}
	b.answer("", true)
	b.want(b.carry(), run.Completed, "done", "c.1")
}

// TestAnsweredBeside checks that an answer is read while a step is running: steps that need it begin at
// once. An answer to another question is not used.
func TestAnsweredBeside(t *testing.T) {
	m := meet(3)
	b := beside(t, 3, `
name: asked
steps:
  - {id: a, command: do it, output: a.txt}
  - {id: slow, command: do it}
  - {id: good, needs: [a], approval: {message: Good?}}
  - {id: tone, question: {message: Which?}, output: tone.txt, validate: {pattern: '^dry$'}}
  - {id: b, needs: [good], command: do it}
  - {id: c, needs: [tone], command: do it}
`, nil, nil)
	b.do = func(job Job) Done {
		if stepOf(job) == "a" {
			return fine(job)
		}
		return m.met(job) // slow, b and c meet
	}
	said := 0
	b.tell = func(ev run.Event, _ *State) {
		if ev.Type != Asked {
			return
		}
		events, err := b.run.Events()
		must(t, err)
		p := &Person{Plan: b.plan, Run: b.run, Events: events, Name: "ann"}
		if said++; said == 1 { // the question, which needs nothing
			must(t, b.run.Leave(run.Message{Kind: run.Reply, Actor: "ann", Data: json.RawMessage(`{"step": "good", "hash": "other", "approved": true}`)}))
			if _, err := p.Answer("", "loud"); !errors.Is(err, spec.ErrUsage) {
				t.Errorf("loud is a tone: %v", err)
			}
			_, err = p.Answer("", "dry")
		} else {
			_, err = p.Decide("", true, "fine")
		}
		must(t, err)
	}
	s := b.carry()
	b.ended(s, run.Completed, "done")
	if s.Step("good").Detail != "approved by ann: fine" || s.Step("tone").Detail != "answered by ann" || b.read("outputs/tone.txt") != "dry" || said != 2 {
		t.Errorf("good is %+v, tone %+v", s.Step("good"), s.Step("tone"))
	}
	list, err := b.run.Mail()
	must(t, err)
	if len(list) != 0 {
		t.Errorf("%d messages were not taken", len(list))
	}
}

const listed = `
name: listed
inputs: [{name: prd, file: prd.json, required: true}]
steps:
  - id: story
    each: prd
    steps:
      - {id: do, prompt: "Do ${{ each.id }}", retry: 0}
      - {id: see, needs: [do], command: see}
  - {id: report, needs: [story], if: always(), command: report}
`

// TestElementsBeside checks that elements of a list run side by side, unless they need others. An
// element that needs an unfinished one waits until that is done.
func TestElementsBeside(t *testing.T) {
	list := map[string]string{"prd.json": `[{"id": "b", "dependsOn": ["a", "z"], "priority": 1}, {"id": "a", "priority": 2}, {"id": "c", "priority": 3}, {"id": "d", "priority": 4, "needs": ["b"]}, {"id": "z", "passes": true}]`}
	m := meet(2)
	b := beside(t, 4, listed, list, nil)
	b.do = func(job Job) Done {
		if name := stepOf(job); name == "do.1" || name == "do.3" { // a and c
			return m.met(job)
		}
		return fine(job)
	}
	s := b.carry()
	b.ended(s, run.Completed, "done")
	var order []string
	for _, e := range s.Elements() {
		order = append(order, e.ID)
	}
	if got := strings.Join(order, " "); got != "a b c d" {
		t.Errorf("the order is %s", got)
	}
	for _, needs := range [][2]string{{"do.2", "see.1"}, {"do.4", "see.2"}} {
		if s.Step(needs[0]).done < s.Step(needs[1]).done {
			t.Errorf("%s was done before %s", needs[0], needs[1])
		}
	}

	bad := true
	b = beside(t, 4, listed, list, nil)
	b.do = func(job Job) Done {
		if bad && stepOf(job) == "see.1" {
			return Done{Verdict: spec.VerdictFailed, Error: "no"}
		}
		return fine(job)
	}
	s = b.carry()
	b.ended(s, run.Completed, ReasonSkipped)
	if st := s.Step("do.4"); st.Status != Passed || st.Detail != "b, which it needs, was not done" || s.Step("see.3").Status != run.Completed {
		t.Errorf("d is %+v, c is %s", st, s.Step("see.3").Status)
	}
	bad = false
	s = b.carry()
	b.ended(s, run.Completed, "done")
	if got := strings.Fields(b.steps()); len(got) != 6 || slices.Contains(got, "do.1.2") || s.Step("do.3").Attempts != 1 {
		t.Errorf("then %s were done", got)
	}
}

// stateAfter returns the state of a flow after its carrier's beginning and these events.
func stateAfter(t *testing.T, p *flowplan.Plan, at time.Time, happened ...any) *State {
	t.Helper()
	s, err := Fold(p, nil)
	must(t, err)
	seq := int64(0)
	add := func(kind string, data any) {
		text, err := json.Marshal(data)
		must(t, err)
		seq++
		must(t, s.Add(run.Event{Seq: seq, Time: at, Type: kind, Data: text}))
	}
	add(run.Began, nil)
	add(Found, Seen{})
	for _, data := range happened {
		switch data := data.(type) {
		case Start:
			if data.Hash == "" {
				data.Hash = s.hashTask(s.nodeOf(data.Step))
			}
			add(Started, data)
		case Work:
			add(Worked, data)
		}
	}
	return s
}

// TestNextBeside checks which steps begin beside running ones.
func TestNextBeside(t *testing.T) {
	const six = `
name: six
steps:
  - {id: ask, matrix: {n: [1, 2, 3]}, prompt: do it}
  - {id: do, matrix: {n: [1, 2, 3]}, command: do it}
`
	const judges = `
name: judges
steps:
  - {id: see, matrix: {n: [1, 2]}, fresh: true, command: judge}
  - {id: ask, prompt: do it}
  - {id: do, command: do it}
`
	ask := func(n int, share spec.Budget) Start {
		return Start{Step: fmt.Sprint("ask.", n), Attempt: 1, Room: flowplan.RoomsOf("mine", 3)[n-1], Share: share}
	}
	third := spec.Budget{Tokens: 33}
	for name, c := range map[string]struct {
		flow      string
		most      int
		directory string
		tokens    int64
		happened  []any
		want      string // the next step and its room; or join
		share     int64
		part      bool
	}{
		"nothing is at work":                 {flow: six, most: 2, want: "ask.1 mine"},
		"one is":                             {flow: six, most: 2, happened: []any{ask(1, spec.Budget{})}, want: "ask.2 mine.2"},
		"no more than may be":                {flow: six, most: 2, happened: []any{ask(1, spec.Budget{}), ask(2, spec.Budget{})}, want: "join"},
		"commands are beside agents":         {flow: six, most: 4, happened: []any{ask(1, spec.Budget{}), ask(2, spec.Budget{}), ask(3, spec.Budget{})}, want: "do.1 shell"},
		"a room that is free again":          {flow: six, most: 2, happened: []any{ask(1, spec.Budget{}), ask(2, spec.Budget{}), Work{Step: "ask.1", Verdict: spec.VerdictOK}}, want: "ask.3 mine"},
		"shares":                             {flow: six, most: 3, tokens: 99, want: "ask.1 mine", share: 33, part: true},
		"one whose share did not do waits":   {flow: tries, most: 3, tokens: 99, happened: []any{trying(1), trying(2), trying(3), Work{Step: "try.1", Verdict: spec.VerdictFailed, Tokens: 33, Scant: true}, Work{Step: "try.2", Verdict: spec.VerdictOK, Tokens: 1}}, want: "join"},
		"it has all that is left":            {flow: tries, most: 3, tokens: 99, happened: []any{trying(1), trying(2), trying(3), Work{Step: "try.1", Verdict: spec.VerdictFailed, Tokens: 33, Scant: true}, Work{Step: "try.2", Verdict: spec.VerdictOK, Tokens: 1}, Work{Step: "try.3", Verdict: spec.VerdictOK, Tokens: 1}}, want: "try.1 mine", share: 64},
		"what is left is all given":          {flow: six, most: 4, tokens: 99, happened: []any{ask(1, third), ask(2, third), ask(3, third)}, want: "join"},
		"what has not been used is given":    {flow: six, most: 3, tokens: 99, happened: []any{ask(1, third), ask(2, third), Work{Step: "ask.1", Verdict: spec.VerdictOK, Tokens: 3}}, want: "ask.3 mine", share: 31, part: true},
		"all is used up, when all have done": {flow: six, most: 4, tokens: 99, happened: []any{ask(1, third), ask(2, third), Work{Step: "ask.1", Verdict: spec.VerdictOK, Tokens: 100}}, want: "join"},
		"on PATH, judges":                    {flow: judges, most: 4, directory: "/p", want: "see.1 "},
		"on PATH, another one":               {flow: judges, most: 4, directory: "/p", happened: []any{Start{Step: "see.1", Attempt: 1}}, want: "see.2 "},
		"on PATH, nobody else":               {flow: judges, most: 4, directory: "/p", happened: []any{Start{Step: "see.1", Attempt: 1}, Start{Step: "see.2", Attempt: 1}}, want: "join"},
		"on PATH, nobody beside an agent":    {flow: judges, most: 4, directory: "/p", happened: []any{Start{Step: "ask", Attempt: 1, Room: "mine"}}, want: "join"},
		"elsewhere, anybody":                 {flow: judges, most: 4, happened: []any{Start{Step: "see.1", Attempt: 1}, Start{Step: "see.2", Attempt: 1}}, want: "ask mine"},
	} {
		p := &flowplan.Plan{Flow: parse(t, c.flow), Agent: "mine", Values: map[string]string{}, Parallel: c.most, Directory: c.directory, Limits: flowplan.Limits{Tokens: c.tokens}}
		at := time.Now()
		d := Next(stateAfter(t, p, at, c.happened...), at)
		got := fmt.Sprintf("%+v", d)
		switch {
		case d.Join:
			got = "join"
		case d.Work != nil:
			got = d.Work.ID + " " + d.Room
		}
		if got != c.want || d.Share.Tokens != c.share || d.Part != c.part {
			t.Errorf("%s: it is %s with %d tokens (%v), not %s with %d (%v)", name, got, d.Share.Tokens, d.Part, c.want, c.share, c.part)
		}
	}
}

// trying begins a try of the flow tries, with a third of the budget.
func trying(n int) Start {
	return Start{Step: fmt.Sprint("try.", n), Attempt: 1, Room: flowplan.RoomsOf("mine", 3)[n-1], Share: spec.Budget{Tokens: 33}}
}

// TestAllowanceBeside checks that work that was already running does not count as news about a used-up
// allowance.
func TestAllowanceBeside(t *testing.T) {
	b := beside(t, 2, `
name: limited
steps:
  - {id: a, prompt: do it}
  - {id: b, prompt: do it}
`, nil, nil)
	at := time.Now()
	s := stateAfter(t, b.plan, at,
		Start{Step: "a", Attempt: 1, Hash: "h", Room: "mine"},
		Start{Step: "b", Attempt: 1, Hash: "h", Room: "mine.2"},
		Work{Step: "a", Attempt: 1, Verdict: spec.VerdictLimit, Until: at.Add(time.Hour)},
		Work{Step: "b", Attempt: 1, Verdict: spec.VerdictOK})
	if got := s.Until; !got.Equal(at.Add(time.Hour)) {
		t.Errorf("it wakes at %s", got)
	}
}

// TestUnkeptBeside checks that a failure to record is reported once, however many steps are running.
func TestUnkeptBeside(t *testing.T) {
	m := meet(3)
	b := beside(t, 3, tries, nil, nil)
	b.do = func(job Job) Done {
		m.here()
		if stepOf(job) != "try.1" {
			return b.until(job)
		}
		record := filepath.Join(b.run.Dir(), recordName)
		if err := errors.Join(os.Remove(record), os.Mkdir(record, 0o700)); err != nil {
			t.Error(err)
		}
		return fine(job)
	}
	h, events, err := b.run.Host()
	must(t, err)
	defer h.Close()
	_, err = (&Carrier{Plan: b.plan, Run: b.run, Host: h, Runner: b}).Carry(t.Context(), events)
	if err == nil || strings.Count(err.Error(), "rename") != 1 || b.atWork != 0 {
		t.Errorf("%v; %d are at work", err, b.atWork)
	}
}

// TestAllowanceOnce checks that a used-up allowance counts once, however many steps report it side by
// side, and that the one that knows the end is believed. So the flow waits as many rounds as for one
// step.
func TestAllowanceOnce(t *testing.T) {
	b := beside(t, 3, tries, nil, nil)
	at := time.Now()
	until := at.Add(time.Hour)
	var happened []any
	for round := range maxLimits {
		for n := range 3 {
			happened = append(happened, Start{Step: fmt.Sprint("try.", n+1), Attempt: round + 1, Room: flowplan.RoomsOf("mine", 3)[n]})
		}
		for n := range 3 {
			w := Work{Step: fmt.Sprint("try.", n+1), Attempt: round + 1, Verdict: spec.VerdictLimit}
			if n == 0 {
				w.Until = until
			}
			happened = append(happened, w)
		}
	}
	s := stateAfter(t, b.plan, at, happened...)
	for _, st := range s.Steps[:3] {
		if st.Status != Pending || st.Detail != Exhausted {
			t.Errorf("%s is %s, %s", st.ID, st.Status, st.Detail)
		}
	}
	if s.limits != maxLimits || !s.Until.Equal(until) {
		t.Errorf("%d in a row, until %s", s.limits, s.Until)
	}
	happened = append(happened, Start{Step: "try.1", Attempt: 99}, Work{Step: "try.1", Attempt: 99, Verdict: spec.VerdictLimit, Error: "no more"})
	if st := stateAfter(t, b.plan, at, happened...).Step("try.1"); st.Status != run.Failed {
		t.Errorf("after %d rounds it is %s", maxLimits, st.Status)
	}
}

// TestCrowded checks that the wait for an overloaded provider grows, and that this is not a try.
func TestCrowded(t *testing.T) {
	b := beside(t, 3, tries, nil, nil)
	at := time.Now()
	var happened []any
	for n := 1; n <= 3; n++ {
		happened = append(happened, Start{Step: "try.1", Attempt: n, Room: "mine"}, Work{Step: "try.1", Attempt: n, Verdict: spec.VerdictLimit, Overloaded: true})
		s := stateAfter(t, b.plan, at, happened...)
		s.Status = run.Running
		d, waits := s.Waits()
		if st := s.Step("try.1"); st.Status != Pending || st.Detail != Crowded || st.tries != 0 || !waits || d.For != run.Overloaded || !d.Since.Equal(at) || !d.Until.Equal(at.Add(time.Second<<n)) {
			t.Errorf("after %d it is %+v, and waits: %+v", n, st, d)
		}
	}
}

// TestAllowanceOver checks that all steps that waited for an allowance continue, and not only the first.
func TestAllowanceOver(t *testing.T) {
	b := beside(t, 3, tries, nil, nil)
	at := time.Now()
	happened := []any{trying(1), Work{Step: "try.1", Attempt: 1, Verdict: spec.VerdictLimit, Until: at.Add(10 * time.Second)}}
	if d := Next(stateAfter(t, b.plan, at, happened...), at); !d.Wait.Equal(at.Add(10 * time.Second)) {
		t.Fatalf("it comes next: %+v", d)
	}
	happened = append(happened, Start{Step: "try.1", Attempt: 2, Room: "mine"})
	if d := Next(stateAfter(t, b.plan, at, happened...), at.Add(11*time.Second)); d.Work == nil || d.Work.ID != "try.2" {
		t.Errorf("it comes next: %+v", d)
	}
}

// TestAskedMeanwhile checks that a person is asked while an allowance is used up, and that the flow
// waits then.
func TestAskedMeanwhile(t *testing.T) {
	b := beside(t, 1, `
name: limited
steps:
  - {id: a, prompt: do it}
  - {id: good, approval: {message: good?}}
  - {id: b, needs: [a], prompt: do it}
`, nil, nil)
	at := time.Now()
	s := stateAfter(t, b.plan, at,
		Start{Step: "a", Attempt: 1, Room: "mine"},
		Work{Step: "a", Attempt: 1, Verdict: spec.VerdictLimit, Until: at.Add(time.Hour)})
	d := Next(s, at)
	if d.Ask == nil || d.Ask.ID != "good" {
		t.Fatalf("it comes next: %+v", d)
	}
	s.settle("good", d.Hash, run.Waiting, "", 9)
	if d := Next(s, at); !d.Wait.Equal(at.Add(time.Hour)) {
		t.Errorf("it comes next: %+v", d)
	}
	if d := Next(s, at.Add(2*time.Hour)); d.Work == nil || d.Work.ID != "a" {
		t.Errorf("it comes next then: %+v", d)
	}
}

// brokenShop has a room in which every job fails to begin.
type brokenShop struct {
	*bench
	room string
	m    *meeting
}

// mixed has steps that need each other, some that fail, and some that are sent back.
const mixed = `
name: mixed
inputs: [{name: prd, file: prd.json, required: true}]
steps:
  - {id: a, prompt: do it, output: a.txt}
  - {id: m, matrix: {n: [1, 2, 3]}, needs: [a], prompt: "do ${{ matrix.n }}", output: "m-${{ matrix.n }}.txt"}
  - {id: b, needs: [a], command: judge, output: b.txt, retry: 1}
  - {id: back, needs: [b], command: judge, back: {to: a}}
  - {id: bad, command: fail}
  - {id: after, needs: [bad], command: never}
  - {id: sorry, needs: [after, m], if: failure(), command: say sorry}
  - id: story
    each: prd
    steps:
      - {id: do, prompt: "Do ${{ each.id }}", output: "do-${{ each.id }}.txt"}
      - {id: see, needs: [do], command: see, back: {to: do}}
  - {id: good, needs: [m], approval: {message: Good?}}
`

var mixedList = map[string]string{"prd.json": `[{"id": "s1"}, {"id": "s2"}, {"id": "s3", "needs": ["s1"]}]`}

// mixedDo fails by a fixed rule that depends only on the tries of each step. So the result is the same
// in any order of the steps.
func mixedDo(job Job) Done {
	for range rand.IntN(50) {
		runtime.Gosched()
	}
	switch name := strings.TrimPrefix(job.Place, "/flow/"); {
	case name == "b.1", name == "back.1", name == "see.2.1", strings.HasPrefix(name, "bad."):
		return Done{Verdict: spec.VerdictFailed, Error: "it is red", Missing: "there is none", Tokens: 10}
	case name == "m.2.1":
		return Done{Verdict: spec.VerdictOK, Missing: "there is none", Tokens: 10}
	}
	return fine(job)
}

// standing describes the state of a flow, without its times.
func standing(s *State) string {
	var b strings.Builder
	fmt.Fprintln(&b, s.Status, s.Reason, s.Tokens)
	for _, st := range s.Steps {
		fmt.Fprintln(&b, st.ID, st.Status, st.Attempts, st.tries, st.Rounds, st.Missing, st.Detail, st.Output, st.unable)
	}
	return b.String()
}

// TestInterleaved folds the events of several steps that ran at once. Any order gives the same state if
// each step's events, and those of the steps it needs, keep their order. So does a sequential order, and
// so does every prefix followed by the rest.
func TestInterleaved(t *testing.T) {
	for seed := range 6 {
		b := beside(t, 2+seed%4, mixed, mixedList, mixedDo)
		s := b.carry()
		b.ended(s, run.Waiting, "approval")
		events, err := b.run.Events()
		must(t, err)
		want := standing(s)
		if got := foldOf(t, b.plan, sequential(s, events)); got != want {
			t.Fatalf("one after the other it is\n%s, not\n%s", got, want)
		}
		r := newRand(uint64(seed))
		for range 20 {
			if got := foldOf(t, b.plan, shuffled(r, b.plan, s, events)); got != want {
				t.Fatalf("in another order it is\n%s, not\n%s", got, want)
			}
		}
		for n := range events {
			prefix, err := Fold(b.plan, events[:n])
			must(t, err)
			for _, st := range prefix.Steps {
				if st.Status == run.Completed && st.done == 0 {
					t.Fatalf("after %d events %s is done since never", n, st.ID)
				}
			}
			if busy := len(prefix.atWork()); busy > b.plan.Most() {
				t.Fatalf("after %d events %d are at work", n, busy)
			}
			for _, ev := range events[n:] {
				must(t, prefix.Add(ev))
			}
			if got := standing(prefix); got != want {
				t.Fatalf("with its rest after %d events it is\n%s, not\n%s", n, got, want)
			}
		}
	}
}

func foldOf(t *testing.T, p *flowplan.Plan, events []run.Event) string {
	t.Helper()
	for i := range events {
		events[i].Seq = int64(i + 1)
	}
	s, err := Fold(p, events)
	must(t, err)
	return standing(s)
}

// neededBy returns the places of the nodes that each node needs, directly or not.
func neededBy(p *flowplan.Plan, s *State) []map[int]bool {
	above, at := make([]map[int]bool, len(s.nodes)), map[string]int{}
	for i, n := range s.nodes {
		at[n.ID], above[i] = i, map[int]bool{}
		for k, other := range s.nodes[:i] {
			inTurn := p.InTurn() && n.Group != "" && n.Group == other.Group && other.Number < n.Number
			sooner := n.Group == other.Group && slices.Contains(n.After, other.Number)
			if inTurn || sooner || slices.Contains(n.Needs, other.ID) {
				above[i][k] = true
				maps.Copy(above[i], above[k])
			}
		}
	}
	return above
}

// kin reports whether the order of two events matters, by their places: they belong to one step,
// or one to a step that the other needs, or one to none.
func kin(p *flowplan.Plan, s *State, events []run.Event) func(a, b int) bool {
	above, at := neededBy(p, s), map[string]int{}
	for i, n := range s.nodes {
		at[n.ID] = i
	}
	about := make([]int, len(events))
	for i, ev := range events {
		if about[i] = -1; s.Told(ev) != nil {
			about[i] = at[s.Told(ev).ID]
		}
	}
	return func(a, b int) bool {
		i, k := about[a], about[b]
		return i < 0 || k < 0 || i == k || above[i][k] || above[k][i]
	}
}

// shuffled returns a random order in which kin keep their order.
func shuffled(r *rand.Rand, p *flowplan.Plan, s *State, events []run.Event) []run.Event {
	related := kin(p, s, events)
	rest, out := make([]int, len(events)), []run.Event{}
	for i := range rest {
		rest[i] = i
	}
	for len(rest) > 0 {
		var first []int
		for i, ev := range rest {
			if !slices.ContainsFunc(rest[:i], func(other int) bool { return related(ev, other) }) {
				first = append(first, i)
			}
		}
		i := first[r.IntN(len(first))]
		out, rest = append(out, events[rest[i]]), slices.Delete(rest, i, i+1)
	}
	return out
}

// sequential makes every try begin just before it ends.
func sequential(s *State, events []run.Event) (out []run.Event) {
	begun := map[string]run.Event{}
	for _, ev := range events {
		switch st := s.Told(ev); {
		case ev.Type == Started:
			begun[st.ID] = ev
			continue
		case ev.Type == Worked || ev.Type == Cut:
			out = append(out, begun[st.ID])
		}
		out = append(out, ev)
	}
	return out
}

// TestTornBeside lets the host die after any event while several steps are running. Running steps are
// repeated and counted once; finished steps are not repeated.
func TestTornBeside(t *testing.T) {
	racetest.Skip(t)
	whole := beside(t, 3, mixed, mixedList, mixedDo)
	whole.ended(whole.carry(), run.Waiting, "approval")
	lines := bytes.SplitAfter([]byte(whole.read("events.jsonl")), []byte("\n"))
	for n := 1; n < len(lines)-1; n++ {
		b := beside(t, 3, mixed, mixedList, nil)
		must(t, os.CopyFS(filepath.Join(b.run.Dir(), "outputs"), os.DirFS(filepath.Join(whole.run.Dir(), "outputs"))))
		b.write("events.jsonl", string(bytes.Join(lines[:n], nil)))
		events, err := b.run.Events()
		must(t, err)
		before, err := Fold(b.plan, events)
		must(t, err)
		var cut, done []string
		for _, st := range before.Steps {
			switch st.Status {
			case run.Running:
				cut = append(cut, st.ID)
			case run.Completed:
				done = append(done, st.ID)
			}
		}
		b.used = map[string]Used{}
		for _, id := range cut {
			if st := before.Step(id); st.room != "" {
				b.used[st.room] = Used{Tokens: st.before.Tokens + 1000}
			}
		}
		b.do = func(job Job) Done {
			d := fine(job)
			d.Tokens = 0
			return d
		}
		counted := int64(0)
		b.tell = func(ev run.Event, s *State) {
			if ev.Type == Cut {
				var k Short
				must(t, json.Unmarshal(ev.Data, &k))
				counted += k.Tokens
			}
		}
		s := b.carry()
		if s.Status != run.Waiting && s.Status != run.Completed {
			t.Fatalf("after %d events it is %s (%s: %s)", n, s.Status, s.Reason, s.Detail)
		}
		rooms := 0
		for _, id := range cut {
			if before.Step(id).room != "" {
				rooms++
			}
			if s.Step(id).Attempts == before.Step(id).Attempts && s.Step(id).Status == run.Completed {
				t.Fatalf("after %d events %s was not done again", n, id)
			}
		}
		if counted != int64(1000*rooms) {
			t.Fatalf("after %d events %d were at work, and %d tokens were counted", n, rooms, counted)
		}
		for _, id := range done {
			if s.Step(id).Attempts != before.Step(id).Attempts {
				t.Fatalf("after %d events %s was done again", n, id)
			}
		}
	}
}

// TestRandomBeside is TestRandom with several steps at a time.
func TestRandomBeside(t *testing.T) {
	list := map[string]string{"list.json": `[{"id": "v"}, {"id": "w"}, {"id": "x", "needs": ["v"]}, {"id": "y"}, {"id": "z", "passes": true}]`}
	for seed := range 16 {
		r := newRand(uint64(seed))
		b := beside(t, 1+seed%5, randomFlow(r), list, nil)
		bad := []int{5, 5, 2, 1}[seed%4]
		b.do = func(job Job) Done {
			for range rand.IntN(20) {
				runtime.Gosched()
			}
			if rand.IntN(bad) == 0 {
				return Done{Verdict: spec.VerdictFailed, Error: "no", Missing: "not there"}
			}
			return fine(job)
		}
		for range 5 {
			s := b.carry()
			check(t, b, s)
			if b.peak > b.plan.Most() || b.atWork != 0 {
				t.Fatalf("%d at once, of %d, and %d still are", b.peak, b.plan.Most(), b.atWork)
			}
			switch r.IntN(3) {
			case 0: // the host died
				lines := bytes.SplitAfter([]byte(b.read("events.jsonl")), []byte("\n"))
				b.write("events.jsonl", string(bytes.Join(lines[:r.IntN(len(lines))], nil)))
			case 1: // the user changes an output
				if list, _ := filepath.Glob(filepath.Join(b.run.Dir(), "outputs", "*")); len(list) > 0 {
					must(t, os.WriteFile(list[r.IntN(len(list))], []byte("changed"), 0o600))
				}
			}
		}
	}
}

// Work fails there while the others are running.
func (b *brokenShop) Work(ctx context.Context, job Job) (Done, error) {
	if job.Room == b.room {
		b.m.here()
		return Done{}, errors.New("the sandbox is broken")
	}
	return b.bench.Work(ctx, job)
}
