// Package stage is a host on which a test may see everything. It has network and mount namespaces of its
// own, in which every address leads to the test itself. So all traffic that a keeper lets out, to any
// address, arrives and is seen, and none of it gets to the real network.
package stage

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/test/harness"
	"github.com/bothy-dev/bothy/test/netlink"
)

// playing is set to the name of the test that runs on a stage.
const playing = "BOTHY_TEST_STAGE"

// Resolver is the address of a stage's name server.
var Resolver = netip.MustParseAddr("10.53.53.53")

// On runs the test for every caller, one after the other, on a stage of
// its own: this test binary again, in new namespaces. Its TestMain calls Enter.
func On(t *testing.T, f func(t *testing.T, c *harness.Caller, s *Stage)) {
	t.Helper()
	if os.Getenv(playing) != t.Name() {
		t.Parallel()
		restart(t)
		return
	}
	s := newStage(t)
	harness.EachAlone(t, func(t *testing.T, c *harness.Caller) {
		s.Forget(t)
		f(t, c, s)
	})
}

// restart runs this test in its namespaces, and passes on its outcome.
func restart(t *testing.T, env ...string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := again(t.Context(), t, self, env...)
	runtime.LockOSThread() // its death sends the signal
	defer runtime.UnlockOSThread()
	out, err := cmd.CombinedOutput()
	text := string(out)
	switch {
	case err != nil:
		t.Fatalf("on its stage: %v\n%s", err, text)
	case !strings.Contains(text, "--- PASS: "+t.Name()):
		t.Fatalf("on its stage it did not run:\n%s", text)
	}
	for line := range strings.Lines(text) {
		if strings.Contains(line, "_test.go:") {
			t.Log(strings.TrimSpace(line))
		}
	}
}

// again prepares this test in new namespaces.
func again(ctx context.Context, t *testing.T, self string, env ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, self, entrance, "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout="+timeLeft(t).String())
	cmd.Env = append(append(os.Environ(), playing+"="+t.Name(), "BOTHY_TEST_BINARY="+harness.Binary()), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr = (&harness.Caller{UID: os.Geteuid(), GID: os.Getegid()}).Namespaced()
		cmd.SysProcAttr.Credential = nil
	}
	cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWNET | unix.CLONE_NEWNS
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	return cmd
}

// timeLeft is how long the test may take on its stage: as long as here, minus a moment to report its
// outcome.
func timeLeft(t *testing.T) time.Duration {
	end, limited := t.Deadline()
	if !limited {
		return 0
	}
	return max(time.Until(end)-10*time.Second, time.Second).Round(time.Second)
}

// entrance is the first argument of a test binary that is to become a test on a
// stage.
const entrance = "stage"

// Enter makes a stage, if this process was started for that, and becomes the test on it. Otherwise
// it returns.
func Enter() {
	if len(os.Args) > 1 && os.Args[1] == entrance {
		fmt.Println("cannot make a stage:", prepare(os.Args[2:]))
		os.Exit(1)
	}
}

// captureFD is the number of the capture socket in the program that a stage is made for.
const captureFD = 50

// prepare makes a stage of the namespaces in which this process is alone, and becomes the test.
func prepare(args []string) error {
	runtime.LockOSThread()
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts apart: %w", err)
	}
	if err := nameServer(); err != nil {
		return err
	}
	const lo = 1
	_ = os.WriteFile("/proc/sys/net/ipv6/conf/all/disable_ipv6", []byte("0"), 0) // whatever the host's setting is
	if err := netlink.SetLink(lo, true); err != nil {
		return fmt.Errorf("turn the loopback on: %w", err)
	}
	everywhere := []string{"0.0.0.0/0", "::/0"}
	if os.Getenv(side) == near { // no way out
		everywhere = nil
	}
	for _, all := range everywhere {
		if err := netlink.ChangeRoute(unix.RTM_NEWROUTE, lo, netip.MustParsePrefix(all), true); err != nil {
			return fmt.Errorf("lead %s to the test: %w", all, err)
		}
	}
	for _, a := range append(own, Resolver) {
		if err := netlink.ChangeAddress(unix.RTM_NEWADDR, lo, netip.PrefixFrom(a, a.BitLen())); err != nil {
			return fmt.Errorf("have the address %s: %w", a, err)
		}
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_unprivileged_port_start", []byte("0"), 0); err != nil {
		return err
	}
	fd, err := openCapture()
	if err != nil {
		return fmt.Errorf("see all packets: %w", err)
	}
	if err := unix.Dup3(fd, captureFD, 0); err != nil {
		return err
	}
	if os.Geteuid() != 0 { // from here on it is an ordinary user again
		if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
			return err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return syscall.Exec(self, append([]string{self}, args...), os.Environ())
}

// own are addresses that the stage has like a host: of a network behind a router, and of the internet.
var own = []netip.Addr{
	netip.MustParseAddr("192.168.7.7"), netip.MustParseAddr("93.184.216.7"), netip.MustParseAddr("2606:2800:220:1::7"), netip.MustParseAddr("fd12:3456::7"),
}

// nameServer points the host's resolver to the stage's.
func nameServer() error {
	dir, err := os.MkdirTemp("", "bothy-stage-")
	if err != nil {
		return err
	}
	defer os.Remove(dir)
	if err := unix.Mount("stage", dir, "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("make a directory of the stage's own: %w", err)
	}
	file := filepath.Join(dir, "resolv.conf")
	text := "nameserver " + Resolver.String() + "\noptions timeout:1 attempts:4\n"
	err = os.WriteFile(file, []byte(text), 0o644)
	if err == nil {
		err = os.Chmod(file, 0o644)
	}
	if err == nil {
		err = unix.Mount(file, "/etc/resolv.conf", "", unix.MS_BIND, "")
	}
	return errors.Join(err, unix.Unmount(dir, unix.MNT_DETACH))
}

// Stage is the test's access to its own stage.
type Stage struct {
	*Capture
	*Outside
}

func newStage(t *testing.T) *Stage {
	t.Helper()
	return &Stage{Capture: newCapture(t), Outside: newOutside(t)}
}
