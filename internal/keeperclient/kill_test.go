package keeperclient

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/bothy-dev/bothy/internal/keeper"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// TestKillKeeperOfAnotherUser checks that a process of another user is not taken for the caller's
// keeper, whatever its command line says.
func TestKillKeeperOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start a process of another user")
	}
	d := store.Sandbox{Dir: "10000"} // the argument of sleep
	other := exec.CommandContext(t.Context(), "/bin/sleep")
	other.Args = []string{keeper.Argv0, d.Dir}
	other.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 12345, Gid: 12345}}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	killed, err := killKeeper(d)
	if killed || err != nil {
		t.Errorf("it was taken for a keeper: %v, %v", killed, err)
	}
	_ = other.Process.Kill()
	_ = other.Wait()
}

// TestKillKeeper checks that a keeper is known by its command line, whatever the status says.
func TestKillKeeper(t *testing.T) {
	k, sb := newKeepers(t)
	d := k.Store.Sandbox(sb.ID)
	for _, pid := range []int{0, 1, -1, os.Getpid(), os.Getppid(), 1 << 30} {
		must(t, store.WriteJSON(d.Status(), spec.Status{State: spec.Running, KeeperPID: pid}))
		if killed, err := killKeeper(d); killed || err != nil {
			t.Errorf("process %d: %v, %v", pid, killed, err)
		}
	}
	must(t, os.WriteFile(d.Status(), nil, 0o600))
	hung := exec.CommandContext(t.Context(), "/proc/self/exe")
	hung.Args = []string{keeper.Argv0, d.Dir}
	stdin, err := hung.StdinPipe()
	must(t, err)
	defer stdin.Close()
	must(t, hung.Start())
	if killed, err := killKeeper(store.Sandbox{Dir: d.Dir + "0"}); killed || err != nil {
		t.Errorf("that of another sandbox: %v, %v", killed, err)
	}
	if killed, err := killKeeper(d); !killed || err != nil {
		t.Errorf("a keeper that hangs: %v, %v", killed, err)
	}
	_ = hung.Wait()
	if ws := hung.ProcessState.Sys().(syscall.WaitStatus); ws.Signal() != syscall.SIGKILL {
		t.Errorf("it ended by %v", ws)
	}
}
