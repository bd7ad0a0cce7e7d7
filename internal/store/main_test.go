package store

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// role is set where this binary is started again as a process to be killed.
const role = "BOTHY_TEST_STORE_ROLE"

func TestMain(m *testing.M) {
	if r := os.Getenv(role); r != "" {
		if err := roles[r](os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// again returns a command that runs this binary in another role.
func again(t testing.TB, r string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), role+"="+r)
	cmd.Stderr = os.Stderr
	return cmd
}

// ordinary makes a command run as an ordinary user, even if the test runs as root.
func ordinary(cmd *exec.Cmd) *exec.Cmd {
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinaryID, Gid: ordinaryID}}
	}
	return cmd
}

const ordinaryID = 54321

// ordinaryDir returns a directory that the ordinary user can fill.
func ordinaryDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o755))
	if os.Geteuid() == 0 {
		must(t, os.Chown(dir, ordinaryID, ordinaryID))
	}
	// The ordinary user must reach it.
	for p := dir; len(p) > len(os.TempDir()); p = p[:strings.LastIndexByte(p, '/')] {
		must(t, os.Chmod(p, 0o755))
	}
	return dir
}

// onFullDisk returns a command whose first argument is replaced by a small file system, in its own mount
// namespace. It skips the test if none can be made.
func onFullDisk(t testing.TB, r string) *exec.Cmd {
	t.Helper()
	cmd := again(t, r, t.TempDir())
	uid, gid := os.Geteuid(), os.Getegid()
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: gid, Size: 1}},
	}
	return cmd
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
