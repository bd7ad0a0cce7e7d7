package faults

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
	"github.com/bothy-dev/bothy/test/harness"
)

// hand is an agent that records its task, and takes a moment.
const hand = `version: 1
name: hand
title: Hand
program: sh
headless:
  args:
    - -c
    - |
      id=$(sed -n 's/^# \(bd-[0-9]*\): .*/\1/p')
      echo $id > $id.txt
      sleep 1
      echo '{"type":"said","text":"<promise>COMPLETE</promise>"}'
      echo '{"type":"bye"}'
  prompt: {stdin: true}
  output: events
  events: {rules: [{when: {type: said}, kind: message, role: agent, text: text}, {when: {type: bye}, kind: end}]}
  end: [{type: bye}]
  success: [{type: bye}]
`

// team is a caller with a loop of several workers.
type team struct {
	*harness.Caller
	t     *testing.T
	tasks int
	state string // path at which this process sees the state
	bothy func(args ...string) harness.Result
}

// prepare describes the agent, and adds the tasks.
func (m *team) prepare(tasks int) {
	m.t.Helper()
	agents := filepath.Join(m.Home, ".config", "bothy", "agents")
	m.Mkdir(m.t, agents)
	m.Write(m.t, filepath.Join(agents, "hand.yaml"), hand)
	m.tasks = tasks
	for n := range tasks {
		m.must("task", "add", "do it", "--id", "bd-"+strconv.Itoa(n+1), "--project", m.Work)
	}
}

func (m *team) must(args ...string) string {
	m.t.Helper()
	r := m.bothy(args...)
	if r.Code != 0 {
		m.t.Fatal(r)
	}
	return r.Stdout
}

// args returns the arguments that start the loop, or continue it.
func (m *team) args() []string {
	runs, _ := filepath.Glob(filepath.Join(m.state, "runs", "work-*"))
	if len(runs) > 0 {
		return []string{"loop", "resume", filepath.Base(runs[0])}
	}
	return []string{
		"loop", "run", "--name", "team", "--agent", "hand", "--workspace", "review", "--tasks", "--parallel", "2",
		"--task-iterations", "100", "--max-iterations", "1000", "--stall-errors", "0", "--until", "test ! -e bad", "work", m.Work,
	}
}

// events returns the loop's events.
func (m *team) events() (list []run.Event) {
	m.t.Helper()
	for line := range strings.Lines(m.must("loop", "log", "--json")) {
		var ev run.Event
		if err := json.Unmarshal([]byte(line), &ev); err != nil {
			m.t.Fatalf("%v: %s", err, line)
		}
		list = append(list, ev)
	}
	return list
}

// done checks that all tasks are done, none twice, and that nothing is left after the loop is removed.
// removed.
func (m *team) done() {
	m.t.Helper()
	events := m.events()
	s, err := loop.Fold(events)
	if err != nil || s.Status != run.Completed || s.Reason != "done" || len(s.Closed) != m.tasks {
		m.t.Fatalf("%v: it is %s (%s: %s), with %d closed", err, s.Status, s.Reason, s.Detail, len(s.Closed))
	}
	m.once(events)
	for n := range m.tasks {
		id := "bd-" + strconv.Itoa(n+1)
		if got := m.must("exec", "team", "cat", id+".txt"); got != id+"\n" {
			m.t.Errorf("%s is %q", id, got)
		}
		if got := m.must("task", "show", id, "--json", "--project", m.Work); !strings.Contains(got, `"status": "closed"`) {
			m.t.Errorf("it is %s", got)
		}
	}
	harness.WaitFor(m.t, time.Minute, "nothing but the loop's sandbox", func() bool {
		m.must("create", "--name", "broom", "shell", m.Work) // creating a sandbox sweeps
		m.must("rm", "-f", "broom")
		return m.must("ls", "-q") == "team\n"
	})
	m.must("loop", "rm", m.args()[2])
	m.must("rm", "-f", "team")
	for _, kind := range []string{"runs", "sandboxes"} {
		if left, _ := filepath.Glob(filepath.Join(m.state, kind, "*")); len(left) > 0 {
			m.t.Errorf("left behind: %q", left)
		}
	}
}

// completed reports whether the loop has recorded its end.
func (m *team) completed() bool {
	m.t.Helper()
	s, err := loop.Fold(m.events())
	if err != nil {
		m.t.Fatal(err)
	}
	return s.Status == run.Completed
}

// once checks that acknowledged work is not repeated. A worker whose promise was recorded does not get
// the task again unless gates are red, and no task is settled or closed twice.
func (m *team) once(events []run.Event) {
	m.t.Helper()
	s, err := loop.Fold(nil)
	told, settled, closed := map[string]bool{}, map[string]int{}, map[string]int{}
	for _, ev := range events {
		task := ""
		if _, w := s.Of(ev); w != nil && w.Task != nil {
			task = w.Task.ID
		}
		if err == nil {
			err = s.Add(ev)
		}
		if err != nil {
			m.t.Fatal(err)
		}
		_, w := s.Of(ev)
		switch ev.Type {
		case loop.Worked:
			told[task] = w.Work.Verdict == spec.VerdictOK
		case loop.Iteration:
			if told[task] {
				m.t.Errorf("event %d: %s is done already", ev.Seq, task)
			}
		case loop.Judged:
			told[task] = told[task] && len(w.Verdict.Red()) == 0 // the gate may have been killed
		case loop.PutBack:
			if told[task] = false; !strings.Contains(string(ev.Data), `"again":true`) {
				m.t.Errorf("event %d: %s", ev.Seq, ev.Data)
			}
		case loop.Lost:
			m.t.Errorf("event %d: %s", ev.Seq, ev.Data)
		case loop.Settled:
			settled[task]++
		case loop.Closed:
			closed[task]++
		}
	}
	for _, list := range []map[string]int{settled, closed} {
		if len(list) != m.tasks || slices.Max(slices.Collect(maps.Values(list))) != 1 {
			m.t.Errorf("settled are %v, closed %v", settled, closed)
		}
	}
}

// TestTeamKills repeatedly kills the process that runs a loop of several workers, and keepers of busy
// sandboxes, and removes workers' sandboxes. The next process loses no acknowledged work and does
// nothing twice, and in the end nothing is left.
func TestTeamKills(t *testing.T) {
	harness.AsUser(t)
	harness.EachAlone(t, func(t *testing.T, c *harness.Caller) {
		r := seed(t)
		m := &team{Caller: c, t: t, state: c.State, bothy: c.Run}
		m.prepare(6)
		hosts, keepers, removed, ended := 0, 0, 0, false
		for round := 0; !ended && round < 6; round++ {
			cmd := c.Command(t.Context(), m.args()...)
			said := &strings.Builder{}
			cmd.Stderr = said
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			gone := make(chan error, 1)
			go func() { gone <- cmd.Wait() }()
			m.ready()
			for victims := 1 + r.IntN(2); victims > 0 && !ended; victims-- {
				select {
				case err := <-gone:
					gone <- err
					ended = true
				case <-time.After(time.Duration(100+r.IntN(2500)) * time.Millisecond):
					if victims > 1 && r.IntN(2) == 0 {
						m.bothy("rm", "-f", "team-"+strconv.Itoa(1+r.IntN(2)))
						removed++
					} else if all := slices.Sorted(maps.Keys(c.Keepers())); victims > 1 && len(all) > 0 {
						_ = syscall.Kill(all[r.IntN(len(all))], syscall.SIGKILL)
						keepers++
					}
				}
			}
			if !ended {
				_ = syscall.Kill(cmd.Process.Pid, syscall.SIGKILL)
				hosts++
			}
			<-gone
			// It may have ended just before it was to be killed, or have recorded its end.
			ended = cmd.ProcessState.ExitCode() == 0 || m.completed()
			t.Logf("round %d: %s\n%s", round, cmd.ProcessState, said)
		}
		for try := 0; !ended; try++ { // the loop may count work that a killed keeper interrupted as a failure
			res := m.finish()
			if ended = res.Code == 0; !ended && try > 1 {
				t.Fatal(res)
			}
		}
		t.Logf("%d processes that carried it on were killed, and %d keepers; %d sandboxes were removed", hosts, keepers, removed)
		m.done()
		c.NothingLeft(t)
	})
}

// TestTeamFullDisk fills the disk while two workers are busy: the loop ends and reports why, and
// continues when the disk has space.
func TestTeamFullDisk(t *testing.T) {
	harness.AsUser(t)
	harness.EachAlone(t, func(t *testing.T, c *harness.Caller) {
		disk, bothy := small(t, c, "size=192m,mode=0700")
		m := &team{Caller: c, t: t, state: disk, bothy: bothy}
		m.prepare(3)
		for round := range 2 {
			before := len(m.log())
			ended := make(chan harness.Result, 1)
			go func(args []string) { ended <- bothy(args...) }(m.args())
			harness.WaitFor(t, time.Minute, "somebody to work", func() bool { return strings.Contains(m.log()[before:], `"type":"iteration"`) })
			free := fill(t, disk)
			r := <-ended
			t.Logf("round %d: %v", round, r)
			if r.Code != 1 || r.TimedOut || !strings.Contains(r.Stderr, "no space left") || strings.Contains(r.Stderr, "goroutine ") {
				t.Errorf("on a full disk: %v", r)
			}
			free()
		}
		if r := bothy(m.args()...); r.Code != 0 {
			t.Fatal(r)
		}
		m.done()
	})
}

// log returns the loop's log so far.
func (m *team) log() string {
	runs, _ := filepath.Glob(filepath.Join(m.state, "runs", "work-*", "events.jsonl"))
	if len(runs) == 0 {
		return ""
	}
	text, err := os.ReadFile(runs[0])
	if err != nil {
		m.t.Fatal(err)
	}
	return string(text)
}

// ready waits until a loop can be resumed: before that it can only be removed, which another test
// covers.
func (m *team) ready() {
	m.t.Helper()
	harness.WaitFor(m.t, time.Minute, "the loop to be ready", func() bool { return strings.Contains(m.log(), `"type":"ready"`) })
}

// finish continues the loop to its end.
func (m *team) finish() harness.Result {
	ctx, cancel := context.WithTimeout(m.t.Context(), 5*time.Minute)
	defer cancel()
	args := m.args()
	return harness.Finish(ctx, m.Command(ctx, args...), args)
}
