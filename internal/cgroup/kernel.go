package cgroup

import (
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// kernel has every operation that changes something. Reading is not part of it: control files are read
// like any other.
type kernel interface {
	mkdir(dir string) error
	rmdir(dir string) error
	// write writes a value to an existing control file.
	write(file, value string) error
	// access returns the reason why the caller may not write to a path.
	access(path string) error
	// kill kills those of the processes that are still members at that moment.
	kill(pids []int, members func() ([]int, error)) error
}

// linux is the real kernel.
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

// maxHandles bounds the processes that kill holds at once.
const maxHandles = 200

// kill opens handles of the processes first, and only then reads the members again. So it leaves a pid
// alone that was reused by another process meanwhile.
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
		case unix.ENOSYS: // before Linux 5.3 this is the only way
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
