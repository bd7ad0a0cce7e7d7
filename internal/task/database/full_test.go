package database

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/spec"
)

// TestFullDisk runs itself again in namespaces where it may mount a small file system.
func TestFullDisk(t *testing.T) {
	if dir := os.Getenv("BOTHY_TEST_TASKS_FULL"); dir != "" {
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=512k"); err != nil {
			t.Skipf("a small file system cannot be mounted here: %v", err)
		}
		testFullDisk(t, dir)
		return
	}
	again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFullDisk$", "-test.v")
	again.Env = append(os.Environ(), "BOTHY_TEST_TASKS_FULL="+t.TempDir())
	again.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := again.CombinedOutput()
	switch {
	case err != nil && !errors.As(err, new(*exec.ExitError)):
		t.Skipf("no user namespace here: %v", err)
	case err != nil:
		t.Errorf("%v\n%s", err, out)
	case bytes.Contains(out, []byte("--- SKIP")):
		t.Skipf("%s", out)
	}
}

// On a full disk a change is refused as a whole; what is there can be read, and goes on
// once there is room. So it is for who had the tasks open and for who comes then.
func testFullDisk(t *testing.T, dir string) {
	root := filepath.Join(dir, "tasks")
	ballast := filepath.Join(dir, "ballast")
	for _, fresh := range []bool{false, true} {
		b := begin(t, root, project)
		before := view(t, b).Len()
		add(t, b, map[bool]string{false: "bd-a", true: "bd-c"}[fresh])
		if fresh {
			b.Close()
		}
		if err := os.WriteFile(ballast, make([]byte, 1<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
			t.Fatalf("fill the disk: %v", err)
		}
		err := b.Change(t.Context(), adding("bd-large", strings.Repeat("x", 100<<10)))
		if err == nil || !strings.Contains(spec.Hint(err), "room on the disk") {
			t.Errorf("fresh %t: %v, %q", fresh, err, spec.Hint(err))
		}
		g, err := b.View(t.Context())
		if err != nil || g.Len() != before+1 {
			t.Errorf("fresh %t: it cannot be read: %v", fresh, err)
		}
		must(t, os.Remove(ballast))
		add(t, b, map[bool]string{false: "bd-b", true: "bd-d"}[fresh])
		if n := view(t, b).Len(); n != before+2 {
			t.Errorf("fresh %t: %d tasks", fresh, n)
		}
		b.Close()
	}
}
