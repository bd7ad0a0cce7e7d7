package usage

import (
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/keeper/keepertest"
)

// TestCPUTime checks that the time of all threads of all processes counts, including ended threads.
// The time of an ended process does not count.
func TestCPUTime(t *testing.T) {
	const spent = 20 * time.Millisecond
	before := CPU([]int{os.Getpid()})
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // the thread ends with us
		var from, now unix.Timespec
		_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &from)
		for now.Nano()-from.Nano() < int64(spent) {
			_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now)
		}
	}()
	<-done
	if got := CPU([]int{os.Getpid()}) - before; got < spent {
		t.Errorf("%v, one thread alone used %v", got, spent)
	}
	pid, work := keepertest.Worker(t)
	work() // work on another processor counts up to its last tick: at first, nothing
	alone := CPU([]int{pid})
	work()
	if after := CPU([]int{pid}); after <= alone || alone <= 0 {
		t.Errorf("%v before the work, %v after", alone, after)
	}
	if both := CPU([]int{pid, os.Getpid()}); both <= CPU([]int{pid}) {
		t.Errorf("both together used %v", both)
	}
	gone := exec.CommandContext(t.Context(), "/bin/true")
	must(t, gone.Run())
	if got := CPU([]int{gone.Process.Pid}); got != 0 {
		t.Errorf("a process that has ended used %v", got)
	}
}
