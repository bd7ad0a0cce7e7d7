package test

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/spec"
	"github.com/bothy-dev/bothy/test/harness"
)

// soakIterations is the variable that makes the soak of a loop longer, such as 500; at least 2.
const soakIterations = "BOTHY_SOAK_ITERATIONS"

// scribe is an agent that writes down the number of its iteration.
const scribe = `version: 1
name: scribe
title: Scribe
program: sh
headless:
  args:
    - -c
    - |
      n=$(sed -n 's/^This is iteration \([0-9]*\) of.*/\1/p')
      echo $n > note-$n
      echo '{"type":"said","text":"not yet"}'
      echo '{"type":"bye"}'
  prompt: {stdin: true}
  output: events
  events: {rules: [{when: {type: said}, kind: message, role: agent, text: text}, {when: {type: bye}, kind: end}]}
  end: [{type: bye}]
  success: [{type: bye}]
`

// TestSoakLoop checks that a loop of many iterations, whose process is killed now and then, loses none,
// repeats none, and leaves only its own sandbox.
func TestSoakLoop(t *testing.T) {
	harness.Sweep(t, "soak")
	iterations := 15
	if n, err := strconv.Atoi(os.Getenv(soakIterations)); err == nil {
		iterations = n
	}
	terminalTest(t, func(t *testing.T, l *lodging) {
		agents := filepath.Join(filepath.Dir(l.proj), "home", ".config", "bothy", "agents")
		if err := os.MkdirAll(agents, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(agents, "scribe.yaml"), []byte(scribe), 0o644); err != nil {
			t.Fatal(err)
		}
		last := "note-" + strconv.Itoa(iterations)
		cmd := l.command("loop", "run", "--name", "soak", "--agent", "scribe", "--workspace", "review", "--stall-gates", "0",
			"--max-iterations", strconv.Itoa(iterations), "--until", "test -e "+last, "write it down")
		kills, began := 0, time.Now()
		for !l.killedWithin(cmd, time.Duration(2000+rand.IntN(20_000))*time.Millisecond) {
			kills++
			cmd = l.command("loop", "resume", filepath.Base(l.runs()[0]))
		}
		s := l.soakStatus()
		if s.Status != "limit" || s.Iteration != iterations || s.Repeats > kills || len(s.Verdict.Gates) != 1 || !s.Verdict.Gates[0].Green {
			t.Errorf("after %d kills: %+v", kills, s)
		}
		events := strings.Split(strings.TrimSpace(l.bothy("loop", "log", "--json")), "\n")
		for n, line := range events {
			if want := `{"seq":` + strconv.Itoa(n+1) + `,`; !strings.HasPrefix(line, want) {
				t.Fatalf("event %d is %s", n+1, line)
			}
		}
		wrote := l.bothy("diff", "soak", "--stat")
		for n := 1; n <= iterations; n++ {
			if !strings.Contains(wrote, "note-"+strconv.Itoa(n)+" ") {
				t.Errorf("iteration %d wrote nothing: %s", n, wrote)
			}
		}
		if points := strings.Count(l.bothy("checkpoint", "ls", "soak"), "\n") - 1; points < iterations || points > iterations+1+kills {
			t.Errorf("%d checkpoints of %d iterations, with %d kills", points, iterations, kills)
		}
		atFirst, atLast := paces(t, events)
		t.Logf("%d iterations in %v, %d events; %d kills, %d of them in an iteration that was begun again; an iteration took %v at the beginning and %v at the end",
			iterations, time.Since(began).Round(time.Second), len(events), kills, s.Repeats, atFirst, atLast)
		// The last killed process may have left a copy that had just started: its keeper waits for
		// its command, but not for long.
		waitFor(t, "nothing but its sandbox", func() bool {
			l.bothy("create", "--name", "broom", "shell", l.proj) // creating a sandbox sweeps
			l.bothy("rm", "-f", "broom")
			return l.bothy("ls", "-q") == "soak\n"
		})
	})
}

// paced is the number of iterations whose pace is reported.
const paced = 50

// paces returns the median time from the start of one iteration to that of the next, among the first and
// the last iterations: a loop must not become slower with its history.
func paces(t *testing.T, events []string) (first, last time.Duration) {
	t.Helper()
	var took []time.Duration
	var began time.Time
	for _, line := range events {
		var ev struct {
			Type string
			Time time.Time
		}
		if err := json.Unmarshal([]byte(line), &ev); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if ev.Type != "iteration" {
			continue
		}
		if !began.IsZero() {
			took = append(took, ev.Time.Sub(began))
		}
		began = ev.Time
	}
	median := func(list []time.Duration) time.Duration {
		list = slices.Sorted(slices.Values(list))
		return list[len(list)/2].Round(time.Millisecond)
	}
	n := min(len(took), paced)
	return median(took[:n]), median(took[len(took)-n:])
}

// runs returns the directories of runs.
func (l *lodging) runs() []string {
	list, _ := filepath.Glob(filepath.Join(l.home.dir, "runs", "*"))
	return list
}

// soakStatus is the part of the loop's status that the test reads.
type soakStatus struct {
	Status    string `json:"status"`
	Iteration int    `json:"iteration"`
	Repeats   int    `json:"repeats"`
	Verdict   struct {
		Gates []struct{ Green bool }
	} `json:"verdict"`
}

func (l *lodging) soakStatus() soakStatus {
	l.t.Helper()
	var s soakStatus
	if err := json.Unmarshal([]byte(l.bothy("loop", "status", "--json")), &s); err != nil {
		l.t.Fatal(err)
	}
	return s
}

// killedWithin kills a loop some time after it appears. It returns true if the loop had recorded its end
// by then.
func (l *lodging) killedWithin(cmd *exec.Cmd, after time.Duration) bool {
	l.t.Helper()
	out, err := os.Create(filepath.Join(l.t.TempDir(), "out"))
	if err != nil {
		l.t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	waitFor(l.t, "the run", func() bool { return len(l.runs()) == 1 })
	killer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
	err = cmd.Wait()
	if !killer.Stop() {
		return l.soakStatus().Status == "limit"
	}
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != spec.ExitLimit {
		said, _ := os.ReadFile(out.Name())
		l.t.Fatalf("%v\n%s", err, said)
	}
	return true
}
