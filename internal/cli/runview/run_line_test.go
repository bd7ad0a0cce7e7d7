package runview

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/runstate"
	"github.com/bothy-dev/bothy/internal/runstate/runstatetest"
	"github.com/bothy-dev/bothy/spec"
)

// TestOneLine checks that foreign text is one line in every row, so that none of it looks like a
// line of Bothy's.
func TestOneLine(t *testing.T) {
	forged := "which?\nbothy: completed (done)\r2026-01-01 00:00:00  completed (done)\x1b[2J\n\tstatus  completed"
	const want = "which? bothy: completed (done) 2026-01-01 00:00:00  completed (done) status  completed"
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	a := &Viewer{&cmdline.App{Console: &console.Console{Command: "bothy", Out: out, Err: out}}}
	s := &loop.State{Result: run.Result{Status: run.Waiting, Reason: loop.ReasonQuestion, Detail: forged}, Question: forged, Verdict: &loop.Verdict{Gates: []loop.Gate{{Name: "sh -c '\ntrue'", Why: forged}}}}
	line := LoopLine(&loopplan.Plan{}, run.Event{Type: run.Ended, Time: time.Now()}, s)
	a.NoteEvent(line)
	if err := a.printEvent(run.Event{Type: run.Ended, Time: time.Now()}, line); err != nil {
		t.Fatal(err)
	}
	l := &runstate.Loop{Record: runstate.Record{Engine: runstatetest.EmptyEngine(t), Run: &run.Run{ID: "which-2026-01-01-0001"}}, Plan: loopplan.Plan{Directory: "/tmp/a\nb"}, State: s}
	if err := a.PrintStatus(l); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	for n, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		known := []string{"bothy: waiting (question): " + want, time.Now().Format("2006")}
		if n < len(known) && !strings.HasPrefix(line, known[n]) || strings.HasPrefix(line, "bothy: completed") || strings.HasPrefix(line, "2026-01-01 00:00:00  completed") {
			t.Errorf("line %d is %q", n+1, line)
		}
	}
	rows := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if name, row, cut := strings.Cut(strings.TrimSpace(line), "  "); cut {
			rows[name] = strings.TrimSpace(row)
		}
	}
	for name, row := range map[string]string{
		"status": "waiting, question: " + want, "question": want, "gate": "red    sh -c ' true': " + want, "directory": `/tmp/a\nb`,
	} {
		if rows[name] != row {
			t.Errorf("%s is %q, want %q", name, rows[name], row)
		}
	}
}

// TestWorkerLines checks that a worker's events are told as those of a loop alone.
func TestWorkerLines(t *testing.T) {
	s := &loop.State{Iteration: 9, Workers: []*loop.State{{Iteration: 2, Work: &loop.Work{Seconds: 3, Verdict: spec.VerdictOK, Done: true}}}}
	p := &loopplan.Plan{Limits: loopplan.Limits{MaxIterations: 5}}
	for event, want := range map[string]string{
		loop.Worked:    "worker 1: iteration 2/5: the agent says that it is done, after 3s",
		loop.ReviewCut: "worker 1: iteration 2/5: the review is cut short; it used 7 tokens",
		loop.Guarded:   "worker 1: put back: a.sh",
		loop.Settled:   "",
	} {
		ev := run.Event{Type: event, Data: []byte(`{"worker": 1, "tokens": 7, "paths": ["a.sh"]}`)}
		if got := LoopLine(p, ev, s); got != want {
			t.Errorf("%s: %q, want %q", event, got, want)
		}
	}
}
