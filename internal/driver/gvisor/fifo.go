package gvisor

import (
	"gvisor.dev/gvisor/pkg/errors/linuxerr"
	"gvisor.dev/gvisor/pkg/sentry/arch"
	"gvisor.dev/gvisor/pkg/sentry/kernel"
)

// openFifosAsLinux has an open that waits for the other end of a fifo begin again after a signal
// whose handler asks for that.
//
// gVisor's ends with EINTR, whatever the handler. Go's runtime sends signals to its own threads and
// asks for all calls to begin again, so programs in Go take EINTR of an open for a failure: runc, which
// holds a container back by such a fifo, gave up the container.
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
