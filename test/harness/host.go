package harness

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Process is a process of the host.
type Process struct {
	PID, PPID int
	State     byte // as in /proc/PID/stat
	Args      []string
}

// Processes lists the processes of the host.
func Processes() []Process {
	entries, _ := os.ReadDir("/proc")
	var list []Process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, ok := readProcess(pid); ok {
			list = append(list, p)
		}
	}
	return list
}

func readProcess(pid int) (Process, bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Process{}, false
	}
	p := Process{PID: pid}
	rest := string(stat[strings.LastIndexByte(string(stat), ')')+2:])
	if _, err := fmt.Sscanf(rest, "%c %d", &p.State, &p.PPID); err != nil {
		return Process{}, false
	}
	cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	p.Args = strings.Split(strings.TrimRight(string(cmdline), "\x00"), "\x00")
	return p, true
}

// Machine is the host's processes of one running sandbox.
type Machine struct{ Keeper, Sentry, Gofer int }

// Machine finds the processes of a running sandbox.
func (c *Caller) Machine(t testing.TB, name string) Machine {
	t.Helper()
	m := Machine{Keeper: c.Inspect(t, name).Status.KeeperPID}
	for _, p := range Processes() {
		if p.PPID != m.Keeper {
			continue
		}
		switch p.Args[0] {
		case "runsc-sandbox":
			m.Sentry = p.PID
		case "runsc-gofer":
			m.Gofer = p.PID
		}
	}
	if m.Keeper <= 1 || m.Sentry == 0 || m.Gofer == 0 {
		t.Fatalf("cannot find the processes of %s: %+v", name, m)
	}
	return m
}

// Keepers returns the pids of all keepers of the caller, with the ids of their sandboxes.
func (c *Caller) Keepers() map[int]string {
	found := map[int]string{}
	for _, p := range Processes() {
		if len(p.Args) == 2 && p.Args[0] == "bothy-keeper" && strings.HasPrefix(p.Args[1], c.State+"/") && p.State != 'Z' {
			found[p.PID] = filepath.Base(p.Args[1])
		}
	}
	return found
}

// Running lists the processes that use the caller's state directory: by their arguments, or by the
// mounts that they see.
func (c *Caller) Running() []Process {
	var list []Process
	for _, p := range Processes() {
		if p.PID == os.Getpid() || p.State == 'Z' {
			continue
		}
		if strings.Contains(strings.Join(p.Args, " "), c.State) || mentions(fmt.Sprintf("/proc/%d/mountinfo", p.PID), c.State) {
			list = append(list, p)
		}
	}
	return list
}

func mentions(file, text string) bool {
	b, err := os.ReadFile(file)
	return err == nil && strings.Contains(string(b), text)
}

// KillAll kills all processes of the caller's sandboxes.
func (c *Caller) KillAll() {
	Comes(Moment, func() bool {
		list := c.Running()
		for _, p := range list {
			_ = syscall.Kill(p.PID, syscall.SIGKILL)
		}
		return len(list) == 0
	})
}

// noteIDs remembers the sandboxes that exist.
func (c *Caller) noteIDs() {
	entries, _ := os.ReadDir(filepath.Join(c.State, "sandboxes"))
	for _, e := range entries {
		if len(e.Name()) == 12 {
			c.ids[e.Name()] = true
		}
	}
}

// NothingLeft reports every process, mount and cgroup of the caller's sandboxes. Processes that are just
// dying get a moment.
func (c *Caller) NothingLeft(t testing.TB) {
	t.Helper()
	c.noteIDs()
	var procs []Process
	Comes(Moment, func() bool {
		procs = c.Running()
		return len(procs) == 0
	})
	for _, p := range procs {
		t.Errorf("left behind: process %d (parent %d, state %c): %q", p.PID, p.PPID, p.State, p.Args)
	}
	if mentions("/proc/self/mountinfo", c.Base) {
		t.Errorf("left behind: a mount below %s", c.Base)
	}
	for _, dir := range c.Cgroups() {
		t.Errorf("left behind: cgroup %s", dir)
	}
}

// Cgroups lists the cgroups of the caller's sandboxes, past and present.
func (c *Caller) Cgroups() []string {
	var list []string
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && c.ids[strings.TrimPrefix(d.Name(), "bothy-")] {
			list = append(list, path)
		}
		return nil
	})
	return list
}

// TidyState reports every file in the state directory that does not belong to a sandbox and is not meant
// to stay.
func (c *Caller) TidyState(t testing.TB) {
	t.Helper()
	entries, _ := os.ReadDir(c.State)
	for _, e := range entries {
		if !slices.Contains([]string{".bothy", "sandboxes", "cache", "secrets", "names.lock", "written.json", "written.lock"}, e.Name()) {
			t.Errorf("left behind: %s", filepath.Join(c.State, e.Name()))
		}
	}
	entries, _ = os.ReadDir(filepath.Join(c.State, "sandboxes"))
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			t.Errorf("left behind: %s", filepath.Join(c.State, "sandboxes", e.Name()))
		}
	}
	for _, pattern := range []string{"*/.tmp-*", "*/layers/.root-*", "*/.control.sock"} {
		found, _ := filepath.Glob(filepath.Join(c.State, "sandboxes", pattern))
		for _, f := range found {
			t.Errorf("left behind: %s", f)
		}
	}
	entries, _ = os.ReadDir(filepath.Join(c.State, "cache"))
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			t.Errorf("left behind: %s", filepath.Join(c.State, "cache", e.Name()))
		}
	}
}

// Tree lists the first few names below a directory, for a message.
func Tree(dir string) []string {
	var list []string
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() && filepath.Base(filepath.Dir(path)) == "cache" {
			return fs.SkipDir // a copy of /etc
		}
		if list = append(list, path); len(list) > 60 {
			return fs.SkipAll
		}
		return nil
	})
	return list
}

// Status reads one field of /proc/PID/status.
func Status(pid int, field string) string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

// Alive reports whether a process lives and is not a zombie.
func Alive(pid int) bool {
	p, ok := readProcess(pid)
	return ok && p.State != 'Z' && p.State != 'X'
}
