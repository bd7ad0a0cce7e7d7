package hostpath

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMountsToCover checks the mounts found below a directory: visible views of the kernel, and a
// directory at other paths.
func TestMountsToCover(t *testing.T) {
	if os.Getenv("BOTHY_TEST_COVER") == "" {
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestMountsToCover$", "-test.v")
		cmd.Env = append(os.Environ(), "BOTHY_TEST_COVER=1")
		cmd.SysProcAttr = ownMounts()
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWPID
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	must(t, unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""))
	base := t.TempDir()
	dir, secret := filepath.Join(base, "dir"), filepath.Join(base, "above", "secret")
	for _, d := range []string{"alias", "part", "up", "proc", "over/proc", "mem", "other"} {
		must(t, os.MkdirAll(filepath.Join(dir, d), 0o755))
	}
	must(t, os.MkdirAll(filepath.Join(secret, "in"), 0o755))
	must(t, os.MkdirAll(filepath.Join(base, "above", "other"), 0o755))
	mount := func(source, at, kind string, flags uintptr) {
		t.Helper()
		at = filepath.Join(dir, at)
		must(t, unix.Mount(source, at, kind, flags, ""))
		t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
	}
	mount(secret, "alias", "", unix.MS_BIND)
	mount(secret+"/in", "part", "", unix.MS_BIND)
	mount(base+"/above", "up", "", unix.MS_BIND)
	mount(base+"/above/other", "other", "", unix.MS_BIND)
	mount("proc", "proc", "proc", 0)
	mount("proc", "over/proc", "proc", 0)
	mount("none", "over", "tmpfs", 0)
	mount("none", "mem", "tmpfs", 0)
	got, err := MountsToCover(dir, secret)
	must(t, err)
	want := []string{dir + "/alias", dir + "/part", dir + "/proc", dir + "/up/secret"}
	if !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
	if got, err = MountsToCover(dir, ""); err != nil || !slices.Equal(got, []string{dir + "/proc"}) {
		t.Errorf("without a secret directory: %q, %v", got, err)
	}
	if got, err = MountsToCover(base+"/above", secret); err != nil || len(got) != 0 {
		t.Errorf("at its own path: %q, %v", got, err)
	}
}
