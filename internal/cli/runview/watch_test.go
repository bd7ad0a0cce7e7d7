package runview

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/flow"
	"github.com/bothy-dev/bothy/internal/flow/flowplan"
	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/loop/taskqueue"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/runstate"
	"github.com/bothy-dev/bothy/internal/task"
	"github.com/bothy-dev/bothy/spec"
)

// plainPage returns a page without its colors.
func plainPage(p watchedPage, rows, cols int, now time.Time) string {
	var b strings.Builder
	for _, l := range p.pageLines(rows, cols, now) {
		for _, piece := range l {
			b.WriteString(piece.Text)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestWatched(t *testing.T) {
	root := t.TempDir()
	r, err := run.Create(root, "fix-2026-11-22-0001", nil)
	must(t, err)
	h, _, err := r.Host()
	must(t, err)
	defer h.Close()
	keep := func(kind string, data any) {
		t.Helper()
		_, err := h.Append(kind, run.ActorHost, data)
		must(t, err)
	}
	red := []loop.Gate{{Name: "make test", Why: "exit code 2", Output: "a\n\nb\nc\nd\x1b[2J\n"}, {Name: "lint", Green: true}}
	keep(run.Began, nil)
	keep(run.Ready, loop.Made{Sandbox: "mine-app"})
	page := func(rows int, change func(*loopPage)) string {
		t.Helper()
		events, err := r.Events()
		must(t, err)
		p := &loopPage{Loop: &runstate.Loop{Record: runstate.Record{Run: r, Hosted: true}}}
		p.Plan = loopplan.Plan{Agent: "mine", Directory: "/app", Prompt: "fix it\nall", Limits: loopplan.Limits{MaxIterations: 10, Tokens: 1000}, Stall: loopplan.Stall{SameRed: 6}}
		p.State, err = loop.Fold(events)
		must(t, err)
		p.Spent, err = loop.Ledger(events)
		must(t, err)
		p.past, err = iterationsOf(events)
		must(t, err)
		p.State.Elapsed = spec.Duration(90 * time.Second)
		if change != nil {
			change(p)
		}
		return plainPage(p, rows, 60, p.State.Last.Add(5*time.Second))
	}
	if got := page(24, nil); !strings.Contains(got, "the sandbox is made") {
		t.Errorf("%s", got)
	}
	keep(loop.Baseline, loop.Verdict{Gates: red})
	if got := page(24, nil); !strings.Contains(got, "before the first iteration: 1 of 2 red") {
		t.Errorf("%s", got)
	}
	for i := range 5 {
		keep(loop.Iteration, loop.Begun{Iteration: i + 1})
		if i == 2 {
			keep(loop.Iteration, loop.Begun{Iteration: i + 1}) // it was interrupted
		}
		keep(loop.Worked, loop.Work{
			Iteration: i + 1, Verdict: spec.VerdictOK, Done: i == 3, Tokens: 100, Seconds: 61,
			Seen: &spec.BillItem{Answers: 1, Tokens: spec.Tokens{Output: 100}, USD: .5}, Said: &spec.Claimed{Tokens: int64(60 + 10*i)},
		})
		keep(loop.Kept, loop.Keep{Iteration: i + 1, Checkpoint: 2, Changes: i})
		keep(loop.Judged, loop.Verdict{Iteration: i + 1, Gates: red})
	}
	keep(loop.Iteration, loop.Begun{Iteration: 6})
	keep(loop.Hinted, loop.Advice{Message: "1", Text: "look at b"})
	want := `fix-2026-11-22-0001  running  1m35s
mine in mine-app, /app
fix it ...

iteration  ████████████░░░░░░░░ 6 of 10
tokens     ██████████████░░░░░░ 700 of 1000  seen 500, claimed 400!
cost       0.2500+? USD  seen 2.50, claimed -

   #     took     seen   claimed  files  what became of it
   6       5s                            works
   5     1m1s      100       100      4  said nothing, 1 of 2 red
   4     1m1s      100       90!      3  says it is done, 1 of 2 red
      and 3 before

red        make test  exit code 2
           b
           c
           d` + "\x1b" + `[2J
green      lint
refused    x.example (3)
stuck      the same gates said the same 5 times, of 6
hint       look at b
`
	// While its model refuses, the agent cannot work, and its line says so with the reason.
	denied := page(20, func(p *loopPage) {
		p.traffic = outward{denied: &spec.Limited{At: p.past[len(p.past)-1].began, Host: "a.example", Status: 529}}
	})
	if !strings.Contains(denied, "asks a model that does not answer\n") || !strings.Contains(denied, "\nprovider   a.example refused a question at ") {
		t.Errorf("%s", denied)
	}
	if early := page(20, func(p *loopPage) {
		p.traffic = outward{denied: &spec.Limited{At: p.past[len(p.past)-1].began.Add(-time.Second), Host: "a.example", Status: 529}}
	}); !strings.Contains(early, "  works\n") {
		t.Errorf("%s", early)
	}
	got := page(20, func(p *loopPage) {
		p.traffic = outward{sum: spec.BillItem{Tokens: spec.Tokens{Input: 700}, USD: .25, Unpriced: 1}, refused: []string{"x.example (3)"}}
	})
	if got != want {
		t.Errorf("%s\nis not\n%s", got, want)
	}
	if got := page(20, func(p *loopPage) { p.Pause = true }); !strings.Contains(got, "\npause      after this iteration\nhint ") {
		t.Errorf("%s", got)
	}
	if got := page(200, nil); strings.Contains(got, "before") || strings.Count(got, ", 1 of 2 red") != 5 {
		t.Errorf("%s", got)
	}
	keep(loop.Took, loop.Taken{ID: "bd-1"})
	keep(loop.Closed, loop.Finished{Task: "bd-1"})
	keep(loop.Took, loop.Taken{ID: "bd-2"})
	keep(loop.PutBack, loop.Left{Task: "bd-2"})
	keep(loop.Took, loop.Taken{ID: "bd-3", Title: "the third"})
	keep(loop.Iteration, loop.Begun{Iteration: 7})
	keep(loop.Worked, loop.Work{Iteration: 7, Verdict: spec.VerdictOK, USD: 1.25})
	got = page(40, func(p *loopPage) { p.Plan.Tasks = &loopplan.Tasks{} })
	for _, want := range []string{"\ntasks      1 closed, 1 put back\ntask       bd-3 the third\n", "\ncost       1.25"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not there:\n%s", want, got)
		}
	}
	got = page(24, func(p *loopPage) {
		p.Plan.Tasks = &loopplan.Tasks{}
		p.ahead = &ahead{ready: []taskqueue.Open{{Task: "bd-4", Title: "next"}, {Task: "bd-5", Title: "then"}}, notReady: []taskqueue.Open{
			{Task: "bd-6", Title: "x", Why: task.ReasonBlocked, By: []string{"bd-3"}}, {Task: "bd-7", Why: task.ReasonHuman}, {Task: "bd-8", Why: task.ReasonHuman},
		}}
	})
	want = `
tasks      ██▌░░░░░░░░░░░░░░░░░ 1 of 8 closed, 1 put back, 5 to come
task       bd-3 the third
to come    bd-4 next
           bd-5 then
           bd-6 x  blocked by bd-3
           and 2 more
tokens `
	if !strings.Contains(got, want) {
		t.Errorf("%s\nis not in\n%s", want, got)
	}
	got = page(24, func(p *loopPage) { p.Plan.Tasks, p.ahead = &loopplan.Tasks{}, &ahead{err: errors.New("locked\nby x")} })
	if want := "\ntask       bd-3 the third\nto come    locked ...\n"; !strings.Contains(got, want) {
		t.Errorf("%s\nis not in\n%s", want, got)
	}
}

// TestUnasked checks that reviewers without a verdict are not counted as green or red.
func TestUnasked(t *testing.T) {
	p := &loopplan.Plan{Gates: []loopplan.Criterion{
		{ID: "good", Reviewer: &loopplan.Reviewer{Agent: "mine", Prompt: "Is it good?"}}, {ID: "short", Reviewer: &loopplan.Reviewer{Agent: "mine", Model: "big", Prompt: "Is it short?"}},
	}}
	v := &loop.Verdict{Gates: []loop.Gate{{Name: "make test", Green: true}}}
	for _, step := range []struct {
		gate loop.Gate
		want string
	}{
		{loop.Gate{}, "1 of 3 green, not asked yet: good, short"},
		{loop.Gate{Name: "good", Green: true, Review: true}, "2 of 3 green, not asked yet: short"},
		{loop.Gate{Name: "short", Green: true, Review: true}, "all green"},
		{loop.Gate{Name: "short", Why: "it fails", Review: true}, "1 of 4 red: short (it fails)"},
	} {
		if step.gate.Name != "" {
			v.Gates = append(v.Gates, step.gate)
		}
		if got := gatesText(p, v); got != step.want {
			t.Errorf("they say %q, want %q", got, step.want)
		}
	}
	w := &loopPage{Loop: &runstate.Loop{Plan: *p, State: &loop.State{Reviewing: "short", Verdict: &loop.Verdict{Gates: v.Gates[:2]}}}}
	var said []string
	for _, l := range w.gateLines() {
		said = append(said, l[0].Text+l[1].Text)
	}
	if want := []string{"green      make test", "green      good", "asked      short"}; !slices.Equal(said, want) {
		t.Errorf("the page has %q", said)
	}
	w.Plan.Tasks, w.State.Reviewing = &loopplan.Tasks{}, ""
	if said := w.gateLines(); len(said) != 2 {
		t.Errorf("with no task in hand the page has %q", said)
	}
}

// TestWatchedWorkers checks that many workers leave room for the rest of the page.
func TestWatchedWorkers(t *testing.T) {
	for _, tt := range []struct {
		busy, idle, most int
		want             string
	}{
		{2, 0, 8, "worker 1   bd-1 it: begins\nworker 2   bd-2 it: begins\n"},
		{1, 2, 8, "worker 1   bd-1 it: begins\nworker 2   idle\nworker 3   idle\n"},
		{4, 0, 4, "worker 1   bd-1 it: begins\nworker 2   bd-2 it: begins\nworker 3   bd-3 it: begins\nworker 4   bd-4 it: begins\n"},
		{1, 31, 8, "worker 1   bd-1 it: begins\nand        31 idle\n"},
		{32, 0, 4, "worker 1   bd-1 it: begins\nworker 2   bd-2 it: begins\nworker 3   bd-3 it: begins\nand        29 more at work\n"},
		{30, 2, 4, "worker 1   bd-1 it: begins\nworker 2   bd-2 it: begins\nworker 3   bd-3 it: begins\nand        27 more at work, 2 idle\n"},
	} {
		s := &loop.State{}
		for n := range tt.busy {
			s.Workers = append(s.Workers, &loop.State{Task: &loop.Taken{ID: fmt.Sprint("bd-", n+1), Title: "it"}})
		}
		for range tt.idle {
			s.Workers = append(s.Workers, &loop.State{})
		}
		got := ""
		for _, l := range workerLines(runstate.WorkersOf(s), tt.most) {
			for _, piece := range l {
				got += piece.Text
			}
			got += "\n"
		}
		if got != tt.want {
			t.Errorf("%d at work and %d idle:\n%s\nis not\n%s", tt.busy, tt.idle, got, tt.want)
		}
	}
}

const watchedFlow = `
name: stories
description: Does stories
inputs: [{name: prd, file: prd.json, required: true}]
steps:
  - {id: plan, prompt: p, output: plan.md}
  - id: story
    needs: [plan]
    each: prd
    steps:
      - {id: work, prompt: p, output: 'w${{ each.number }}.md'}
      - {id: check, needs: [work], command: c, back: {to: work}}
  - {id: good, needs: [story], if: always(), approval: {message: Good?}}
`

func TestFlowPage(t *testing.T) {
	f, err := flowplan.Parse("f.yaml", []byte(watchedFlow))
	must(t, err)
	prd := map[string][]byte{"prd.json": []byte(`[{"id": "a", "title": "greets"}, {"id": "b", "title": "sums"}, {"id": "c"}]`)}
	plan := flowplan.Plan{Flow: f, File: "/f.yaml", Directory: "/app", Agent: "mine", Values: map[string]string{}, Files: []string{"prd.json"}, Limits: flowplan.Limits{Tokens: 1000}}
	must(t, plan.Check(prd))
	r, err := run.CreateFlow(t.TempDir(), "", "stories-2026-11-22-0001", &plan, func(dir string) error { return flow.Fill(dir, prd) })
	must(t, err)
	h, _, err := r.Host()
	must(t, err)
	defer h.Close()
	keep := func(kind string, data any) {
		t.Helper()
		_, err := h.Append(kind, run.ActorHost, data)
		must(t, err)
	}
	try := func(step string, attempt int, good bool) {
		t.Helper()
		w := flow.Work{Step: step, Attempt: attempt, Verdict: spec.VerdictOK, Tokens: 100, Seen: &spec.BillItem{Answers: 1, Tokens: spec.Tokens{Output: 100}}, Output: &flow.Artefact{Path: step, Size: 7}}
		if !good {
			w.Verdict, w.Error, w.Output = spec.VerdictFailed, "exit code 1: red\x1b[2J", nil
		}
		keep(flow.Started, flow.Start{Step: step, Attempt: attempt})
		keep(flow.Worked, w)
	}
	page := func(rows int, hosted bool) string {
		t.Helper()
		events, err := r.Events()
		must(t, err)
		for i := range events { // makes the page the same each time
			events[i].Time = time.Unix(int64(i)*30, 0)
		}
		p := &flowPage{Flow: &runstate.Flow{Record: runstate.Record{Run: r, Hosted: hosted, Events: events}, Plan: plan}, tries: triesOf(events)}
		p.traffic = outward{refused: []string{"x.example (3)"}}
		p.State, err = flow.Fold(&plan, events)
		must(t, err)
		return plainPage(p, rows, 60, p.State.Last.Add(5*time.Second))
	}
	keep(run.Began, nil)
	try("plan", 1, true)
	try("work.1", 1, true)
	try("check.1", 1, true)
	try("work.2", 1, true)
	try("check.2", 1, false)
	keep(flow.Started, flow.Start{Step: "work.2", Attempt: 2})
	want := `stories-2026-11-22-0001  running  5m35s
/f.yaml, /app
Does stories

steps      3 of 8
story      ██████▋░░░░░░░░░░░░░ 1 of 3
tokens     ██████████░░░░░░░░░░ 500 of 1000  seen 500, claimed -
cost       0.00 USD  seen 0.00, claimed -

     took     seen   claimed  tries  step
✓     30s      100         -      1  plan  outputs/plan, 7 bytes
✓    1m0s      200         -      2  a greets
▶    1m5s      200         -      3  b sums
▶     35s      100         -      2    work.2  after: check: exit code 1: red
·     30s      100         -      1    check.2  a step that it needs is done again
·                                    c
·                                    good

refused    x.example (3)
`
	if got := page(40, true); got != want {
		t.Errorf("%s\nis not\n%s", got, want)
	}
	if got := page(15, true); !strings.Contains(got, "and 3 before") || !strings.Contains(got, "and 3 more") || !strings.Contains(got, "work.2") {
		t.Errorf("%s", got)
	}
	keep(flow.Cut, flow.Short{Step: "work.2", Attempt: 2, Tokens: 30})
	try("work.2", 3, true)
	try("check.2", 2, false)
	try("work.2", 4, true)
	try("check.2", 3, false)
	try("work.3", 1, true)
	try("check.3", 1, true)
	keep(flow.Asked, flow.Ask{Step: "good", Message: "Good?"})
	keep(run.Ended, flow.End{Status: run.Waiting, Reason: flow.ReasonApproval, Detail: "good: Good?"})
	got := page(40, false)
	for _, want := range []string{"1130 of 1000", "2 of 3, 1 skipped", "\n!   3m30s    600+?         -      7  b sums  needs human review: check.2: exit code 1: red", "\nwaits      good: Good?\nnext       bothy flow approve stories-2026-11-22-0001\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
}

// TestFlowPageBeside checks that running steps are shown first if not all fit, and that the page
// shows a question asked meanwhile.
func TestFlowPageBeside(t *testing.T) {
	f, err := flowplan.Parse("f.yaml", []byte("name: many\nparallel: 3\nsteps:\n"+
		"- {id: work, matrix: {os: ["+`"linux\x1b[2J\n"`+"], n: [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20]}, command: c}\n- {id: good, approval: {message: Good?}}\n"))
	must(t, err)
	plan := flowplan.Plan{Flow: f, Values: map[string]string{}}
	must(t, plan.Check(nil))
	r, err := run.CreateFlow(t.TempDir(), "", "many-2026-11-22-0001", &plan, func(dir string) error { return flow.Fill(dir, nil) })
	must(t, err)
	h, _, err := r.Host()
	must(t, err)
	defer h.Close()
	for _, data := range []any{nil, flow.Start{Step: "work.9", Attempt: 1}, flow.Start{Step: "work.10", Attempt: 1}, flow.Ask{Step: "good", Message: "Good?"}} {
		kind := run.Began
		switch data.(type) {
		case flow.Start:
			kind = flow.Started
		case flow.Ask:
			kind = flow.Asked
		}
		_, err := h.Append(kind, run.ActorHost, data)
		must(t, err)
	}
	l := &runstate.Flow{Record: runstate.Record{Run: r, Hosted: true}, Plan: plan}
	l.Events, err = r.Events()
	must(t, err)
	l.State, err = flow.Fold(&plan, l.Events)
	must(t, err)
	now := l.State.Last.Add(5 * time.Second)
	got := plainPage(&flowPage{Flow: l, tries: triesOf(l.Events)}, 20, 60, now)
	for _, want := range []string{"and 7 before\n·                                    work.8 (n=8, os=linux\\n)\n▶      5s                         1  work.9 (n=9, os=linux\\n)\n▶      5s", "\nnext       bothy flow approve many-2026-11-22-0001\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	if took := l.State.Took(l.State.Status, now); took < 5*time.Second || took > 6*time.Second {
		t.Errorf("it took %s", took)
	}
}

// TestTimeText checks values of any length and kind.
func TestTimeText(t *testing.T) {
	for _, tt := range []struct {
		matrix map[string]string
		want   string
	}{
		{nil, ""},
		{map[string]string{"os": "linux", "model": "x"}, " (model=x, os=linux)"},
		{map[string]string{"a": "\x1b]0;title\a\u202eb\nc"}, ` (a=\u202eb\nc)`},
		{map[string]string{"a": strings.Repeat("ü", 500)}, " (a=" + strings.Repeat("ü", 21) + "...)"},
		{map[string]string{"a": strings.Repeat("1", 24), "b": strings.Repeat("2", 24), "c": "3"}, " (a=" + strings.Repeat("1", 24) + ", b=" + strings.Repeat("2", 24) + ", c=3)"},
		{map[string]string{"a": strings.Repeat("1", 24), "b": strings.Repeat("2", 24), "c": "345"}, " (a=" + strings.Repeat("1", 24) + ", b=" + strings.Repeat("2", 24) + ", c...)"},
	} {
		if got := timeText(&flow.StepState{Matrix: tt.matrix}); got != tt.want {
			t.Errorf("of %q it is %q, want %q", tt.matrix, got, tt.want)
		}
	}
}

// TestTriesOfCrash checks that the time without a running process does not count.
func TestTriesOfCrash(t *testing.T) {
	at := func(seconds int64, kind, data string) run.Event {
		return run.Event{Type: kind, Time: time.Unix(seconds, 0), Data: []byte(data)}
	}
	got := triesOf([]run.Event{
		at(0, run.Began, ""), at(1, flow.Started, `{"step": "a"}`), at(11, flow.Worked, `{"step": "a"}`),
		at(20, flow.Started, `{"step": "a"}`), // the host dies
		at(90000, run.Began, ""), at(90002, flow.Cut, `{"step": "a"}`),
	})
	if a := got["a"]; a == nil || a.seconds != 12 {
		t.Errorf("it is %+v", a)
	}
}
