package faults

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/test/harness"
)

// stormVar sets how long the storm lasts, such as 1h.
const stormVar = "BOTHY_STORM"

const (
	stormBoxes   = 4
	stormWorkers = 2 // for each sandbox
)

// TestStorm kills keepers, sentries, gofers and command lines at random while workers write through
// `exec` into several sandboxes. Each acknowledged line is in the home and in the workspace exactly
// once, each other line at most once, none is torn, and no process is left.
func TestStorm(t *testing.T) {
	harness.Sweep(t, "soak")
	length := time.Minute
	if v := os.Getenv(stormVar); v != "" {
		var err error
		if length, err = time.ParseDuration(v); err != nil {
			t.Fatal(err)
		}
	}
	harness.EachAlone(t, func(t *testing.T, c *harness.Caller) {
		s := &storm{t: t, c: c, end: time.Now().Add(length)}
		s.run(seed(t))
		t.Logf("%d commands, %d acknowledged lines, %d kills", s.commands.Load(), s.lines.Load(), s.kills.Load())
	})
}

type storm struct {
	t                      *testing.T
	c                      *harness.Caller
	end                    time.Time
	commands, lines, kills atomic.Int64
}

// stormLog is the output of the workers of one sandbox.
type stormLog struct {
	mu    sync.Mutex
	acked map[string]bool // by line; false: it may have been written or not
}

func (s *storm) run(rng *rand.Rand) {
	logs := make([]*stormLog, stormBoxes)
	var workers, killer sync.WaitGroup
	for i := range stormBoxes {
		s.c.Must(s.t, "create", "--name", boxName(i), "--workspace", []string{"live", "review"}[i%2], "shell", ".")
		logs[i] = &stormLog{acked: map[string]bool{}}
	}
	for i := range stormBoxes {
		for j := range stormWorkers {
			r := rand.New(rand.NewPCG(rng.Uint64(), rng.Uint64()))
			workers.Go(func() { s.work(r, logs[i], i, j) })
		}
	}
	calm := make(chan struct{})
	r := rand.New(rand.NewPCG(rng.Uint64(), rng.Uint64()))
	killer.Go(func() { s.kill(r, calm) })
	workers.Wait()
	close(calm)
	killer.Wait()
	for i, l := range logs {
		s.compare(i, l)
	}
}

func boxName(i int) string { return fmt.Sprintf("box%d", i) }

// work writes lines until the end, and occasionally does something else.
func (s *storm) work(rng *rand.Rand, l *stormLog, box, worker int) {
	name := boxName(box)
	for n := 0; time.Now().Before(s.end) && !s.t.Failed(); n++ {
		s.commands.Add(1)
		switch rng.IntN(12) {
		case 0:
			s.settle(s.c.Run("stop", name))
		case 1:
			s.settle(s.c.Run("checkpoint", "create", name))
		case 2:
			s.settle(s.c.Run("ls"))
		}
		line := fmt.Sprintf("line-%d-%d-%d", box, worker, n)
		l.note(line, false)
		r := s.c.Run("exec", name, "sh", "-c", fmt.Sprintf("echo %s >> ~/log && echo %s >> log%d", line, line, box))
		s.settle(r)
		if r.Code == 0 {
			l.note(line, true)
			s.lines.Add(1)
		}
	}
}

func (l *stormLog) note(line string, acked bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acked[line] = acked
}

// settle reports a command that failed without a reason. A command that was killed prints nothing. A
// command whose program was killed with its sandbox has its own exit code.
func (s *storm) settle(r harness.Result) {
	if r.Code == -1 && !r.TimedOut {
		return
	}
	explained(s.t, r)
}

// kill kills random processes of Bothy, one after the other.
func (s *storm) kill(rng *rand.Rand, calm <-chan struct{}) {
	for {
		select {
		case <-calm:
			return
		case <-time.After(time.Duration(rng.IntN(400)) * time.Millisecond):
		}
		list := append(s.c.Running(), s.commandLines()...)
		if len(list) == 0 {
			continue
		}
		p := list[rng.IntN(len(list))]
		if syscall.Kill(p.PID, syscall.SIGKILL) == nil {
			s.kills.Add(1)
		}
	}
}

// commandLines lists the commands of the caller that run now.
func (s *storm) commandLines() []harness.Process {
	var list []harness.Process
	for _, p := range harness.Processes() {
		if len(p.Args) == 0 || p.Args[0] != s.c.Binary || p.State == 'Z' {
			continue
		}
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.PID))
		if err == nil && strings.Contains(string(env), "BOTHY_HOME="+s.c.State+"\x00") {
			list = append(list, p)
		}
	}
	return list
}

// compare looks for lost, doubled and torn lines.
func (s *storm) compare(box int, l *stormLog) {
	s.t.Helper()
	name := boxName(box)
	r := recovers(s.t, s.c, "exec", name, "sh", "-c", fmt.Sprintf("cat ~/log; echo ---; cat log%d", box))
	home, work, _ := strings.Cut(r.Stdout, "---\n")
	if box%2 == 0 { // live: the host sees the same
		data, err := os.ReadFile(filepath.Join(s.c.Work, fmt.Sprintf("log%d", box)))
		if err != nil || string(data) != work {
			s.t.Errorf("%s: the host's workspace is not the one inside (%v)", name, err)
		}
	}
	for where, text := range map[string]string{"home": home, "workspace": work} {
		seen := map[string]int{}
		for line := range strings.Lines(text) {
			seen[strings.TrimSuffix(line, "\n")]++
		}
		for line, n := range seen {
			if _, ours := l.acked[line]; !ours {
				s.t.Errorf("%s: the %s has a torn line %q", name, where, line)
			}
			if n > 1 {
				s.t.Errorf("%s: the %s has %q %d times", name, where, line, n)
			}
		}
		for line, acked := range l.acked {
			if acked && seen[line] == 0 {
				s.t.Errorf("%s: the %s lost the acknowledged %q", name, where, line)
			}
		}
	}
}
