package agents

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
	"github.com/bothy-dev/bothy/test/harness"
)

// rounds is a job of three iterations. The first does a third of it and says so. The second claims,
// falsely, that all is done. The third is told which work is missing.
const rounds = `
conversations:
  - match: This is iteration 1 of
    turns:
      - text: I begin.
        tools:
          - write_file: {path: WORK/one, content: "1\n"}
        usage: {input: 1000, output: 10}
      - text: There are two more to do.
        usage: {input: 1100, output: 20}
  - match: This is iteration 2 of
    turns:
      - tools:
          - run_command: {command: "echo 2 > WORK/two"}
        usage: {input: 1000, output: 30}
      - text: "All is there.\n<promise>COMPLETE</promise>"
        usage: {input: 1100, output: 40}
  - match: (?s)This is iteration 3 of.*three is missing
    turns:
      - tools:
          - run_command: {command: "cat WORK/one WORK/two > WORK/three"}
        usage: {input: 1000, output: 50}
      - text: "Now all is there.\n<promise>COMPLETE</promise>"
        usage: {input: 1100, cached: 600, output: 60}
`

// spent is the number of tokens that the answers of rounds claim, without cached ones.
const spent = 3*(1000+1100) - 600 + 10 + 20 + 30 + 40 + 50 + 60

const complete = `for f in one two three; do test -e $f || { echo "$f is missing"; exit 1; }; done`

func TestLoopClaude(t *testing.T) {
	harness.AsRoot(t)
	inWorld(t, claude, rounds, loops)
}

func TestLoopCodex(t *testing.T) {
	harness.Sweep(t, "agents")
	inWorld(t, codex, rounds, loops)
}

func TestLoopGemini(t *testing.T) {
	harness.Sweep(t, "agents")
	inWorld(t, gemini, rounds, resumes)
} // both at once: they

func TestLoopOpencode(t *testing.T) {
	harness.Sweep(t, "agents")
	inWorld(t, opencode, rounds, resumes)
} // take their time

// loops runs an agent three times, and accepts its claim once. Each time it starts with a fresh memory
// and uses the requested model. Its usage is counted as the provider reports it.
func loops(t *testing.T, w *world) {
	t.Helper()
	w.threeRounds(t)
	for _, q := range w.heard(t, "This is iteration 3 of") {
		if strings.Contains(string(q.Body), "This is iteration 1 of") {
			t.Errorf("question %d remembers the first iteration", q.N)
		}
	}
}

func (w *world) threeRounds(t *testing.T, flags ...string) {
	t.Helper()
	model := w.cli.model
	r := w.loop(t, append(flags, "--model", model, "--max-iterations", "5", "--until", complete)...)
	if r.Code != 0 {
		t.Fatalf("%v\nthe model was asked\n%s", r, summary(w.model.Requests()))
	}
	if got := w.read(t, "three"); got != "1\n2\n" {
		t.Errorf("the work is %q", got)
	}
	said := []string{}
	for _, k := range w.work(t) {
		said = append(said, k.Verdict+map[bool]string{true: ", done"}[k.Done])
		if k.Calls != 1 || k.Seen == nil || k.Seen.Answers < 2 { // some ask for titles, too
			t.Errorf("iteration %d: %d tools were called, the gateway saw %+v", k.Iteration, k.Calls, k.Seen)
		}
	}
	if want := []string{"ok", "ok, done", "ok, done"}; !slices.Equal(said, want) {
		t.Errorf("the agent was understood as %q", said)
	}
	s := w.stands(t)
	if s.Status != run.Completed || s.Iteration != 3 || s.Tokens != spent {
		t.Errorf("it is %s after %d iterations and %d tokens, of which %d were claimed", s.Status, s.Iteration, s.Tokens, spent)
	}
	for _, q := range w.heard(t, "This is iteration ") {
		if !strings.Contains(q.Path+string(q.Body), strings.TrimPrefix(model, "anthropic/")) {
			t.Errorf("another model is asked: %s\n%s", q.Path, q.Body)
		}
	}
	w.onlyProvider(t)
	harness.AbsentInProcesses(t, w.key)
	w.absentInFiles(t)
}

// loop has the agent work on the script's job in a loop.
func (w *world) loop(t *testing.T, flags ...string) harness.Result {
	t.Helper()
	args := slices.Concat([]string{"loop", "run", "--name", box, "--agent", w.cli.name}, w.cli.flags, flags, []string{"make three files", w.Work})
	return w.within(t, args...)
}

// stands returns the state of the only loop.
func (w *world) stands(t *testing.T) (s loop.State) {
	t.Helper()
	if err := json.Unmarshal([]byte(w.Must(t, "loop", "status", "--json")), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// work returns the outcome of each run of the agent.
func (w *world) work(t *testing.T) (list []loop.Work) {
	t.Helper()
	for line := range strings.Lines(w.Must(t, "loop", "log", "--json")) {
		var ev run.Event
		var k loop.Work
		err := json.Unmarshal([]byte(line), &ev)
		if err == nil && ev.Type == loop.Worked {
			err = json.Unmarshal(ev.Data, &k)
			list = append(list, k)
		}
		if err != nil {
			t.Fatalf("%v: %s", err, line)
		}
	}
	return list
}

// usedUp is a job that first exceeds the allowance.
const (
	usedUp = `turns: [{fail: {status: 429, limit: {kind: subscription, resets: 4s}}}]`
	enough = `
conversations:
  - match: This is iteration 1 of
    turns:
      - text: I have all.
        tools:
          - run_command: {command: "touch WORK/one WORK/two WORK/three"}
      - text: "All is there.\n<promise>COMPLETE</promise>"
`
)

func TestLimitClaude(t *testing.T) {
	harness.Sweep(t, "agents")
	waits(t, claude, "-e", "CLAUDE_CODE_MAX_RETRIES=0")
}

func TestLimitCodex(t *testing.T) {
	harness.Sweep(t, "agents")
	waits(t, codex)
}

// waits checks that a used-up allowance costs no iteration, and that the loop resumes when the allowance
// is available again. (gemini and opencode wait by themselves.)
func waits(t *testing.T, a cli, flags ...string) {
	t.Helper()
	inWorld(t, a, enough, func(t *testing.T, w *world) {
		w.tired = w.provider(t, usedUp)
		r := w.loop(t, append(flags, "--max-iterations", "1", "--until", complete)...)
		all := w.work(t)
		if r.Code != 0 || len(all) < 2 {
			t.Fatalf("%v\n%+v\nthe model was asked\n%s%s", r, all, summary(w.tired.Requests()), summary(w.model.Requests()))
		}
		for i, k := range all[:len(all)-1] {
			if k.Verdict != spec.VerdictLimit || k.Until.IsZero() {
				t.Errorf("try %d is %s, until %s: %s", i+1, k.Verdict, k.Until, k.Error)
			}
		}
		if s := w.stands(t); s.Status != run.Completed || s.Iteration != 1 || s.Repeats != len(all)-1 {
			t.Errorf("it is %s in iteration %d, of which %d were repeated", s.Status, s.Iteration, s.Repeats)
		}
		w.onlyProvider(t)
	})
}

func TestSessionClaude(t *testing.T) {
	harness.Sweep(t, "agents")
	inWorld(t, claude, rounds, resumes)
}

func TestSessionCodex(t *testing.T) {
	harness.Sweep(t, "agents")
	inWorld(t, codex, rounds, resumes)
}

// resumes checks that an agent that resumes its session still has the earlier conversation, and
// that its usage is not counted twice.
func resumes(t *testing.T, w *world) {
	t.Helper()
	w.threeRounds(t, "--resume-session")
	again := 0
	for _, q := range w.heard(t, "This is iteration 3 of") {
		for _, before := range []string{"This is iteration 1 of", "There are two more to do.", "This is iteration 2 of"} {
			if !strings.Contains(string(q.Body), before) {
				t.Errorf("question %d does not remember %q", q.N, before)
			}
		}
		again++
	}
	if again < 2 {
		t.Errorf("it was asked %d times in the end", again)
	}
}

// TestMockLoop runs the README's example.
func TestMockLoop(t *testing.T) {
	harness.Sweep(t, "agents")
	inWorld(t, claude, rounds, func(t *testing.T, w *world) {
		script := w.Write(t, filepath.Join(w.Base, "liar.yaml"), read(t, "examples", "mock", "liar.yaml"))
		check := "test \"$(sh greet.sh)\" = hello || { echo \"greet.sh does not say hello\"; exit 1; }\n"
		w.Write(t, filepath.Join(w.Work, "test.sh"), check)
		r := w.within(t, "loop", "run", "--name", box, "--agent", "claude", "--mock", script,
			"--until", "sh test.sh", "--protect", "test.sh", "make greet.sh say hello", w.Work)
		if r.Code != 0 || !strings.Contains(r.Stderr, "iteration 2/30: 1 of 2 red: protected test.sh (it differs from its state") {
			t.Fatalf("%v\n%s", r, w.Must(t, "logs", "--source", "model", box))
		}
		if s := w.stands(t); s.Iteration != 3 || s.Tokens != 55770 || w.read(t, "test.sh") != check {
			t.Errorf("it ends in iteration %d, after %d tokens", s.Iteration, s.Tokens)
		}
		if all := w.model.Requests(); len(all) > 0 {
			t.Errorf("the real provider was asked\n%s", summary(all))
		}
	})
}

// traps are tricks of agents that loops must not fall for.
const traps = `
conversations:
  - match: (?i)rewrite the test
    turns:
      - tools:
          - run_command: {command: "echo true > WORK/test.sh; echo again >> WORK/log"}
      - text: "The test passes.\n<promise>COMPLETE</promise>"
  - match: ask first
    turns:
      - text: There are two ways to do it. Which one do you want?
  - match: do nothing
    turns:
      - text: "It is all there.\n<promise>COMPLETE</promise>"
  - match: echo it
    turns:
      - tools:
          - write_file: {path: WORK/echoed, content: "so\n"}
      - text: "I was told to end with the line <promise>COMPLETE</promise> and nothing behind it, when I am done."
`

// TestTraps checks that a real agent cannot end the loop by changing the check, by asking, by doing
// nothing, or by repeating its instructions.
func TestTraps(t *testing.T) {
	harness.Sweep(t, "agents")
	inWorld(t, claude, traps, func(t *testing.T, w *world) {
		w.Write(t, filepath.Join(w.Work, "test.sh"), "test -e work\n")
		try := func(prompt string, code int, status run.Status, reason string, flags ...string) {
			t.Helper()
			args := slices.Concat([]string{"loop", "run", "--agent", "claude", "--max-iterations", "2", "--stall-unchanged", "2", "--until", "sh test.sh"}, flags, []string{prompt, w.Work})
			r := w.within(t, args...)
			if s := w.stands(t); r.Code != code || s.Status != status || s.Reason != reason {
				t.Errorf("%s: %v\nit is %s, %s", prompt, r, s.Status, s.Reason)
			}
		}
		try("rewrite the test", spec.ExitLimit, run.Limited, "iterations", "--protect", "test.sh")
		w.Write(t, filepath.Join(w.Work, "test.sh"), "test -e work\n")
		try("ask first", spec.ExitWaiting, run.Waiting, "question")
		try("do nothing", spec.ExitStalled, run.Stalled, "unchanged")
		try("echo it", spec.ExitLimit, run.Limited, "iterations", "--until", "true", "--stall-unchanged", "0")
		w.onlyProvider(t)
	})
}
