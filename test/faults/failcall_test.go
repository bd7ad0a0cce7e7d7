package faults

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/spec"
	"github.com/bothy-dev/bothy/test/failcall"
	"github.com/bothy-dev/bothy/test/harness"
)

// ownPrograms are the programs of Bothy whose system calls are made to fail.
var ownPrograms = []string{"bothy", "bothy-keeper", "bothy-vault", "bothy-tasks", "bothy-attend"}

// mark is the argument of the command from which on calls count.
const mark = "from-here-on"

// callScenario is one job whose system calls are made to fail.
type callScenario struct {
	name string
	// setUp prepares the scenario without failures.
	setUp func(t *testing.T, c *harness.Caller)
	// script is run by sh with one call failing after the line with the mark. The exit code of its last
	// command is that of the job.
	script string
	// within are the jobs that are part of this one. A call that they make as well fails here with one
	// error, and there with each error of the kernel.
	within []string
	// check checks the outcome without failures. done is set if the job was acknowledged: then its
	// effect must exist.
	check func(t *testing.T, c *harness.Caller, done bool)
}

var callScenarios = []callScenario{
	{
		name:   "create",
		script: `/bin/true ` + mark + `; "$BOTHY" create --name box shell .`,
		check: func(t *testing.T, c *harness.Caller, done bool) {
			if !done {
				removeLeft(t, c, "box")
				c.Must(t, "create", "--name", "box", "shell", ".")
			}
			c.Must(t, "exec", "box", "true")
		},
	},
	{
		name: "exec-starts",
		setUp: func(t *testing.T, c *harness.Caller) {
			c.Must(t, "create", "--name", "box", "shell", ".")
			c.Must(t, "exec", "box", "sh", "-c", "echo kept > ~/kept; sudo sh -c 'echo kept > /usr/local/kept'")
			c.Must(t, "stop", "box")
		},
		script: `/bin/true ` + mark + `; "$BOTHY" exec box sh -c 'echo ran >> ~/log; echo ran >> log'`,
		check:  checkExec,
	},
	{
		name: "exec",
		setUp: func(t *testing.T, c *harness.Caller) {
			c.Must(t, "create", "--name", "box", "shell", ".")
			c.Must(t, "exec", "box", "sh", "-c", "echo kept > ~/kept; sudo sh -c 'echo kept > /usr/local/kept'")
			c.Must(t, "stop", "box")
		},
		script: `"$BOTHY" exec box true && /bin/true ` + mark + ` && "$BOTHY" exec box sh -c 'echo ran >> ~/log; echo ran >> log'`,
		check:  checkExec,
	},
	{
		name:   "stop",
		setUp:  func(t *testing.T, c *harness.Caller) { c.Must(t, "create", "--name", "box", "shell", ".") },
		script: `"$BOTHY" exec box sudo sh -c 'echo kept > /usr/local/kept' && /bin/true ` + mark + ` && "$BOTHY" stop box`,
		check: func(t *testing.T, c *harness.Caller, done bool) {
			r := recovers(t, c, "exec", "box", "sh", "-c", "cat /usr/local/kept || echo none")
			if done && r.Stdout != "kept\n" {
				t.Errorf("stop was acknowledged, but the root layer is lost: %v", r)
			}
		},
	},
	{
		name:   "checkpoint",
		setUp:  func(t *testing.T, c *harness.Caller) { c.Must(t, "create", "--name", "box", "shell", ".") },
		script: `"$BOTHY" exec box sh -c 'echo kept > ~/kept; echo kept > kept' && /bin/true ` + mark + ` && "$BOTHY" checkpoint create box`,
		check: func(t *testing.T, c *harness.Caller, done bool) {
			if !done {
				recovers(t, c, "checkpoint", "create", "box")
			}
			checkRestore(t, c)
		},
	},
	{
		name:   "checkpoint-full",
		setUp:  func(t *testing.T, c *harness.Caller) { c.Must(t, "create", "--name", "box", "shell", ".") },
		script: `"$BOTHY" exec box sh -c 'echo kept > ~/kept; echo kept > kept' && /bin/true ` + mark + ` && "$BOTHY" checkpoint create --full box`,
		check: func(t *testing.T, c *harness.Caller, done bool) {
			if !done {
				recovers(t, c, "checkpoint", "create", "--full", "box")
			}
			checkRestore(t, c)
		},
	},
	{
		name: "restore",
		setUp: func(t *testing.T, c *harness.Caller) {
			c.Must(t, "create", "--name", "box", "shell", ".")
			c.Must(t, "exec", "box", "sh", "-c", "echo kept > ~/kept; echo kept > kept")
			c.Must(t, "checkpoint", "create", "box")
			c.Must(t, "exec", "box", "sh", "-c", "echo later > ~/kept; echo later > kept; echo new > new")
		},
		script: `/bin/true ` + mark + ` && "$BOTHY" checkpoint restore -f box 1`,
		check: func(t *testing.T, c *harness.Caller, done bool) {
			if !done {
				recovers(t, c, "checkpoint", "restore", "-f", "box", "1")
			}
			checkKept(t, c)
		},
	},
	{
		name: "apply",
		setUp: func(t *testing.T, c *harness.Caller) {
			for name, content := range map[string]string{"changed": "old\n", "deleted": "old\n", "moved": "moved\n"} {
				c.Write(t, filepath.Join(c.Work, name), content)
			}
			c.Must(t, "create", "--name", "box", "--workspace", "review", "shell", ".")
			c.Must(t, "exec", "box", "sh", "-ec", "echo new > changed; rm deleted; mv moved elsewhere; mkdir -p deep/er; echo new > deep/er/file")
			c.Must(t, "stop", "box")
		},
		script: `/bin/true ` + mark + ` && "$BOTHY" apply box`,
		check: func(t *testing.T, c *harness.Caller, done bool) {
			if !done {
				recovers(t, c, "apply", "box")
			}
			want := "changed=new deep/er/file=new elsewhere=moved"
			if got := contents(t, c.Work); got != want {
				t.Errorf("after apply the workspace has %q, want %q", got, want)
			}
			if out := c.Must(t, "diff", "--name-only", "box"); strings.TrimSpace(out) != "" {
				t.Errorf("after apply there are still changes: %q", out)
			}
		},
	},
	{
		name: "cp",
		setUp: func(t *testing.T, c *harness.Caller) {
			c.Write(t, filepath.Join(c.Home, "in"), strings.Repeat("in", 1<<16))
			c.Must(t, "create", "--name", "box", "shell", ".")
			c.Must(t, "exec", "box", "sh", "-c", "echo out > ~/out")
		},
		script: `/bin/true ` + mark + ` && "$BOTHY" cp ../in box:/tmp/in && "$BOTHY" cp "box:$HOME/out" ../out`,
		check: func(t *testing.T, c *harness.Caller, done bool) {
			got, err := os.ReadFile(filepath.Join(c.Home, "out"))
			if string(got) != "out\n" && (done || err == nil) {
				t.Errorf("cp left %q (%v) on the host", got, err)
			}
			size := recovers(t, c, "exec", "box", "sh", "-c", "stat -c %s /tmp/in || echo none").Stdout
			if size != "131072\n" && (done || size != "none\n") {
				t.Errorf("cp left a file of size %q inside", size)
			}
		},
	},
	{
		name:   "loop",
		within: []string{"create", "exec-starts", "stop", "checkpoint", "restore", "apply"},
		setUp: func(t *testing.T, c *harness.Caller) {
			dir := filepath.Join(c.Home, ".config", "bothy", "agents")
			c.Mkdir(t, dir)
			c.Write(t, filepath.Join(dir, "mine.yaml"), loopAgent)
		},
		script: `/bin/true ` + mark + ` && "$BOTHY" loop run --name run --agent mine --workspace review --until 'test $(wc -l < work) -ge 2' 'work once'`,
		check: func(t *testing.T, c *harness.Caller, done bool) {
			r := c.Run("loop", "status", "--json")
			switch {
			case done && !strings.Contains(r.Stdout, `"completed"`):
				t.Errorf("the loop was acknowledged, but its status is %v", r)
			case !done && r.Code == int(spec.ExitNotFound): // it failed before the run existed
				if said, err := os.ReadFile(filepath.Join(c.Base, "errs")); err != nil || strings.Contains(string(said), "bothy: run ") {
					t.Errorf("a run that was told of is lost (%v): %s", err, said)
				}
				removeLeft(t, c, "run")
				c.Must(t, "loop", "run", "--name", "run", "--agent", "mine", "--workspace", "review",
					"--until", "test $(wc -l < work) -ge 2", "work once")
			case !done && r.Code == 0:
				explained(t, c.Run("loop", "resume"))
			default:
				explained(t, r)
			}
		},
	},
}

// callLimit bounds a traced job. All waits in Bothy are shorter.
const callLimit = 2 * time.Minute

// loopAgent is an agent that adds a line to a file and reports that it is done.
const loopAgent = `version: 1
name: mine
title: Mine
program: sh
headless:
  args:
    - -c
    - |
      cat > /dev/null
      echo more >> work
      printf '{"type":"said","text":"<promise>COMPLETE</promise>"}\n{"type":"bye","good":true}\n'
  prompt: {stdin: true}
  output: events
  events:
    rules:
      - {when: {type: said}, kind: message, role: agent, text: text}
      - {when: {type: bye}, kind: end, text: text}
  end: [{type: bye}]
  success: [{type: bye, good: "true"}]
`

// removeLeft removes the sandbox of a job that failed, if the job left one.
func removeLeft(t *testing.T, c *harness.Caller, name string) {
	t.Helper()
	if r := c.Run("rm", "-f", name); r.Code != int(spec.ExitNotFound) {
		explained(t, r)
	}
}

func checkExec(t *testing.T, c *harness.Caller, done bool) {
	t.Helper()
	r := recovers(t, c, "exec", "box", "sh", "-c", "cat ~/kept /usr/local/kept; cat ~/log log 2>/dev/null || true")
	times := strings.Count(r.Stdout, "ran\n")
	if !strings.HasPrefix(r.Stdout, "kept\nkept\n") {
		t.Errorf("acknowledged files are lost: %v", r)
	}
	if times > 2 || done && times != 2 {
		t.Errorf("the command wrote %d lines, want 2 if it was acknowledged (%v) and at most that: %v", times, done, r)
	}
}

// checkRestore restores the newest checkpoint.
func checkRestore(t *testing.T, c *harness.Caller) {
	t.Helper()
	c.Must(t, "exec", "box", "sh", "-c", "echo later > ~/kept; echo later > kept")
	var list struct {
		Checkpoints []struct{ Number int }
	}
	if err := json.Unmarshal([]byte(c.Must(t, "checkpoint", "ls", "--json", "box")), &list); err != nil {
		t.Fatal(err)
	}
	last := 0
	for _, cp := range list.Checkpoints {
		last = max(last, cp.Number)
	}
	c.Must(t, "checkpoint", "restore", "-f", "box", strconv.Itoa(last))
	checkKept(t, c)
}

func checkKept(t *testing.T, c *harness.Caller) {
	t.Helper()
	if r := recovers(t, c, "exec", "box", "sh", "-c", "cat ~/kept kept; ls new 2>/dev/null || true"); r.Stdout != "kept\nkept\n" {
		t.Errorf("what was restored is not what was kept: %v", r)
	}
}

// contents lists the regular files below a directory with their contents.
func contents(t *testing.T, dir string) string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		list = append(list, name+"="+strings.TrimSpace(string(data)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

// play runs a scenario once in fresh directories. fail decides which call fails.
func (s callScenario) play(t *testing.T, name string, fail func(failcall.Point) unix.Errno) failcall.Result {
	t.Helper()
	c := harness.New(t, name)
	if s.setUp != nil {
		s.setUp(t, c)
	}
	out, err := os.Create(filepath.Join(c.Base, "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	errs, err := os.Create(filepath.Join(c.Base, "errs"))
	if err != nil {
		t.Fatal(err)
	}
	defer errs.Close()
	cmd := exec.Command("/bin/sh", "-c", s.script)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = c.Work, append(c.Environment(), "BOTHY="+c.Binary), c.Attributes()
	cmd.Stdout, cmd.Stderr = out, errs
	res, err := failcall.Run{Programs: ownPrograms, Base: c.Base, Mark: mark, Fail: fail, Limit: callLimit}.Of(cmd)
	if err != nil {
		t.Fatal(err)
	}
	said, _ := os.ReadFile(errs.Name())
	if res.TimedOut {
		t.Fatalf("%s hangs: it said %s", s.name, said)
	}
	if !strings.Contains(string(said), "bothy: to go on: ") { // a loop that failed tells how to continue
		explained(t, harness.Result{Args: []string{s.name}, Code: res.Code, Stderr: string(said)})
	}
	s.check(t, c, res.Code == 0)
	if t.Failed() || res.Failed {
		t.Logf("%s ended with %d and said: %s", s.name, res.Code, said)
	}
	return res
}

// once makes one point fail.
func once(p failcall.Point, errno unix.Errno) func(failcall.Point) unix.Errno {
	return func(q failcall.Point) unix.Errno {
		if p == q {
			return errno
		}
		return 0
	}
}

func none(failcall.Point) unix.Errno { return 0 }

// trial is one call that is made to fail.
type trial struct {
	p     failcall.Point
	errno unix.Errno
}

// copied matches the paths of a tree that Bothy copies or makes as a whole: the names in it are those of
// the host's files.
var copied = regexp.MustCompile(`((?:/cache/TMP|/layers/\.root-|/scratch/root/|/checkpoints/\.new|/sandboxes/\.gone|/review/N/up/)[^/]*).*`)

// kind is the common part of the points from one line of code.
func kind(p failcall.Point) failcall.Point {
	return failcall.Point{Program: p.Program, Call: p.Call, Path: copied.ReplaceAllString(p.Path, "$1")}
}

// distinct returns the first and the last of the points from the same line of code, as far as program,
// call and path show it: those between differ only in their data.
func distinct(points []failcall.Point) []failcall.Point {
	first, last := map[failcall.Point]failcall.Point{}, map[failcall.Point]failcall.Point{}
	for _, p := range points {
		last[kind(p)] = p
		if _, seen := first[kind(p)]; !seen {
			first[kind(p)] = p
		}
	}
	return slices.DeleteFunc(slices.Clone(points), func(p failcall.Point) bool {
		return p != first[kind(p)] && p != last[kind(p)]
	})
}

// draw returns the trials of a scenario in an order that depends on the seed. A point that only some
// runs have does not change the order of the others. A point of a kind that is swept elsewhere fails
// only with the first of its errors.
func draw(points []failcall.Point, seed uint64, elsewhere map[failcall.Point]bool) []trial {
	var trials []trial
	ranks := map[trial]uint64{}
	order := func(a, b trial) int { return cmp.Compare(ranks[a], ranks[b]) }
	for _, p := range points {
		var own []trial
		for _, errno := range p.Errnos() {
			tr := trial{p, errno}
			h := fnv.New64a()
			fmt.Fprint(h, seed, p, int(errno))
			own, ranks[tr] = append(own, tr), h.Sum64()
		}
		if elsewhere[kind(p)] {
			own = []trial{slices.MinFunc(own, order)}
		}
		trials = append(trials, own...)
	}
	slices.SortFunc(trials, order)
	return trials
}

// swept returns the kinds of calls that the jobs within a job make.
func (s callScenario) swept(t *testing.T, name string) map[failcall.Point]bool {
	t.Helper()
	kinds := map[failcall.Point]bool{}
	for _, other := range callScenarios {
		if slices.Contains(s.within, other.name) {
			for _, p := range other.play(t, name, none).Points {
				kinds[kind(p)] = true
			}
		}
	}
	return kinds
}

// callsVar sets how many calls of each job fail: a number, or all.
const callsVar = "BOTHY_FAULT_CALLS"

// drawnCalls is how many calls of each job fail in a usual run.
const drawnCalls = 3

// callsWanted returns how many of the trials to make: see TestFailingCalls.
func callsWanted(t *testing.T, trials int) int {
	t.Helper()
	v := os.Getenv(callsVar)
	if v == "" {
		return min(drawnCalls, trials)
	}
	if v == "all" {
		return trials
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		t.Fatalf("%s is neither a number nor all: %v", callsVar, err)
	}
	return min(n, trials)
}

// TestFailingCalls makes single system calls of the command line and the keeper fail, in each job. It
// checks that the command reports that in words, that nothing acknowledged is lost, that nothing runs
// twice, and that the same job works afterwards.
//
// Each job runs once without a failing call, then once for each of a few drawn calls: always the same
// ones, so that no change fails by luck. BOTHY_FAULT_SEED draws others. BOTHY_FAULT_CALLS=N draws N
// calls for each job; all takes every call that distinct returns, with each error (or one error, if
// another job makes the call too).
func TestFailingCalls(t *testing.T) {
	harness.Sweep(t, "faults")
	if !failcall.Supported {
		harness.Missing(t, "system calls cannot be made to fail on this kind of processor")
	}
	n := seedOr(t, 1).Uint64()
	for _, name := range harness.Callers() {
		for _, s := range callScenarios {
			t.Run(name+"/"+s.name, func(t *testing.T) {
				points := s.play(t, name, none).Points
				if len(points) == 0 {
					t.Fatal("no call was seen")
				}
				var elsewhere map[failcall.Point]bool
				if os.Getenv(callsVar) == "all" {
					elsewhere = s.swept(t, name)
				}
				trials := draw(distinct(points), n, elsewhere)
				want := callsWanted(t, len(trials))
				missed, began := 0, time.Now()
				for i, tr := range trials[:want] {
					t.Run(fmt.Sprint(i), func(t *testing.T) {
						t.Cleanup(func() { t.Logf("this was %v for %v", tr.errno, tr.p) })
						if res := s.play(t, name, once(tr.p, tr.errno)); !res.Failed {
							missed++
						}
					})
				}
				t.Logf("%d points, %d of %d trials (%d did not come by their call) in %v", len(points), want, len(trials), missed, time.Since(began).Round(time.Second))
			})
		}
	}
}
