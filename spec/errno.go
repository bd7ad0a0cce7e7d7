package spec

import (
	"errors"
	"os"
	"syscall"
)

// errnoHints is the advice for host errors without more specific advice.
var errnoHints = []struct {
	errnos []syscall.Errno
	hint   string
}{
	{[]syscall.Errno{syscall.ENOSPC, syscall.EDQUOT}, "free some space on that disk"},
	{[]syscall.Errno{syscall.EMFILE, syscall.ENFILE}, "too many files are open: close some, or raise the limit: ulimit -n"},
	{[]syscall.Errno{syscall.EIO}, "the disk could not read or write: see dmesg, then run bothy system verify"},
	{[]syscall.Errno{syscall.EROFS}, "the file system can only be read: make it writable (mount -o remount,rw), or set BOTHY_HOME to another directory"},
	{[]syscall.Errno{syscall.ENOMEM}, "the host has no memory left: stop something, and try again"},
}

// errnoHint returns the advice for a host error in a chain, or "".
func errnoHint(err error) string {
	if call, ok := errors.AsType[*os.SyscallError](err); ok && call.Syscall == "getwd" && errors.Is(err, syscall.ENOENT) {
		return "the current directory was removed: change to one that exists, or name paths from / on"
	}
	for _, h := range errnoHints {
		for _, errno := range h.errnos {
			if errors.Is(err, errno) {
				return h.hint
			}
		}
	}
	return ""
}
