package gvisor

import (
	"gvisor.dev/gvisor/pkg/errors/linuxerr"
	"gvisor.dev/gvisor/pkg/sentry/arch"
	"gvisor.dev/gvisor/pkg/sentry/kernel"
)

// openFifosAsLinux restarts an open that waits for the other end of a fifo, after a signal whose
// handler asks for a restart.
// gVisor's open fails with EINTR, whatever the handler. Go's runtime sends signals to its own
// threads and asks for a restart of all calls. So Go programs treat EINTR of an open as a
// failure: runc, which holds a container back by such a fifo, gave up the container.
func openFifosAsLinux() {
	wrapSyscalls(restartOpen, "open", "openat", "openat2", "creat")
}

func restartOpen(fn kernel.SyscallFn) kernel.SyscallFn {
	return func(t *kernel.Task, nr uintptr, args arch.SyscallArguments) (uintptr, *kernel.SyscallControl, error) {
		n, ctl, err := fn(t, nr, args)
		if linuxerr.Equals(linuxerr.EINTR, err) {
			err = linuxerr.ERESTARTSYS
		}
		return n, ctl, err
	}
}
