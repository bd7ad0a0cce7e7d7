package headless

import (
	"errors"
	"fmt"
	"io"
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

// fileInput reads a file of the caller until it is stopped. A plain Read would go on after the program's
// end, and take bytes that belong to the next program.
type fileInput struct {
	src        *os.File // a duplicate: the caller may close its own
	wake, stop *os.File // closing stop ends the wait for src
}

func openFileInput(f *os.File) (*fileInput, error) {
	own := -1
	err := withDescriptor(f, func(fd int) (err error) {
		own, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open the input: %w", err)
	}
	in := &fileInput{src: os.NewFile(uintptr(own), f.Name())}
	if in.wake, in.stop, err = makePipe(); err != nil {
		in.src.Close()
		return nil, err
	}
	return in, nil
}

// Read implements [io.Reader]. After a stop the input has ended.
func (in *fileInput) Read(b []byte) (n int, err error) {
	err = withDescriptor(in.wake, func(wake int) error {
		return withDescriptor(in.src, func(src int) error {
			n, err = readUnlessWoken(src, wake, b)
			return err
		})
	})
	if err == nil && n == 0 && len(b) > 0 {
		err = io.EOF
	}
	return n, err
}

// readUnlessWoken waits until src can be read, and reads. It reads nothing once wake has ended.
func readUnlessWoken(src, wake int, b []byte) (int, error) {
	for {
		fds := []unix.PollFd{{Fd: int32(wake), Events: unix.POLLIN}, {Fd: int32(src), Events: unix.POLLIN}}
		_, err := unix.Poll(fds, -1)
		if err == nil && fds[0].Revents != 0 {
			return 0, nil
		}
		n := 0
		if err == nil {
			n, err = unix.Read(src, b)
		}
		if !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			return max(n, 0), err
		}
	}
}

// closeFiles closes all but stop.
func (in *fileInput) closeFiles() {
	in.wake.Close()
	in.src.Close()
}
