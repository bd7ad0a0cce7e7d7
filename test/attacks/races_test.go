package attacks

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/test/harness"
)

// racesVar is the number of exchanges for which each case continues; make races sets it.
const racesVar = "BOTHY_RACES"

// The minimum number of tries of each case, and of exchanges without the variable.
const (
	fewTries     = 2
	fewExchanges = 256
)

// race is a workspace in which a program inside a sandbox exchanges names continuously, while the host's
// side works with paths through them.
type race struct {
	*harness.Caller
	outside string // on the host, shared with no sandbox
	data    string // shared with the victims, and not with the program that exchanges
	counter string // a file in which the program that exchanges keeps count
	before  map[string]string
}

// pairs returns the exchanged names: a directory on the path of a mount point, and a mount point itself,
// each with a link to the host's files or to files of other sandboxes.
func (r *race) pairs() []string {
	return []string{"a:l/outside", "a:l/data", "a:l/up", "b/dir:l/outside", "b/file:l/secret"}
}

// startRace creates the workspace and starts the program.
func startRace(t *testing.T, c *harness.Caller) *race {
	t.Helper()
	r := &race{Caller: c, outside: filepath.Join(c.Base, "outside"), data: filepath.Join(c.Base, "data"), counter: filepath.Join(c.Base, "count", "count")}
	for _, dir := range []string{r.outside, r.data, filepath.Dir(r.counter)} {
		c.Mkdir(t, dir)
		c.Write(t, filepath.Join(dir, "secret"), "secret\n")
	}
	for _, dir := range []string{"a/dir", "b/dir", "l"} {
		c.Mkdir(t, filepath.Join(c.Work, filepath.Dir(dir)))
		c.Mkdir(t, filepath.Join(c.Work, dir))
	}
	c.Write(t, filepath.Join(c.Work, "a/file"), "")
	c.Write(t, filepath.Join(c.Work, "b/file"), "")
	for name, to := range map[string]string{
		"outside": r.outside, "data": "/data", "secret": filepath.Join(r.outside, "secret"), "up": "../../outside",
	} {
		link := filepath.Join(c.Work, "l", name)
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
		c.Own(t, link)
	}
	me := c.Plant(t, c.Work)
	r.lay(t)
	r.before = r.look(t)
	enemy := c.Command(t.Context(), append([]string{"exec", "enemy", me, "intruder", "exchange", r.counter}, r.pairs()...)...)
	if err := enemy.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = enemy.Process.Kill(); _ = enemy.Wait() })
	harness.WaitFor(t, harness.Timeout, "the first exchanges", func() bool { return r.exchanges() > 0 })
	return r
}

// lay makes the sandboxes and files for the cases, before names change.
func (r *race) lay(t *testing.T) {
	t.Helper()
	r.Mkdir(t, r.vol())
	r.Mkdir(t, r.other())
	r.Write(t, filepath.Join(r.vol(), "file"), "file\n")
	for name, how := range map[string]string{
		"enemy":    "-v " + filepath.Dir(r.counter),
		"forked":   "-v " + r.data + ":/data --private a/node1 --private b/dir",
		"reviewed": "-v " + r.data + ":/data:ro --private a/node1 --workspace review",
		"restored": "-v " + r.data + ":/data:ro --private a/node1",
	} {
		r.Must(t, slices.Concat([]string{"create", "--name", name}, strings.Fields(how), []string{"shell", r.Work})...)
	}
	r.Must(t, "checkpoint", "create", "restored")
	r.Must(t, "create", "--name", "box", "shell", r.other())
	if res := r.Sh("box", "", "mkdir -p tree/dir /tmp/in; echo new | tee tree/dir/new tree/file > new"); res.Code != 0 {
		t.Fatal(res)
	}
	agents := filepath.Join(r.Home, ".config", "bothy", "agents")
	r.Mkdir(t, agents)
	r.Write(t, filepath.Join(agents, "worker.yaml"), fmt.Sprintf(hostileAgent, "worker",
		`mkdir -p a/dir b; date +%N | tee a/worked a/dir/worked > b/worked; echo '{"type":"said","text":"<promise>COMPLETE</promise>"}'`))
	r.Write(t, filepath.Join(r.Home, "raced.yaml"), "name: raced\nsteps:\n  - {id: a, command: 'mkdir -p a/dir; date > a/dir/flowed; echo it > \"$BOTHY_OUTPUT\"', output: a.txt, final: true}\n")
}

func (r *race) vol() string   { return filepath.Join(r.Base, "vol") }
func (r *race) other() string { return filepath.Join(r.Home, "other") }

// exchanges returns the number of exchanges so far.
func (r *race) exchanges() int {
	b, _ := os.ReadFile(r.counter)
	n, _ := strconv.Atoi(strings.TrimSpace(string(b)))
	return n
}

// look lists everything outside of the workspace that must not change.
func (r *race) look(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, root := range []string{r.Base, r.Home, r.outside, r.data} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			switch path {
			case r.State, r.Work, filepath.Dir(r.counter):
				return fs.SkipDir
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			found[path] = info.Mode().String()
			if d.Type().IsRegular() {
				b, err := os.ReadFile(path)
				found[path] += fmt.Sprintf(" %x", sha256.Sum256(b))
				return err
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// against runs a command while names are exchanged, and checks for changes.
func (r *race) against(t *testing.T, what string, try func(n int) harness.Result) {
	t.Helper()
	began, least := r.exchanges(), fewExchanges
	if v := os.Getenv(racesVar); v != "" {
		var err error
		if least, err = strconv.Atoi(v); err != nil {
			t.Fatalf("%s: %v", racesVar, err)
		}
	}
	tries, good, why := 0, 0, "none"
	for ; tries < fewTries || r.exchanges()-began < least; tries++ {
		res := try(tries)
		if res.TimedOut {
			t.Fatalf("%s: %v", what, res)
		}
		if res.Code == 0 {
			good++
		} else {
			why = lastWords(res.Stderr)
		}
		if now := r.look(t); !maps.Equal(now, r.before) {
			t.Fatalf("%s: outside of the workspace something changed at try %d: %v\n%v", what, tries+1, difference(r.before, now), res)
		}
	}
	n := r.exchanges() - began
	t.Logf("%s: %d exchanges, %d tries of which %d went through; last refused: %s", what, n, tries, good, why)
}

// lastWords returns the error of a command, or its last line.
func lastWords(stderr string) string {
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	for _, line := range lines {
		if strings.HasPrefix(line, "bothy: error: ") {
			return line
		}
	}
	return lines[len(lines)-1]
}

func difference(before, now map[string]string) (list []string) {
	for _, path := range slices.Sorted(maps.Keys(now)) {
		if before[path] != now[path] {
			list = append(list, fmt.Sprintf("%s: was %q, is %q", path, before[path], now[path]))
		}
	}
	for path := range before {
		if _, ok := now[path]; !ok {
			list = append(list, path+" is gone")
		}
	}
	return list
}

// TestExchangedPaths has a program inside exchange names with links while the host's side walks through
// them: files outside stay unchanged. D1, D2, D7.
func TestExchangedPaths(t *testing.T) {
	harness.Sweep(t, "races")
	harness.EachAlone(t, func(t *testing.T, c *harness.Caller) {
		r := startRace(t, c)
		r.starts(t)
		r.forks(t)
		r.copies(t)
		r.applies(t)
		r.restores(t)
		r.loops(t)
	})
}

// TestLinkedMountPoint puts a mount point behind a prepared link: to a directory of the host, and to one
// that is shared only with the sandbox that starts. The sandbox does not start, reports why, and makes
// nothing there. D1, D7.
func TestLinkedMountPoint(t *testing.T) {
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		r := &race{Caller: c, outside: filepath.Join(c.Base, "outside"), data: filepath.Join(c.Home, "data")}
		for _, dir := range []string{r.outside, r.data} {
			c.Mkdir(t, filepath.Join(dir, "sub"))
			c.Write(t, filepath.Join(dir, "cfg"), "")
		}
		c.Mkdir(t, r.vol())
		c.Write(t, filepath.Join(r.vol(), "file"), "file\n")
		for name, to := range map[string]string{"out": r.outside, "given": r.data, "up": "../data", "cfg": filepath.Join(r.data, "cfg")} {
			if err := os.Symlink(to, r.in(name)); err != nil {
				t.Fatal(err)
			}
			c.Own(t, r.in(name))
		}
		before := r.look(t)
		for _, how := range []string{
			"-v " + r.vol() + ":" + r.in("out/sub"), "-v " + r.vol() + ":" + r.in("given/sub"), "-v " + r.vol() + ":" + r.in("given/sub") + ":ro", "-v " + r.vol() + ":" + r.in("up/sub"),
			"-v " + r.vol() + "/file:" + r.in("given/cfg"), "-v " + r.vol() + "/file:" + r.in("cfg"), "--private given/new", "--private up",
		} {
			res := r.Run(slices.Concat([]string{"run", "--rm", "--name", "box", "-v", r.data}, strings.Fields(how), []string{"shell", r.Work, "--", "/bin/true"})...)
			if res.Code == 0 {
				t.Errorf("%s: %v", how, res)
			}
			if now := r.look(t); !maps.Equal(now, before) {
				t.Fatalf("%s: outside of the workspace something changed: %v", how, difference(before, now))
			}
		}
	})
}

// in returns a path of the workspace.
func (r *race) in(rel string) string { return filepath.Join(r.Work, rel) }

// starts mounts at and below the names that are exchanged.
func (r *race) starts(t *testing.T) {
	for _, how := range []string{
		"--private a/node1", "--private b/dir",
		"-v " + r.vol() + ":" + r.in("a/dir"), "-v " + r.vol() + ":" + r.in("b/dir") + ":ro", "-v " + r.vol() + "/file:" + r.in("a/file"),
	} {
		args := append(append([]string{"run", "--rm", "--name", "victim", "-v", r.data + ":/data"}, strings.Fields(how)...), "shell", r.Work, "--", "/bin/true")
		r.against(t, how, func(int) harness.Result { return r.Run(args...) })
	}
	r.against(t, "a reviewed workspace", func(int) harness.Result {
		defer r.Run("stop", "reviewed")
		return r.Run("exec", "reviewed", "/bin/true")
	})
}

// forks copies files reached through the names, and mounts at them.
func (r *race) forks(t *testing.T) {
	r.against(t, "fork", func(int) harness.Result {
		made := r.Run("fork", "--name", "copy", "forked")
		if made.Code != 0 {
			return made
		}
		defer r.Run("rm", "-f", "copy")
		return r.Run("exec", "copy", "/bin/true")
	})
}

// copies has cp write to the names on the host, and read from them.
func (r *race) copies(t *testing.T) {
	for _, to := range []string{"a/new", "a", "b/file"} {
		r.against(t, "cp to "+to, func(int) harness.Result { return r.Run("cp", "box:"+filepath.Join(r.other(), "new"), r.in(to)) })
	}
	r.against(t, "cp of a tree to b", func(int) harness.Result { return r.Run("cp", "box:"+filepath.Join(r.other(), "tree")+"/.", r.in("b")) })
	r.against(t, "cp from b/file", func(int) harness.Result {
		res := r.Run("cp", r.in("b/file"), "box:/tmp/in/file")
		if got := r.Sh("box", "", "cat /tmp/in/* 2>/dev/null"); strings.Contains(got.Stdout, "secret") {
			t.Errorf("a file that lies outside came in: %v", res)
		}
		return res
	})
}

// applies applies changes to the names.
func (r *race) applies(t *testing.T) {
	r.against(t, "apply", func(n int) harness.Result {
		_ = r.Sh("reviewed", "", fmt.Sprintf("mkdir -p a b/dir; echo %d | tee a/applied a/dir/applied b/dir/applied b/file > l/applied", n))
		return r.Run("apply", "reviewed", "--flagged")
	})
}

// restores puts files back at the names, and those of a private directory.
func (r *race) restores(t *testing.T) {
	r.against(t, "checkpoint create", func(int) harness.Result { return r.Run("checkpoint", "create", "restored") })
	r.against(t, "checkpoint restore", func(int) harness.Result { return r.Run("checkpoint", "restore", "-f", "restored", "1") })
}

// loops has a loop and a flow work in the workspace, and copy it for their gates.
func (r *race) loops(t *testing.T) {
	for _, workspace := range []string{"live", "review"} {
		r.against(t, "loop, "+workspace, func(int) harness.Result {
			defer r.Run("rm", "-f", "looped")
			return r.Run("loop", "run", "--workspace", workspace, "--name", "looped", "--agent", "worker", "--max-iterations", "1", "--until", "true", "do it", r.Work)
		})
	}
	r.against(t, "flow", func(int) harness.Result { return r.Run("flow", "run", "--rm", filepath.Join(r.Home, "raced.yaml")) })
}

// exchange exchanges names, A:B, for as long as it lives, and keeps count in a file.
func exchange(counter string, pairs []string) int {
	f, err := os.Create(counter)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	done := 0
	for n := 0; ; n++ {
		a, b, _ := strings.Cut(pairs[n/7%len(pairs)], ":") // an odd number, so that each name gets both states
		if unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE) == nil {
			done++
		}
		if n%64 == 0 {
			if _, err := f.WriteAt(fmt.Appendf(nil, "%d\n", done), 0); err != nil {
				return 1
			}
		}
	}
}
