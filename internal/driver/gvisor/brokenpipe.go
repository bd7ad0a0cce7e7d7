package gvisor

import (
	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/errors/linuxerr"
	"gvisor.dev/gvisor/pkg/sentry/arch"
	"gvisor.dev/gvisor/pkg/sentry/kernel"
	"gvisor.dev/gvisor/pkg/sentry/socket"
)

// signalBrokenPipes sends SIGPIPE to a program that writes to a pipe without a reader, as Linux
// does.
// gVisor sends the signal for pipes made inside. For pipes of the host, which are the standard
// streams of `exec`, and for all sockets it only returns EPIPE. A program that relies on the
// signal then writes for ever: `exec … sh -c 'while :; do echo y; done' | head`.
func signalBrokenPipes() {
	for name, call := range writingCalls() {
		wrapSyscalls(call.signal, name)
	}
}

// writingCall holds the indexes of a system call's arguments for the file that it writes to and for
// its socket flags.
type writingCall struct{ file, flags int }

// noSocketFlags marks calls without socket flags.
const noSocketFlags = -1

// writingCalls are the system calls that fail with EPIPE.
func writingCalls() map[string]writingCall {
	return map[string]writingCall{
		"write": {0, noSocketFlags}, "writev": {0, noSocketFlags}, "pwritev2": {0, noSocketFlags},
		"sendto": {0, 3}, "sendmsg": {0, 2}, "sendmmsg": {0, 3},
		"sendfile": {0, noSocketFlags}, "splice": {2, noSocketFlags}, "tee": {1, noSocketFlags},
	}
}

// signal adds SIGPIPE to the call. The queue holds one signal of a kind, so it drops a second SIGPIPE
// after gVisor's own.
func (c writingCall) signal(fn kernel.SyscallFn) kernel.SyscallFn {
	return func(t *kernel.Task, nr uintptr, args arch.SyscallArguments) (uintptr, *kernel.SyscallControl, error) {
		n, ctl, err := fn(t, nr, args)
		if err != nil && linuxerr.Equals(linuxerr.EPIPE, err) && c.signals(t, args) {
			_ = t.SendSignal(kernel.SignalInfoNoInfo(linux.SIGPIPE, t, t)) // it fails for a dead task
		}
		return n, ctl, err
	}
}

// signals reports whether Linux sends SIGPIPE for this call: unless a flag forbids it, and among sockets
// only for streams.
func (c writingCall) signals(t *kernel.Task, args arch.SyscallArguments) bool {
	if c.flags != noSocketFlags && args[c.flags].Int()&linux.MSG_NOSIGNAL != 0 {
		return false
	}
	file := t.GetFile(args[c.file].Int())
	if file == nil {
		return false
	}
	defer file.DecRef(t)
	s, ok := file.Impl().(socket.Socket)
	if !ok {
		return true
	}
	_, kind, _ := s.Type()
	return kind == linux.SOCK_STREAM
}
