package term

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Raise sends this process a signal. If the signal ends the process, it does so before Raise returns: a
// thread gets a signal from itself at once.
func Raise(s unix.Signal) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_ = unix.Tgkill(os.Getpid(), unix.Gettid(), s)
}
