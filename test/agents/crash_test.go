package agents

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/test/harness"
	"github.com/bothy-dev/bothy/test/stage"
)

// perilous is a job of two iterations. At the start of each the agent works longer than it lives. In the
// first one it asks the user.
const perilous = `
conversations:
  - match: This is iteration 1 of
    turns:
      - tools: [{run_command: {command: "if mkdir WORK/begun; then sleep 600; fi; echo 1 >> WORK/log"}}]
      - text: There are two ways to do the rest. Which one do you want?
  - match: (?s)This is iteration 2 of.*the short one
    turns:
      - tools: [{run_command: {command: "echo 2 >> WORK/log"}}]
      - text: "It is done.\n<promise>COMPLETE</promise>"
`

// TestCrashClaude kills the process that runs a loop in each state of the loop, and another process
// continues it. Each state lasts until the kill. The test checks that the result of each step exists
// once, and that nothing is left behind. (More such moments, with stand-ins: internal/loop
// TestCrashEverywhere.)
func TestCrashClaude(t *testing.T) {
	harness.Sweep(t, "agents")
	inWorld(t, claude, perilous, func(t *testing.T, w *world) {
		gate := w.gate(t)
		told := w.hook(t)
		hears := func() bool { return exists(told) }
		begin := []string{
			"loop", "run", "--name", box, "--agent", "claude", "-e", "CLAUDE_CODE_MAX_RETRIES=0", "--allow", gateHost,
			"--max-iterations", "2", "--stall-questions", "1", "--until", "curl -kfsS https://" + gateHost + " && grep -q 2 log", "do it", w.Work,
		}
		resume := []string{"loop", "resume"}

		held := w.hold(t, filepath.Join(w.State, "names.lock"))
		w.dies(t, "making its sandbox", begin, "", func() bool { return len(w.runs()) > 0 })
		held.Unlock()
		if r := w.within(t, resume...); r.Code != 5 || len(w.runs()) > 0 {
			t.Errorf("of one that had no sandbox there is %q: %v", w.runs(), r)
		}

		gate.Store(true)
		w.dies(t, "asking the gates at first", begin, "interrupted crash", func() bool { return !gate.Load() })
		w.dies(t, "at work", resume, "interrupted crash", func() bool { return exists(filepath.Join(w.Work, "begun")) })

		held = w.hold(t, filepath.Join(w.State, "sandboxes", w.Inspect(t, box).ID, "checkpoints", ".lock"))
		w.dies(t, "making a checkpoint", resume, "interrupted crash", func() bool { return w.last() == loop.Worked })
		held.Unlock()

		gate.Store(true)
		w.dies(t, "asking the gates", resume, "interrupted crash", func() bool { return !gate.Load() })
		w.dies(t, "waiting for an answer", resume, "waiting question", hears)
		_ = os.Remove(told)
		w.Must(t, "loop", "hint", "the short one")

		w.tired = w.provider(t, usedUp)
		w.dies(t, "waiting for an allowance", resume, "interrupted crash", func() bool { return w.last() == loop.Worked })
		paused := false
		w.dies(t, "paused", resume, "waiting paused", func() bool {
			paused = paused || w.Run("loop", "pause").Code == 0
			return paused && hears()
		})
		_ = os.Remove(told)
		w.dies(t, "done", resume, "completed done", hears)
		_ = os.Remove(told)

		if r := w.within(t, resume...); r.Code != 5 {
			t.Errorf("what is done is gone on with: %v", r)
		}
		want := []string{"baseline 0", "worked 1 ok", "kept 1", "judged 1", "worked 2 limit", "worked 2 ok", "kept 2", "judged 2"}
		if got := slices.Compact(w.came(t)); !slices.Equal(got, want) {
			t.Errorf("the steps have come to\n%q, not\n%q", got, want)
		}
		if got := w.read(t, "log"); got != "1\n2\n" {
			t.Errorf("the work is %q", got)
		}
		if out := w.Must(t, "ls", "-q"); out != box+"\n" {
			t.Errorf("there are %s", out)
		}
		w.heard(t, "This is iteration 2 of")
		w.onlyProvider(t)
	})
}

// dies starts a process that continues the loop, and kills it when at reports true, which is a state
// that lasts. stands is the loop's expected status after that; if empty, it is not checked.
func (w *world) dies(t *testing.T, what string, args []string, stands string, at func() bool) {
	t.Helper()
	host := w.Command(t.Context(), args...)
	var said bytes.Buffer
	host.Stderr = &said
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = host.Wait()
		close(ended)
	}()
	harness.WaitFor(t, patience, "the loop to be "+what, func() bool {
		select {
		case <-ended:
			t.Fatalf("it was not killed %s: %v\n%s\nthe model was asked\n%s", what, host.ProcessState, said.String(), summary(w.model.Requests()))
		default:
		}
		return at()
	})
	_ = host.Process.Kill()
	<-ended
	if stands == "" {
		return
	}
	if s := w.stands(t); fmt.Sprint(s.Status, " ", s.Reason) != stands {
		t.Errorf("killed %s it is %s (%s)\n%s", what, s.Status, s.Reason, said.String())
	}
}

// hold takes a lock that the loop needs for its next step. The caller owns the lock's file,
// whichever user runs the test.
func (w *world) hold(t *testing.T, path string) *store.Lock {
	t.Helper()
	held, err := store.TryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	w.Own(t, path)
	return held
}

// gateHost is the host that the gate contacts.
const gateHost = "gate.example"

// gate makes the gate's next request hang until the gate is cancelled. The returned flag is true
// until that request arrives.
func (w *world) gate(t *testing.T) *atomic.Bool {
	t.Helper()
	next := &atomic.Bool{}
	w.stage.Leads(gateHost, stage.Host4.String())
	w.hosts = map[string]http.Handler{gateHost: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if next.CompareAndSwap(true, false) {
			<-r.Context().Done()
		}
	})}
	return next
}

// hook configures a notify program that runs at a loop's end until the file that it makes is
// removed.
func (w *world) hook(t *testing.T) (file string) {
	t.Helper()
	file = filepath.Join(w.Base, "told")
	dir := filepath.Join(w.Home, ".config", "bothy")
	w.Mkdir(t, dir)
	w.Write(t, filepath.Join(dir, "config.yaml"),
		fmt.Sprintf("notify: [sh, -c, 'test $BOTHY_EVENT = ended || exit 0; echo > %s; while test -e %s; do sleep 0.1; done']\n", file, file))
	return file
}

// exists reports whether a file exists.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// runs returns the directories of all runs.
func (w *world) runs() []string {
	list, _ := filepath.Glob(filepath.Join(w.State, "runs", "[^.]*"))
	return list
}

// last returns the loop's last event. It reads the file instead of asking a process, because it is
// called all the time.
func (w *world) last() string {
	var ev run.Event
	for _, dir := range w.runs() {
		b, _ := os.ReadFile(filepath.Join(dir, "events.jsonl"))
		lines := bytes.Split(bytes.TrimSpace(b), []byte("\n"))
		_ = json.Unmarshal(lines[len(lines)-1], &ev) // an incomplete line does not count yet
	}
	return ev.Type
}

// came returns the results of the loop's steps.
func (w *world) came(t *testing.T) (list []string) {
	t.Helper()
	s, err := loop.Fold(nil)
	for line := range bytes.Lines([]byte(w.Must(t, "loop", "log", "--json"))) {
		var ev run.Event
		if err == nil {
			err = json.Unmarshal(line, &ev)
		}
		if err == nil {
			err = s.Add(ev)
		}
		if err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		switch ev.Type {
		case loop.Worked:
			list = append(list, fmt.Sprint(ev.Type, " ", s.Iteration, " ", s.Work.Verdict))
		case loop.Baseline, loop.Kept, loop.Judged:
			list = append(list, fmt.Sprint(ev.Type, " ", s.Iteration))
		}
	}
	return list
}
