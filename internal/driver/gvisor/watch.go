package gvisor

import (
	"errors"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The two processes of a wall.
const (
	theSentry = iota
	theGofer
)

// watchProcesses notices the end of the sentry or the gofer. The sandbox needs both, so it then kills the
// other one.
func (w *wall) watchProcesses() error {
	names, pids := []string{"sentry", "gofer"}, w.Pids()
	fds, ends := make([]int, 0, len(pids)), make([]unix.PollFd, 0, len(pids))
	for i, pid := range pids {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			closeAll(fds)
			return fmt.Errorf("watch the %s: %w", names[i], err)
		}
		fds, ends = append(fds, fd), append(ends, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	go func() {
		defer closeAll(fds)
		anyReadable(ends, -1)
		first := theSentry
		if ends[theSentry].Revents == 0 {
			first = theGofer
		}
		dead := firstDead(first, func(i int) ending {
			if i != first && !anyReadable(ends[i:i+1], fallTime) {
				return alive
			}
			return endingOf(pids[i])
		})
		w.endWall(fmt.Errorf("the %s (process %d) died", names[dead], pids[dead]))
		for _, fd := range fds {
			_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) // one may be gone
		}
	}()
	return nil
}

// ending is how a process ended.
type ending int

const (
	alive ending = iota
	exitedWell
	exitedBadly
	killed // by a signal
)

// firstDead returns which process of a wall died first, when the end of one was seen. Each process exits
// by itself when its connections to the other one are closed, and a killed process closes them early
// in its end. So on a busy machine the end of the second can be seen before the end of the first.
func firstDead(seen int, end func(process int) ending) int {
	if end(seen) == killed {
		return seen
	}
	other := theGofer
	if seen == theGofer {
		other = theSentry
	}
	switch theOther := end(other); {
	case theOther == alive:
		return seen
	case theOther == killed:
		return other
	case end(theGofer) == exitedWell: // as always after the sentry's end
		return theSentry
	}
	return theGofer
}

// endingOf returns how an ended child ended, and leaves it to be collected.
func endingOf(pid int) ending {
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
	const exited = 1 // CLD_EXITED; the other codes of an end tell of a signal
	switch {
	case err != nil || end.code == exited && end.status != 0:
		return exitedBadly
	case end.code == exited:
		return exitedWell
	}
	return killed
}

// anyReadable waits until one of the descriptors is readable, at most for a time; -1 means for ever.
func anyReadable(fds []unix.PollFd, within time.Duration) bool {
	for end := time.Now().Add(within); ; {
		wait := -1
		if within >= 0 {
			wait = int(max(time.Until(end), 0).Milliseconds())
		}
		n, err := unix.Poll(fds, wait)
		if err != unix.EINTR {
			return n > 0
		}
	}
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
	return anyReadable(processes, within)
}
