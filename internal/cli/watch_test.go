package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

// plainPage is a page without its colours.
func plainPage(p watchedPage, rows, cols int, now time.Time) string {
	var b strings.Builder
	for _, l := range p.lines(rows, cols, now) {
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
	keep(loop.Began, nil)
	keep(loop.Ready, loop.Made{Sandbox: "mine-app"})
	page := func(rows int, change func(*watched)) string {
		t.Helper()
		events, err := r.Events()
		must(t, err)
		p := &watched{looping: &looping{run: r, hosted: true}}
		p.plan = loop.Plan{Agent: "mine", Directory: "/app", Prompt: "fix it\nall", Limits: loop.Limits{MaxIterations: 10, Tokens: 1000}}
		p.state, err = loop.Fold(events)
		must(t, err)
		p.past, err = tries(events)
		must(t, err)
		p.state.Elapsed = spec.Duration(90 * time.Second)
		if change != nil {
			change(p)
		}
		return plainPage(p, rows, 60, p.state.Last.Add(5*time.Second))
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
			keep(loop.Iteration, loop.Begun{Iteration: i + 1}) // it was cut short
		}
		keep(loop.Worked, loop.Work{Iteration: i + 1, Verdict: spec.VerdictOK, Done: i == 3, Tokens: 100, Seconds: 61})
		keep(loop.Kept, loop.Keep{Iteration: i + 1, Checkpoint: 2, Changes: i})
		keep(loop.Judged, loop.Verdict{Iteration: i + 1, Gates: red})
	}
	keep(loop.Iteration, loop.Begun{Iteration: 6})
	keep(loop.Hinted, loop.Advice{Message: "1", Text: "look at b"})
	want := `fix-2026-11-22-0001  running  1m35s
mine in mine-app, /app
fix it ...

iteration  ████████████░░░░░░░░ 6 of 10
tokens     ██████████████░░░░░░ 700 of 1000
cost       0.2500+? USD

   #      took     tokens  changed  what became of it
   6        5s                      works
   5      1m1s        100        4  ended, not done, 1 of 2 gates red
   4      1m1s        100        3  says that it is done, 1 of 2 gates red
      and 3 before

red    make test  exit code 2
       b
       c
       d` + "\x1b" + `[2J
green  lint
refused  x.example (3)
hint     look at b
`
	got := page(20, func(p *watched) {
		p.traffic = outward{sum: spec.BillItem{Tokens: spec.Tokens{Input: 700}, USD: .25, Unpriced: 1}, refused: []string{"x.example (3)"}}
	})
	if got != want {
		t.Errorf("%s\nis not\n%s", got, want)
	}
	if got := page(200, nil); strings.Contains(got, "before") || strings.Count(got, "1 of 2 gates red") != 5 {
		t.Errorf("%s", got)
	}
}
