package faults

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/test/harness"
)

// within runs bothy through a program that first takes something away from it.
func within(t *testing.T, c *harness.Caller, before []string, args ...string) harness.Result {
	t.Helper()
	words := append(append(before, harness.Binary()), args...)
	cmd := exec.CommandContext(t.Context(), words[0], words[1:]...)
	cmd.Env, cmd.Dir = c.Environment(), c.Home
	return harness.Finish(t.Context(), cmd, args)
}

// TestRunningInReadOnlyState gives commands a read-only state directory: a running sandbox is shown as
// running, and each impossible command reports why.
func TestRunningInReadOnlyState(t *testing.T) {
	c := harness.New(t, harness.Callers()[0])
	if c.UID != 0 {
		t.Skip("only root can mount it so")
	}
	c.Must(t, "run", "-d", "--name", "box", "shell", c.Work, "--", "sleep", "1000")
	before := []string{"unshare", "-m", "sh", "-c", "mount --bind " + c.State + " " + c.State + " && mount -o remount,bind,ro " + c.State + ` && exec "$0" "$@"`}
	if r := within(t, c, before, "ls"); r.Code != 0 || !strings.Contains(r.Stdout, "running") {
		t.Errorf("it runs: %v", r)
	}
	for _, args := range [][]string{{"stop", "box"}, {"rm", "-f", "box"}} {
		r := within(t, c, before, args...)
		if r.Code == 0 || !strings.Contains(r.Stderr, "remount,rw") {
			t.Errorf("it does not say what to do: %v", r)
		}
		understood(t, r)
	}
	c.Must(t, "exec", "box", "true")
}

// TestRootWithoutSysAdmin makes root lack the capability, as in a container: doctor reports that.
func TestRootWithoutSysAdmin(t *testing.T) {
	c := harness.New(t, harness.Callers()[0])
	if c.UID != 0 {
		t.Skip("this is about root")
	}
	r := within(t, c, []string{"setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin"}, "doctor")
	if r.Code != 1 || !strings.Contains(r.Stdout, "CAP_SYS_ADMIN") {
		t.Errorf("doctor: %v", r)
	}
}
