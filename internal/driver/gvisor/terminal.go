package gvisor

import (
	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/errors/linuxerr"
	"gvisor.dev/gvisor/pkg/sentry/arch"
	"gvisor.dev/gvisor/pkg/sentry/kernel"
	"gvisor.dev/gvisor/pkg/sentry/vfs"
)

// seekTerminalsAsLinux makes a read or a write at an offset of a terminal fail as on Linux.
// Linux returns ESPIPE, as for a pipe; gVisor returns EINVAL. Programs try such a call first, and
// ESPIPE tells them that the file has no offset. Zig's standard library treats EINVAL as a broken
// file, so programs such as opencode never show anything.
func seekTerminalsAsLinux() {
	wrapSyscalls(refuseOffset, "pread64", "preadv", "preadv2", "pwrite64", "pwritev", "pwritev2")
}

// refuseOffset checks the file only after a call has failed.
func refuseOffset(fn kernel.SyscallFn) kernel.SyscallFn {
	return func(t *kernel.Task, nr uintptr, args arch.SyscallArguments) (uintptr, *kernel.SyscallControl, error) {
		n, ctl, err := fn(t, nr, args)
		if linuxerr.Equals(linuxerr.EINVAL, err) && args[3].Int64() >= 0 && isTerminal(t, args[0].Int()) {
			err = linuxerr.ESPIPE
		}
		return n, ctl, err
	}
}

func isTerminal(t *kernel.Task, fd int32) bool {
	file := t.GetFile(fd)
	if file == nil {
		return false
	}
	defer file.DecRef(t)
	st, err := file.Stat(t, vfs.StatOptions{Mask: linux.STATX_TYPE})
	if err != nil || st.Mode&linux.S_IFMT != linux.S_IFCHR {
		return false
	}
	return st.RdevMajor == linux.UNIX98_PTY_REPLICA_MAJOR || st.RdevMajor == linux.TTYAUX_MAJOR
}
