package cgroup

import (
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// kernel is everything that changes something. Reading needs no door: control
// files are read like any other.
type kernel interface {
	mkdir(dir string) error
	rmdir(dir string) error
	// write gives a value to a control file that exists.
	write(file, value string) error
	// access tells why the caller may not write to a path.
	access(path string) error
	// kill ends processes, of those that are still members when it comes to it.
	kill(pids []int, members func() ([]int, error)) error
}

// linux is the real one.
type linux struct{}

var _ kernel = linux{}

func (linux) mkdir(dir string) error { return os.Mkdir(dir, 0o755) }

// rmdir does not use os.Remove, which would also delete a file.
func (linux) rmdir(dir string) error {
	if err := unix.Rmdir(dir); err != nil {
		return &os.PathError{Op: "rmdir", Path: dir, Err: err}
	}
	return nil
}

func (linux) write(file, value string) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

func (linux) access(path string) error {
	return unix.Faccessat(unix.AT_FDCWD, path, unix.W_OK, unix.AT_EACCESS)
}

// maxHandles bounds the processes that are held at once in kill.
const maxHandles = 200

// kill takes hold of the processes first and only then looks again who is a
// member: a pid that was given to another process in between is left alone.
func (linux) kill(pids []int, members func() ([]int, error)) error {
	handles := make(map[int]int)
	defer func() {
		for _, fd := range handles {
			unix.Close(fd)
		}
	}()
	for _, pid := range pids[:min(len(pids), maxHandles)] {
		switch fd, err := unix.PidfdOpen(pid, 0); err {
		case nil:
			handles[pid] = fd
		case unix.ESRCH:
		case unix.ENOSYS: // before Linux 5.3 there is nothing better
			if err := unix.Kill(pid, unix.SIGKILL); err != nil && err != unix.ESRCH {
				return os.NewSyscallError("kill", err)
			}
		default:
			return os.NewSyscallError("pidfd_open", err)
		}
	}
	still, err := members()
	if err != nil {
		return err
	}
	for pid, fd := range handles {
		if !slices.Contains(still, pid) {
			continue
		}
		if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && err != unix.ESRCH {
			return os.NewSyscallError("pidfd_send_signal", err)
		}
	}
	return nil
}
