package agents

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/test/harness"
)

// happened returns the events of one type of the only loop.
func happened[T any](t *testing.T, w *world, kind string) (list []T) {
	t.Helper()
	for line := range strings.Lines(w.Must(t, "loop", "log", "--json")) {
		var ev run.Event
		var data T
		err := json.Unmarshal([]byte(line), &ev)
		if err == nil && ev.Type == kind {
			err = json.Unmarshal(ev.Data, &data)
			list = append(list, data)
		}
		if err != nil {
			t.Fatalf("%v: %s", err, line)
		}
	}
	return list
}

// twins are two tasks. Each uses a unique number of tokens.
const twins = `
conversations:
  - match: 'bd-1: first one'
    turns:
      - tools:
          - run_command: {command: "echo one > WORK/one"}
        usage: {input: 1000, output: 1}
      - text: "It is there.\n<promise>COMPLETE</promise>"
        usage: {input: 1000, output: 2}
  - match: 'bd-2: second one'
    turns:
      - tools:
          - run_command: {command: "echo two > WORK/two"}
        usage: {input: 3000, output: 10}
      - text: "It is there.\n<promise>COMPLETE</promise>"
        usage: {input: 3000, output: 20}
`

// TestTeamClaude has two workers do one task each at the same time. The usage of each is counted for its
// task, and one sandbox has the work of both.
func TestTeamClaude(t *testing.T) {
	harness.Sweep(t, "agents")
	inWorld(t, claude, twins, func(t *testing.T, w *world) {
		w.once(t)
		w.bothy(t, "task", "add", "first one", "--id", "bd-1")
		w.bothy(t, "task", "add", "second one", "--id", "bd-2")
		r := w.within(t, "loop", "run", "--name", box, "--agent", "claude", "--model", claude.model, "--workspace", "review",
			"--tasks", "--parallel", "2", "--max-iterations", "4", "--until", "test ! -e three", "Do the task.", w.Work)
		if r.Code != 0 {
			t.Fatalf("%v\nthe model was asked\n%s", r, summary(w.model.Requests()))
		}
		claimed := map[string]int64{"bd-1": 2003, "bd-2": 6030}
		took := map[int]string{}
		for _, x := range happened[loop.Taken](t, w, loop.Took) {
			took[x.Worker] += x.ID
		}
		for _, k := range w.work(t) {
			if k.Tokens != claimed[took[k.Worker]] || k.Seen == nil || k.Seen.Counted() != k.Tokens {
				t.Errorf("worker %d, with %s, took %d tokens, and the gateway saw %+v", k.Worker, took[k.Worker], k.Tokens, k.Seen)
			}
		}
		if s := w.stands(t); len(took) != 2 || s.Status != run.Completed || s.Iteration != 2 || len(s.Closed) != 2 || s.Tokens != 2003+6030 {
			t.Errorf("%v were taken; it is %s after %d iterations and %d tokens", took, s.Status, s.Iteration, s.Tokens)
		}
		if out := w.Must(t, "diff", "--stat", box); !strings.Contains(out, "one") || !strings.Contains(out, "two") {
			t.Errorf("there are these changes: %s", out)
		}
		if out := w.Must(t, "ls", "-q"); out != box+"\n" {
			t.Errorf("there are %s", out)
		}
		w.heard(t, "first one")
		w.onlyProvider(t)
		harness.AbsentInProcesses(t, w.key)
		w.absentInFiles(t)
	})
}

// bothy runs bothy in the project.
func (w *world) bothy(t *testing.T, args ...string) {
	t.Helper()
	cmd := w.Command(t.Context(), args...)
	cmd.Dir = w.Work
	if r := harness.Finish(t.Context(), cmd, args); r.Code != 0 {
		t.Fatal(r)
	}
}

// The turns of two agents, each of which continues the other's work.
const (
	oddTurns = `
conversations:
  - match: This is iteration 1 of
    turns:
      - tools:
          - run_command: {command: "echo 1 > WORK/one"}
        usage: {input: 1000, output: 1}
      - text: The rest is for another.
        usage: {input: 1000, output: 2}
  - match: (?s)This is iteration 3 of.*three is missing
    turns:
      - tools:
          - run_command: {command: "cat WORK/one WORK/two > WORK/three"}
        usage: {input: 1000, output: 3}
      - text: "All is there.\n<promise>COMPLETE</promise>"
        usage: {input: 1000, output: 4}
`
	evenTurns = `
conversations:
  - match: This is iteration 2 of
    turns:
      - tools:
          - run_command: {command: "test -e WORK/one && echo 2 > WORK/two"}
        usage: {input: 5000, output: 10}
      - text: "It is all there.\n<promise>COMPLETE</promise>"
        usage: {input: 5000, output: 20}
`
)

// TestTurns has Claude and Codex take turns. Each uses its own key and finds the other's work, and
// the usage of each is counted.
func TestTurns(t *testing.T) {
	harness.Sweep(t, "agents")
	inWorldOf(t, []cast{{claude, oddTurns}, {codex, evenTurns}}, func(t *testing.T, w *world) {
		w.once(t)
		r := w.within(t, "loop", "run", "--name", box, "--workspace", "review", "--rotation", "claude:"+claude.model+",codex:"+codex.model,
			"--max-iterations", "4", "--until", complete, "make three files", w.Work)
		if r.Code != 0 {
			t.Fatalf("%v\n%s%s", r, summary(w.model.Requests()), summary(w.mates[0].model.Requests()))
		}
		tokens := []int64{}
		for _, k := range w.work(t) {
			tokens = append(tokens, k.Tokens)
		}
		if want := []int64{2003, 10030, 2007}; !slices.Equal(tokens, want) {
			t.Errorf("they took %d", tokens)
		}
		if s := w.stands(t); s.Status != run.Completed || s.Iteration != 3 || s.Tokens != 2003+10030+2007 {
			t.Errorf("it is %s after %d iterations and %d tokens", s.Status, s.Iteration, s.Tokens)
		}
		if got := w.Must(t, "exec", box, "cat", "three"); got != "1\n2\n" {
			t.Errorf("the work is %q", got)
		}
		w.ofEach(t, "This is iteration ")
	})
}

// ofEach checks that each agent asked only its own provider, with its own key.
func (w *world) ofEach(t *testing.T, prompt string) {
	t.Helper()
	for _, one := range append([]*world{w}, w.mates...) {
		one.heard(t, prompt)
		for _, q := range one.model.Requests() {
			for _, other := range append([]*world{w}, w.mates...) {
				if other != one {
					harness.Absent(t, "what "+one.cli.name+" sends", append(q.Body, q.Header.Get(strings.SplitN(one.cli.place, ":", 2)[0])...), other.key)
				}
			}
		}
		harness.AbsentInProcesses(t, one.key)
		one.absentInFiles(t)
	}
	w.onlyProvider(t)
}

// The work that another agent judges, and its verdicts. It rejects the first result, for a reason that
// no command has checked.
const (
	judgedWork = `
conversations:
  - match: (?s)This is iteration 2 of.*the second line is missing
    turns:
      - tools:
          - run_command: {command: "echo second >> WORK/work"}
        usage: {input: 1000, output: 3}
      - text: "Now it is there.\n<promise>COMPLETE</promise>"
        usage: {input: 1000, output: 4}
  - match: This is iteration 1 of
    turns:
      - tools:
          - run_command: {command: "echo first > WORK/work"}
        usage: {input: 1000, output: 1}
      - text: "It is there.\n<promise>COMPLETE</promise>"
        usage: {input: 1000, output: 2}
`
	judgement = `
conversations:
  - match: Are there two lines
    turns:
      - tools:
          - run_command: {command: "if grep -q second WORK/work; then echo '{\"verdict\": \"pass\", \"reasons\": []}'; else echo '{\"verdict\": \"fail\", \"reasons\": [\"the second line is missing\"]}'; fi > /review/outputs/verdict.json"}
        usage: {input: 7000, output: 100}
      - text: I have judged.
        usage: {input: 7000, output: 200}
`
	judgedBy = `
gates:
  - id: lines
    reviewer: {agent: NAME, model: MODEL, prompt: Are there two lines in work?}
`
)

// TestReviewedByCodex has one agent work and another judge. The first is told the judge's
// objection. The judge's usage counts, and each uses its own key.
func TestReviewedByCodex(t *testing.T) {
	harness.Sweep(t, "agents")
	worker, reviewer := claude, codex
	inWorldOf(t, []cast{{worker, judgedWork}, {reviewer, judgement}}, func(t *testing.T, w *world) {
		w.once(t)
		text := strings.NewReplacer("NAME", reviewer.name, "MODEL", reviewer.model).Replace(judgedBy)
		gates := w.Write(t, filepath.Join(w.Base, "gates.yaml"), text)
		r := w.loop(t, "--workspace", "review", "--model", worker.model, "--max-iterations", "3", "--gates", gates, "--until", "test -e work")
		if r.Code != 0 {
			t.Fatalf("%v\n%s%s", r, summary(w.model.Requests()), summary(w.mates[0].model.Requests()))
		}
		list := happened[loop.Review](t, w, loop.Reviewed)
		if len(list) != 2 || list[0].Gate.Green || !strings.Contains(list[0].Gate.Output, "the second line is missing") || !list[1].Gate.Green {
			t.Errorf("it was judged as %+v", list)
		}
		for _, one := range list {
			if one.Tokens != 14300 || one.Seen == nil || one.Seen.Counted() != one.Tokens {
				t.Errorf("the reviewer took %d tokens, and the gateway saw %+v", one.Tokens, one.Seen)
			}
		}
		if s := w.stands(t); s.Status != run.Completed || s.Iteration != 2 || s.Tokens != 2*14300+4010 {
			t.Errorf("it is %s after %d iterations and %d tokens", s.Status, s.Iteration, s.Tokens)
		}
		w.heard(t, "This is iteration ")
		w.mates[0].heard(t, "Are there two lines")
		w.ofEach(t, "")
	})
}
