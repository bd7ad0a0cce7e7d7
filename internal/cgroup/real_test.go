package cgroup

import (
	"bufio"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// The tests in this file use the host they run on. If it does not allow something, they skip and print
// the reason.

// role makes the test binary a process to be limited: see child.
const role = "CGROUP_TEST_ROLE"

func TestMain(m *testing.M) {
	if r := os.Getenv(role); r != "" {
		child(r)
	}
	os.Exit(m.Run())
}

// child waits for a byte, so that it is in its group by then, and plays its role.
func child(role string) {
	in := bufio.NewReader(os.Stdin)
	in.ReadByte()
	switch role {
	case "eat": // 256 MiB
		for range 256 {
			b := make([]byte, 1<<20)
			for i := range b {
				b[i] = 1
			}
			kept = append(kept, b)
		}
	case "spin":
		for { // until it is killed
			kept = nil
		}
	case "wait":
		in.ReadByte()
	case "keeper":
		keeper(in)
	}
	os.Exit(0)
}

var kept [][]byte

// start runs a child of the test in a role. It ends with the test at the latest.
func start(t *testing.T, as string) (cmd *exec.Cmd, in io.WriteCloser) {
	t.Helper()
	return startIn(t, as, nil)
}

// startIn is start with attributes. It skips the test if they are not allowed.
func startIn(t *testing.T, as string, attr *syscall.SysProcAttr) (cmd *exec.Cmd, in io.WriteCloser) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd = exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), role+"="+as)
	if in, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	cmd.SysProcAttr, cmd.Stderr = attr, os.Stderr
	if err := cmd.Start(); attr != nil && errors.Is(err, syscall.EPERM) {
		t.Skipf("this user may not have namespaces: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd, in
}

func randomID() string {
	b := make([]byte, 6)
	rand.Read(b)
	return hex.EncodeToString(b)
}

// newGroup creates a group on this host, or skips the test.
func newGroup(t *testing.T, asked spec.Limits) *Group {
	t.Helper()
	g, report, err := Create(randomID(), asked, spec.Limits{}, unnoted)
	if errors.Is(err, spec.ErrSandbox) {
		t.Skipf("this host does not let this user set limits: %v (%s)", err, spec.Hint(err))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Remove(); err != nil {
			t.Errorf("remove: %v", err)
		}
	})
	for _, e := range report {
		if !e.Enforced {
			t.Errorf("asked for and not enforced: %+v", e)
		}
	}
	t.Logf("group %s", g.Path())
	return g
}

// finish ends a child and waits for it.
func finish(cmd *exec.Cmd) error {
	cmd.Process.Kill()
	return cmd.Wait()
}

func TestRealSupport(t *testing.T) {
	for _, c := range Support() {
		t.Logf("%+v", c)
		asked := map[string]spec.Limits{"cpu": {CPUs: 1}, "memory": {Memory: 1 << 30}}[c.Name]
		if asked == (spec.Limits{}) {
			continue
		}
		g, _, err := Create(randomID(), asked, spec.Limits{}, unnoted)
		if (err == nil) != c.Enforceable {
			t.Errorf("Support says %+v, Create says %v", c, err)
		}
		if err == nil {
			if err := g.Remove(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestRealDefaults checks that a user who may not set limits still gets a sandbox, and a report.
func TestRealDefaults(t *testing.T) {
	g, report, err := Create(randomID(), spec.Limits{}, all, unnoted)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Remove()
	t.Logf("path %q, report %+v", g.Path(), report)
	if len(report) != 2 {
		t.Fatalf("report %+v", report)
	}
	for _, e := range report {
		if e.Enforced == (e.By == "") || !e.Enforced && e.Reason == "" {
			t.Errorf("%+v", e)
		}
	}
}

func TestRealMembers(t *testing.T) {
	g := newGroup(t, spec.Limits{CPUs: 1, Memory: 128 << 20})
	cmd := exec.CommandContext(t.Context(), "sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer finish(cmd)
	if err := g.Add(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	again := Open(g.Path())
	pids, err := again.Procs()
	if err != nil || !slices.Equal(pids, []int{cmd.Process.Pid}) {
		t.Errorf("Procs() = %v, %v, want %d", pids, err, cmd.Process.Pid)
	}
	current, limit, err := again.Memory()
	if err != nil || limit != 128<<20 || current < 0 || current > limit {
		t.Errorf("Memory() = %d, %d, %v", current, limit, err)
	}
	if events, err := again.Events(); err != nil || events != (Events{}) {
		t.Errorf("Events() = %+v, %v", events, err)
	}
	if err := Remove(g.Path()); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("Remove of an inhabited group: %v, want EBUSY", err)
	}
	if err := Kill(g.Path()); err != nil {
		t.Error(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("the member ended with %v, want SIGKILL", err)
	}
	if err := Remove(g.Path()); err != nil {
		t.Error(err)
	}
	for _, dir := range g.dirs {
		if isDir(dir) {
			t.Errorf("%s is still there", dir)
		}
	}
	if err := Remove(g.Path()); err != nil {
		t.Errorf("second removal: %v", err)
	}
}

func TestRealOutOfMemory(t *testing.T) {
	g := newGroup(t, spec.Limits{Memory: 64 << 20})
	cmd, in := start(t, "eat")
	if err := g.Add(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	io.WriteString(in, "x")
	if err := cmd.Wait(); err == nil {
		t.Error("the child took four times what it may")
	}
	events, err := g.Events()
	if err != nil || events.OOMKills < 1 {
		t.Errorf("Events() = %+v, %v, want an OOM kill", events, err)
	}
}

func TestRealQuota(t *testing.T) {
	g := newGroup(t, spec.Limits{CPUs: 0.05})
	cmd, in := start(t, "spin")
	if err := g.Add(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	io.WriteString(in, "x")
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		stat, err := readCounts(g.dirWith("cpu.stat"), "cpu.stat")
		if err == nil && stat["nr_throttled"] > 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("cpu.stat %v, %v: never throttled", stat, err)
		}
	}
}

func TestRealPidsCap(t *testing.T) {
	g := newGroup(t, spec.Limits{Memory: 128 << 20, Pids: 10})
	dir := g.dirWith("pids.max")
	if dir == "" {
		t.Skip("this host does not let this user cap processes")
	}
	if got := fields(dir, "pids.max")[0]; got != "1064" {
		t.Errorf("pids.max is %s, want 1064", got)
	}
	if err := (linux{}).write(filepath.Join(dir, "pids.max"), "1"); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "read line; (true); (true)")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer finish(cmd)
	if err := g.Add(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	io.WriteString(in, "go\n")
	if err := cmd.Wait(); err == nil {
		t.Error("the shell could start a process")
	}
	if events, err := g.Events(); err != nil || events.PidsDenied < 1 {
		t.Errorf("Events() = %+v, %v, want a denied process", events, err)
	}
}

// TestRealLeftover checks that a leftover is replaced once it is empty, and not before.
func TestRealLeftover(t *testing.T) {
	id := randomID()
	g, _, err := Create(id, spec.Limits{}, all, unnoted)
	if err != nil {
		t.Fatal(err)
	}
	if g.Path() == "" {
		t.Skipf("this host does not let this user have groups: %+v", Support())
	}
	cmd, _ := start(t, "wait")
	if err := g.Add(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Create(id, spec.Limits{}, all, unnoted); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("over living processes: %v, want a conflict", err)
	}
	if err := Kill(g.Path()); err != nil {
		t.Fatal(err)
	}
	again, _, err := Create(id, spec.Limits{}, all, unnoted)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Remove(); err != nil {
		t.Error(err)
	}
}

func TestRealKillLeavesOthersAlone(t *testing.T) {
	g := newGroup(t, spec.Limits{Memory: 128 << 20})
	inside, _ := start(t, "wait")
	outside, _ := start(t, "wait")
	if err := g.Add(inside.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if err := Kill(g.Path()); err != nil {
		t.Fatal(err)
	}
	if err := inside.Wait(); err == nil {
		t.Error("the member lives")
	}
	if err := outside.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the other process: %v", err)
	}
}

// TestRealUnified uses any controller that this host's cgroup v2 has, because on a hybrid
// machine cpu and memory are elsewhere.
func TestRealUnified(t *testing.T) {
	h := thisHost()
	v, err := h.readView()
	if err != nil {
		t.Skip(err)
	}
	own, top := v.ownGroupV2()
	if own == "" {
		t.Skip("no cgroup v2 here")
	}
	var p place
	var controller string
	for _, c := range fields(own, "cgroup.controllers") {
		if found := h.placeV2(v, []string{c})[c]; found.parent != "" {
			p, controller = found, c
		} else {
			t.Logf("%s: %s", c, found.reason)
		}
	}
	if controller == "" {
		t.Skipf("cgroup %s has nothing to hand on for this user", own)
	}
	restoreControl(t, p.parent, controller)
	dir := filepath.Join(h.groupHome(p), prefix+randomID())
	if err := h.makeDir(p, dir); err != nil {
		t.Fatal(err)
	}
	g := &Group{host: h, dirs: []string{dir}}
	if err := h.handOn(p, controller); err != nil {
		t.Error(err)
	}
	if got := fields(dir, "cgroup.controllers"); !slices.Contains(got, controller) {
		t.Errorf("the group has %v, want %s (in %s, top %s)", got, controller, p.parent, top)
	}
	if err := h.kernel.write(filepath.Join(p.parent, "cgroup.subtree_control"), "-"+controller); err == nil {
		t.Error("the controller could be taken away above the group")
	}
	cmd, _ := start(t, "wait")
	if err := g.Add(cmd.Process.Pid); err != nil {
		t.Error(err)
	}
	if pids, err := g.Procs(); err != nil || !slices.Equal(pids, []int{cmd.Process.Pid}) {
		t.Errorf("Procs() = %v, %v", pids, err)
	}
	if err := Remove(g.Path()); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("Remove of an inhabited group: %v, want EBUSY", err)
	}
	if err := Kill(g.Path()); err != nil {
		t.Error(err)
	}
	if err := Remove(g.Path()); err != nil {
		t.Error(err)
	}
	if isDir(h.groupHome(p)) && len(children(h.groupHome(p))) == 0 {
		t.Errorf("%s is still there", h.groupHome(p))
	}
}

// restoreControl restores at the end whether a group hands on a controller.
func restoreControl(t *testing.T, dir, controller string) {
	if slices.Contains(fields(dir, "cgroup.subtree_control"), controller) {
		return
	}
	t.Cleanup(func() {
		linux{}.write(filepath.Join(dir, "cgroup.subtree_control"), "-"+controller)
	})
}

// TestRealKeeperNamespace checks a keeper that uses the group from its own user and mount
// namespace. The creator is not root there even if it was.
func TestRealKeeperNamespace(t *testing.T) {
	g := newGroup(t, spec.Limits{Memory: 128 << 20})
	cmd, in := startIn(t, "keeper", &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 1000, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 1000, HostID: os.Getgid(), Size: 1}},
	})
	member, _ := start(t, "wait")
	fmt.Fprintf(in, "x%s\n%d\n", g.Path(), member.Process.Pid)
	if err := cmd.Wait(); err != nil {
		t.Errorf("the keeper: %v", err)
	}
	if pids, err := g.Procs(); err != nil || !slices.Equal(pids, []int{member.Process.Pid}) {
		t.Errorf("Procs() = %v, %v, want %d", pids, err, member.Process.Pid)
	}
	if err := Kill(g.Path()); err != nil {
		t.Error(err)
	}
}

// keeper reads a group and a process to put into it.
func keeper(in *bufio.Reader) {
	path, _ := in.ReadString('\n')
	line, _ := in.ReadString('\n')
	pid, _ := strconv.Atoi(strings.TrimSpace(line))
	g := Open(strings.TrimSpace(path))
	_, limit, merr := g.Memory()
	_, eerr := g.Events()
	if err := errors.Join(merr, eerr, g.Add(pid)); err != nil || limit != 128<<20 {
		fmt.Fprintf(os.Stderr, "in the namespace: limit %d, %v\n", limit, err)
		os.Exit(1)
	}
}
