package loopserver

import (
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// begun returns a loop at its first iteration, whose agent is the caller.
func begun(t *testing.T) (*Server, *run.Run, *run.Host) {
	t.Helper()
	root := t.TempDir()
	p := &loopplan.Plan{Agent: "mine", Directory: "/app", Prompt: "do it", Limits: loopplan.Limits{MaxIterations: 7}}
	r, err := run.Create(root, "do-it-2026-11-29-0001", p)
	must(t, err)
	h, _, err := r.Host()
	must(t, err)
	t.Cleanup(h.Close)
	for _, ev := range []struct {
		kind string
		data any
	}{
		{run.Began, nil},
		{run.Ready, loop.Made{Sandbox: "box"}},
		{loop.Baseline, loop.Verdict{Gates: []loop.Gate{{Name: "make\n\x1b[2Jstatus  completed", Why: "exit code 1"}}}},
		{loop.Iteration, loop.Begun{Iteration: 1}},
	} {
		_, err := h.Append(ev.kind, run.ActorHost, ev.data)
		must(t, err)
	}
	return &Server{Runs: root, Loop: r.ID, Sandbox: "box"}, r, h
}

func TestStatus(t *testing.T) {
	s, _, h := begun(t)
	out, complaint, code := s.Command([]string{"--status"})
	if code != 0 || complaint != "" || !strings.Contains(out, "status     running\n") || !strings.Contains(out, "iteration  1/7\n") || strings.ContainsRune(out, '\x1b') {
		t.Errorf("%d %q %q", code, out, complaint)
	}
	if out, _, _ = s.Command([]string{"--tasks", "--status"}); !strings.Contains(out, "tasks      the loop takes none") {
		t.Errorf("%q", out)
	}
	h.Close()
	if out, _, _ = s.Command([]string{"--status"}); !strings.Contains(out, "status     interrupted\n") {
		t.Errorf("nobody carries it on: %q", out)
	}
	s.Loop = "another"
	if _, complaint, code = s.Command([]string{"--status"}); code != spec.ExitNotFound || !strings.HasPrefix(complaint, "ralph: no loop works") {
		t.Errorf("%d %q", code, complaint)
	}
}

// TestHint checks that a hint from inside is marked and bounded: the agent itself may have sent
// it, so it does not keep the loop from being done.
func TestHint(t *testing.T) {
	s, r, _ := begun(t)
	for _, bad := range [][]string{nil, {"--add-context"}, {"--add-context", " \n"}, {"--add-context", strings.Repeat("x", maxHint+1)}, {"--until", "true"}, {"--status", "--status", "--tasks"}, {"--tasks"}} {
		if out, complaint, code := s.Command(bad); code != spec.ExitUsage || out != "" || !strings.HasPrefix(complaint, "ralph: ") {
			t.Errorf("%.40q: %d %q %q", bad, code, out, complaint)
		}
	}
	for n := range maxHints + 2 {
		want := map[bool]int{true: spec.ExitOK, false: spec.ExitConflict}[n < maxHints]
		if _, complaint, code := s.Command([]string{"--add-context", "the auth module"}); code != want {
			t.Errorf("the text %d: %d %q", n+1, code, complaint)
		}
	}
	mail, err := r.Mail()
	must(t, err)
	events, err := r.Events()
	must(t, err)
	state, err := loop.Fold(events)
	must(t, err)
	state.Expect(mail)
	if len(mail) != maxHints || len(state.Hints) != maxHints || state.Urged() || mail[0].Actor != "inside:box" || !strings.HasPrefix(state.Hints[0], "Said inside the sandbox") {
		t.Errorf("%d wait, %t: %+v", len(mail), state.Urged(), mail[:1])
	}
	must(t, r.Leave(run.Message{Kind: run.Hint, Text: "mine", Actor: "ann"}))
	mail, err = r.Mail()
	must(t, err)
	if state.Expect(mail); !state.Urged() {
		t.Error("what a person says is no more to do")
	}
}

// TestPace checks that the loop is read only a few times a second for a caller that asks again and
// again.
func TestPace(t *testing.T) {
	s, _, _ := begun(t)
	began := time.Now()
	for range 3 {
		s.Command([]string{"--status"})
	}
	if took := time.Since(began); took < 2*pace {
		t.Errorf("three took %s", took)
	}
}
