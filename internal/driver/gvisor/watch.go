package gvisor

import (
	"errors"
	"fmt"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// watchProcesses notices the end of the sentry or the gofer. The sandbox needs both, so watch then kills the
// other one.
func (w *wall) watchProcesses() error {
	const sentry, gofer = 0, 1
	names, pids := []string{"sentry", "gofer"}, w.Pids()
	fds := make([]int, 0, len(pids))
	for i, pid := range pids {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			closeAll(fds)
			return fmt.Errorf("watch the %s: %w", names[i], err)
		}
		fds = append(fds, fd)
	}
	var all sync.WaitGroup
	for i, fd := range fds {
		all.Go(func() {
			poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
			for {
				if _, err := unix.Poll(poll, -1); err != unix.EINTR {
					break
				}
			}
			dead := i
			if i == gofer && exitedWell(pids[gofer]) {
				dead = sentry
			}
			w.endWall(fmt.Errorf("the %s (process %d) died", names[dead], pids[dead]))
			for _, other := range fds {
				_ = unix.PidfdSendSignal(other, unix.SIGKILL, nil, 0) // one may be gone
			}
		})
	}
	go func() { all.Wait(); closeAll(fds) }()
	return nil
}

// exitedWell reports whether a child exited by itself, with 0, and leaves it to be collected. The gofer
// does so when all its connections to the sentry are closed. A killed sentry closes them early in
// its end: on a busy machine the gofer's end can be seen before the sentry's.
func exitedWell(pid int) bool {
	var end struct {
		_      [2]int32 // the signal's number, the error
		code   int32
		_      [3]int32 // padding, the process and its user
		status int32
		_      [100]byte // the rest of the kernel's siginfo_t
	}
	err := error(unix.EINTR)
	for err == unix.EINTR {
		err = unix.Waitid(unix.P_PID, pid, (*unix.Siginfo)(unsafe.Pointer(&end)), unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil)
	}
	const exited = 1 // CLD_EXITED
	return err == nil && end.code == exited && end.status == 0
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}

// startFault is startError for a request to a sentry: when the gofer is killed, the sentry says that
// it cannot read or mount a file.
func (w *wall) startFault(err error) error {
	if w.endsWithin(fallTime) {
		return errFell
	}
	return startError(err)
}

var errFell = errors.New("a process of the wall died while it started")

// fallTime bounds how long a killed process may take to disappear. Its connections close before.
const fallTime = time.Second

// endsWithin reports whether the sentry or the gofer ends within a time limit.
func (w *wall) endsWithin(within time.Duration) bool {
	var processes []unix.PollFd
	for _, pid := range w.Pids() {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			return true
		}
		defer unix.Close(fd)
		processes = append(processes, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	for end := time.Now().Add(within); ; {
		n, err := unix.Poll(processes, int(max(time.Until(end), 0).Milliseconds()))
		if err != unix.EINTR {
			return n > 0
		}
	}
}
