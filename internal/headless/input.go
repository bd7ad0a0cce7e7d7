package headless

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// ReopenPipe reopens an anonymous pipe for the standard stream i of a program, in the one direction that is
// needed: its bytes then bypass this process. A fresh description keeps the sentry's O_NONBLOCK away from
// the caller's. ReopenPipe returns nil for any other file, and for a pipe that it cannot reopen; those are
// copied.
func ReopenPipe(f *os.File, i int) *os.File {
	how := unix.O_WRONLY
	if i == 0 {
		how = unix.O_RDONLY
	}
	opened := -1
	err := withDescriptor(f, func(fd int) error {
		name := fmt.Sprintf("/proc/self/fd/%d", fd)
		target, err := os.Readlink(name)
		if err == nil && strings.HasPrefix(target, "pipe:[") {
			opened, err = unix.Open(name, how|unix.O_CLOEXEC, 0) // fails for another user's pipe
		}
		return err
	})
	if err != nil || opened < 0 {
		return nil
	}
	return os.NewFile(uintptr(opened), f.Name())
}

// withDescriptor calls do with a file's descriptor, and leaves its mode as it is. The file stays open
// meanwhile.
func withDescriptor(f *os.File, do func(fd int) error) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var done error
	if err := conn.Control(func(fd uintptr) { done = do(int(fd)) }); err != nil {
		return err
	}
	return done
}
