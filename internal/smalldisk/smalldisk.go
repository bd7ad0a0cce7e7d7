// Package smalldisk provides tests with a file system that fills up quickly.
package smalldisk

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// place is set when a test runs again. It is the mount point of the test's file system.
const place = "BOTHY_TEST_SMALL_DISK"

// Test calls a test with a directory on a file system of its own, of the given size. The size is as for
// tmpfs: "64k". For that the calling test, which must not be a subtest, runs again in namespaces where
// it may mount one. It is skipped if namespaces are not available.
func Test(t *testing.T, size string, test func(t *testing.T, dir string)) {
	t.Helper()
	if dir := os.Getenv(place); dir != "" {
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
			t.Skipf("a small file system cannot be mounted here: %v", err)
		}
		test(t, dir)
		return
	}
	again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	again.Env = append(os.Environ(), place+"="+t.TempDir())
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
	default:
		t.Logf("%s", out)
	}
}
