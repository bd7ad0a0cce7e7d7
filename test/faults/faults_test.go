package faults

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/test/harness"
)

// TestMain also runs the helper that works in another mount namespace.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "fault-helper" {
		fmt.Fprintln(os.Stderr, helper(os.Args[2:]))
		os.Exit(99)
	}
	os.Exit(harness.Main(m))
}

// seed makes a run repeatable: BOTHY_FAULT_SEED sets it, failures show it.
func seed(t *testing.T) *rand.Rand {
	t.Helper()
	return seedOr(t, uint64(time.Now().UnixNano()))
}

// seedOr uses the seed n, unless BOTHY_FAULT_SEED is set.
func seedOr(t *testing.T, n uint64) *rand.Rand {
	t.Helper()
	if s := os.Getenv("BOTHY_FAULT_SEED"); s != "" {
		var err error
		if n, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("BOTHY_FAULT_SEED=%d", n)
	return rand.New(rand.NewPCG(n, n))
}

// Victims of a fault.
const (
	theCommand = "command"
	theKeeper  = "keeper"
	theSentry  = "sentry"
	theGofer   = "gofer"
)

var victims = []string{theCommand, theKeeper, theSentry, theGofer}

// find returns the pid of a victim that runs right now, or 0.
func find(c *harness.Caller, victim string, cmd *exec.Cmd) int {
	if victim == theCommand {
		return cmd.Process.Pid
	}
	want := map[string]string{theSentry: "runsc-sandbox", theGofer: "runsc-gofer"}[victim]
	for _, p := range harness.Processes() {
		if p.State == 'Z' || len(p.Args) < 2 || !strings.Contains(strings.Join(p.Args, " "), c.State+"/") {
			continue
		}
		if victim == theKeeper && p.Args[0] == "bothy-keeper" || want != "" && p.Args[0] == want {
			return p.PID
		}
	}
	return 0
}

// strike runs a bothy command, and kills the victim at the given moment or as soon as it exists. It
// reports whether it struck before the command ended.
func strike(t *testing.T, c *harness.Caller, victim string, when func() bool, args ...string) (harness.Result, bool) {
	t.Helper()
	ctx := t.Context()
	cmd := c.Command(ctx, args...)
	done := make(chan harness.Result, 1)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	began := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = cmd.Wait()
		done <- harness.Result{Args: args, Code: cmd.ProcessState.ExitCode(), Stdout: out.String(), Stderr: errs.String(), Took: time.Since(began)}
	}()
	limit := time.After(harness.Timeout)
	struck := false
	for {
		select {
		case r := <-done:
			return r, struck
		case <-limit:
			t.Fatalf("bothy %q hangs after the %s was killed", args, victim)
		case <-time.After(200 * time.Microsecond):
		}
		if struck || !when() {
			continue
		}
		if pid := find(c, victim, cmd); pid != 0 {
			struck = syscall.Kill(pid, syscall.SIGKILL) == nil
		}
	}
}

// after returns a moment some time from now.
func after(d time.Duration) func() bool {
	end := time.Now().Add(d)
	return func() bool { return time.Now().After(end) }
}

// explained reports a result that is neither a success, nor the end of a program by a stop that reports
// itself, nor an error that a person understands. A kill damages nothing: no saved layer may be blamed.
func explained(t *testing.T, r harness.Result) {
	t.Helper()
	if r.Code == 0 || r.Code == 128+15 && strings.Contains(r.Stderr, "the sandbox is being stopped") {
		return
	}
	if r.TimedOut || !strings.Contains(r.Stderr, "bothy: error: ") || rawWords.MatchString(r.Stderr) ||
		strings.Contains(r.Stderr, "the saved layer of the root cannot be used") {
		t.Errorf("not a clear error: %v", r)
	}
}

// rawWords matches words that only a programmer understands, and the error of a system call without the
// name of the file or the failed step.
var rawWords = regexp.MustCompile(`panic:|goroutine |urpc|control server|\bEOF\b|context (canceled|deadline exceeded)|cannot create|failed to|` +
	`(?m:^bothy: error: (start sandbox \S+: )?(start: )?(no space left on device|input/output error|too many open files|interrupted system call)$)`)

// recovers runs a command after a fault: it works, or it explains the failure and then works when the
// killed process is gone.
func recovers(t *testing.T, c *harness.Caller, args ...string) harness.Result {
	t.Helper()
	var r harness.Result
	if !harness.Comes(harness.Moment, func() bool {
		r = c.Run(args...)
		explained(t, r)
		return r.Code == 0
	}) {
		t.Errorf("it does not work again: %v", r)
	}
	return r
}

// settled checks that one keeper runs, with one wall, or none at all. Killed processes take a moment to
// end.
func settled(t *testing.T, c *harness.Caller, running int) {
	t.Helper()
	var wrong []string
	harness.Comes(harness.Moment, func() bool {
		wrong = unsettled(c, running)
		return len(wrong) == 0
	})
	for _, w := range wrong {
		t.Error(w)
	}
}

// unsettled lists processes that run and should not, and those that should run and do not.
func unsettled(c *harness.Caller, running int) (wrong []string) {
	complain := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	keepers := c.Keepers()
	if len(keepers) != running {
		complain("%d keepers run, want %d: %v", len(keepers), running, keepers)
	}
	walls := 0
	for _, p := range c.Running() {
		if _, ok := keepers[p.PID]; ok {
			continue
		}
		if p.Args[0] == "runsc-sandbox" || p.Args[0] == "runsc-gofer" {
			walls++
			if _, ok := keepers[p.PPID]; !ok {
				complain("process %d of a wall has no keeper: %q", p.PID, p.Args[:2])
			}
			continue
		}
		if running == 0 {
			complain("process %d is left: %q", p.PID, p.Args)
		}
	}
	if walls != 2*running {
		complain("%d processes of walls, want %d", walls, 2*running)
	}
	return wrong
}

// putAway stops the sandbox, and checks that nothing of it is left. A temporary file of a killed
// writer may look in use for a while; the first stop after that removes it.
func putAway(t *testing.T, c *harness.Caller) {
	t.Helper()
	recovers(t, c, "stop", "box")
	settled(t, c, 0)
	c.NothingLeft(t)
	cut, _ := filepath.Glob(filepath.Join(c.State, "sandboxes", "*", ".tmp-*"))
	for _, f := range cut {
		if err := os.Chtimes(f, time.Time{}, time.Now().Add(-time.Hour)); err != nil {
			t.Error(err)
		}
	}
	recovers(t, c, "stop", "box")
	c.TidyState(t)
}

// homeOf returns the host's path of the sandbox's home.
func homeOf(t *testing.T, c *harness.Caller, name string) string {
	t.Helper()
	return filepath.Join(c.Inspect(t, name).Directory, "home")
}

func readFile(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// helper does work that needs a mount namespace of its own:
//
//	hold DIR OPTIONS UID GID    mounts a tmpfs on DIR, in private, and stays
func helper(args []string) error {
	if args[0] != "hold" {
		return fmt.Errorf("unknown role %q", args)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", args[1], "tmpfs", 0, args[2]); err != nil {
		return err
	}
	uid, _ := strconv.Atoi(args[3])
	gid, _ := strconv.Atoi(args[4])
	if err := os.Chown(args[1], uid, gid); err != nil {
		return err
	}
	_, _ = os.Stdin.Read(make([]byte, 1))
	os.Exit(0)
	return nil
}
