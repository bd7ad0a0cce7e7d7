package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/spec"
)

func TestRemoveRefusesWhatIsNotAGroup(t *testing.T) {
	f := newFake(t)
	v1Root(f)
	const name = "bothy-" + testID
	outside := f.path("home/" + name)
	if err := os.MkdirAll(outside, 0o755); err != nil {
		t.Fatal(err)
	}
	memory := f.path("cg/memory")
	if err := f.mkdir(filepath.Join(memory, "bothy-xyz")); err != nil {
		t.Fatal(err)
	}
	// A file system of another kind over a part of the tree.
	covered := filepath.Join(memory, "covered")
	f.file("proc/self/mountinfo", "9 2 0:9 / "+covered+" rw - tmpfs tmpfs rw\n")
	for _, path := range []string{
		"/", "x", ":", name,
		outside,
		memory,
		memory + "/session",
		memory + "/bothy-xyz",
		memory + "/../../home/" + name,
		memory + "/session/../" + name,
		memory + "/" + name + "/",
		memory + "/" + name + "\x00",
		covered + "/" + name,
		memory + "-other/" + name,
		memory + "/" + name + ":" + outside,
		outside + ":" + memory + "/" + name,
	} {
		if err := f.host().removePath(path); err == nil {
			t.Errorf("remove %q was not refused", path)
		}
		if err := f.host().killPath(path); err == nil {
			t.Errorf("kill %q was not refused", path)
		}
	}
	for _, dir := range []string{outside, memory + "/bothy-xyz", memory + "/session/one"} {
		if !isDir(dir) {
			t.Errorf("%s is gone", f.rel(dir))
		}
	}
}

func FuzzCheck(fz *testing.F) {
	fz.Add("/sys/fs/cgroup/memory/bothy-" + testID)
	fz.Add("/sys/fs/cgroup/memory/bothy-" + testID + ":/sys/fs/cgroup/cpu/bothy-" + testID)
	fz.Add("/sys/fs/cgroup/memory/../../../bothy-" + testID)
	fz.Add("/home/bothy-" + testID)
	h := thisHost()
	mounts, err := h.mounts()
	if err != nil {
		fz.Skip(err)
	}
	fz.Fuzz(func(t *testing.T, path string) {
		dirs, err := h.checkPath(path)
		if err != nil {
			return
		}
		for _, dir := range dirs {
			kind := view{mounts: mounts}.mountOver(dir).kind
			if !isName(filepath.Base(dir)) || filepath.Clean(dir) != dir || !strings.HasPrefix(kind, "cgroup") {
				t.Errorf("%q passed as part of %q", dir, path)
			}
		}
	})
}

func TestRemoveWaitsOnceForAllDirectories(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		v1Root(f)
		g, _, err := f.host().create(testID, all, spec.Limits{}, unnoted)
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Add(77); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if err := g.Remove(); !errors.Is(err, unix.EBUSY) {
			t.Errorf("error %v, want EBUSY", err)
		}
		if took := time.Since(start); took > f.host().patience+pause {
			t.Errorf("took %v", took)
		}
	})
}

func TestRemoveLeavesTheHomeOfOthers(t *testing.T) {
	f := newFake(t)
	v2Plain(f)
	one, _, err := f.host().create(testID, all, spec.Limits{}, unnoted)
	if err != nil {
		t.Fatal(err)
	}
	two, _, err := f.host().create("ba9876543210", all, spec.Limits{}, unnoted)
	if err != nil {
		t.Fatal(err)
	}
	if err := one.Remove(); err != nil {
		t.Error(err)
	}
	if _, limit, err := two.Memory(); err != nil || limit != all.Memory {
		t.Errorf("the other sandbox has the limit %d, error %v", limit, err)
	}
	if err := two.Remove(); err != nil {
		t.Error(err)
	}
	if left := f.leftovers(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestKillSparesTheCaller(t *testing.T) {
	f := newFake(t)
	v1Root(f)
	g, _, err := f.host().create(testID, all, spec.Limits{}, unnoted)
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range []int{77, callerPID} {
		if err := g.Add(pid); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.host().killPath(g.Path()); err == nil || !strings.Contains(err.Error(), "the caller is in it") {
		t.Errorf("error %v", err)
	}
	if pids, _ := g.Procs(); !slices.Equal(pids, []int{77, callerPID}) {
		t.Errorf("processes %v", pids)
	}
}

func TestKillForbidsNewProcessesFirst(t *testing.T) {
	f := newFake(t)
	v1Root(f)
	g, _, err := f.host().create(testID, all, spec.Limits{}, unnoted)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Add(77); err != nil {
		t.Fatal(err)
	}
	if err := f.host().killPath(g.Path()); err != nil {
		t.Fatal(err)
	}
	if got := fields(g.dirWith("pids.max"), "pids.max"); got[0] != "0" {
		t.Errorf("pids.max is %s", got)
	}
}
