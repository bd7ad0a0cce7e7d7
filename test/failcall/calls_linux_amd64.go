package failcall

import (
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// subject tells which argument of a call has its path.
type subject int

const (
	noPath      subject = iota
	pathFirst           // argument 0 is a path
	pathSecond          // arguments 0 and 1 are a directory and a path in it
	pathThird           // the same, from argument 2: the new name of a rename or link
	pathOfFile          // argument 0 is an open file
	openedFlags         // like pathSecond, and argument 2 has flags of open
)

// Errors that the kernel can return for a call. A program need not expect others.
var (
	room = []unix.Errno{unix.ENOSPC} // the call takes space
	disk = []unix.Errno{unix.EIO}    // the call reads or writes a disk
	open = []unix.Errno{unix.EMFILE} // the call makes a descriptor
	wait = []unix.Errno{unix.EINTR}  // a signal can interrupt it
)

// changing are the calls that change state, and the errors that each is made to fail with.
var changing = map[uint64]struct {
	name  string
	is    subject
	fails []unix.Errno
}{
	unix.SYS_OPENAT:          {"openat", openedFlags, slices.Concat(room, disk, open, wait)},
	unix.SYS_OPENAT2:         {"openat2", openedFlags, slices.Concat(room, disk, open, wait)},
	unix.SYS_WRITE:           {"write", pathOfFile, slices.Concat(room, disk, wait)},
	unix.SYS_PWRITE64:        {"pwrite64", pathOfFile, slices.Concat(room, disk, wait)},
	unix.SYS_WRITEV:          {"writev", pathOfFile, slices.Concat(room, disk, wait)},
	unix.SYS_PWRITEV:         {"pwritev", pathOfFile, slices.Concat(room, disk, wait)},
	unix.SYS_COPY_FILE_RANGE: {"copy_file_range", noPath, slices.Concat(room, disk)},
	unix.SYS_FSYNC:           {"fsync", pathOfFile, slices.Concat(room, disk, wait)},
	unix.SYS_FDATASYNC:       {"fdatasync", pathOfFile, slices.Concat(room, disk, wait)},
	unix.SYS_SYNCFS:          {"syncfs", pathOfFile, slices.Concat(room, disk)},
	unix.SYS_FTRUNCATE:       {"ftruncate", pathOfFile, slices.Concat(room, disk, wait)},
	unix.SYS_FALLOCATE:       {"fallocate", pathOfFile, slices.Concat(room, disk, wait)},
	unix.SYS_RENAME:          {"rename", pathFirst, slices.Concat(room, disk)},
	unix.SYS_RENAMEAT:        {"renameat", pathThird, slices.Concat(room, disk)},
	unix.SYS_RENAMEAT2:       {"renameat2", pathThird, slices.Concat(room, disk)},
	unix.SYS_LINKAT:          {"linkat", pathThird, slices.Concat(room, disk)},
	unix.SYS_SYMLINKAT:       {"symlinkat", noPath, slices.Concat(room, disk)},
	unix.SYS_UNLINK:          {"unlink", pathFirst, disk},
	unix.SYS_RMDIR:           {"rmdir", pathFirst, disk},
	unix.SYS_UNLINKAT:        {"unlinkat", pathSecond, disk},
	unix.SYS_MKDIR:           {"mkdir", pathFirst, slices.Concat(room, disk)},
	unix.SYS_MKDIRAT:         {"mkdirat", pathSecond, slices.Concat(room, disk)},
	unix.SYS_FCHMOD:          {"fchmod", pathOfFile, slices.Concat(room, disk)},
	unix.SYS_FCHMODAT:        {"fchmodat", pathSecond, slices.Concat(room, disk)},
	unix.SYS_MOUNT:           {"mount", pathFirst, slices.Concat(room, disk)},
	unix.SYS_MOVE_MOUNT:      {"move_mount", noPath, room},
	unix.SYS_OPEN_TREE:       {"open_tree", pathSecond, slices.Concat(open, disk)},
	unix.SYS_UMOUNT2:         {"umount2", pathFirst, disk},
	unix.SYS_MEMFD_CREATE:    {"memfd_create", pathFirst, open},
	unix.SYS_SOCKET:          {"socket", noPath, open},
	unix.SYS_SOCKETPAIR:      {"socketpair", noPath, open},
	unix.SYS_BIND:            {"bind", noPath, slices.Concat(room, disk)},
	unix.SYS_CONNECT:         {"connect", noPath, wait},
	unix.SYS_PIPE2:           {"pipe2", noPath, open},
	unix.SYS_EXECVE:          {"execve", pathFirst, disk},
}

// point names the call that a process is about to make. It returns false for calls that do not count.
func (r *run) point(pid int, regs *unix.PtraceRegs) (Point, bool) {
	call, ok := changing[regs.Orig_rax]
	if !ok {
		return Point{}, false
	}
	p := Point{Program: r.programs[pid], Call: call.name}
	var path string
	switch call.is {
	case pathFirst:
		path = readString(pid, regs.Rdi)
	case pathSecond:
		path = pathIn(pid, regs.Rdi, regs.Rsi)
	case pathThird:
		path = pathIn(pid, regs.Rdx, regs.R10)
	case pathOfFile:
		path = openFile(pid, regs.Rdi)
		if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "/dev/") || regs.Rdi <= 2 {
			return Point{}, false // a pipe, a socket, a terminal, or a descriptor that the caller reads
		}
	case openedFlags:
		path = pathIn(pid, regs.Rdi, regs.Rsi)
		flags := regs.Rdx
		if regs.Orig_rax == unix.SYS_OPENAT2 {
			flags = readWord(pid, regs.Rdx)
		}
		if flags&(unix.O_CREAT|unix.O_WRONLY|unix.O_RDWR) == 0 || flags&unix.O_PATH != 0 || path == "/dev/null" {
			return Point{}, false
		}
	}
	p.Path = stablePath(path, r.Base)
	return p, true
}

// pathIn returns the path of a call that names a file in an open directory.
func pathIn(pid int, dir, at uint64) string {
	path := readString(pid, at)
	if filepath.IsAbs(path) || int32(dir) == unix.AT_FDCWD {
		return path
	}
	return filepath.Join(openFile(pid, dir), path)
}

// Errnos returns the errors that the kernel can return for the call of a point.
func (p Point) Errnos() []unix.Errno {
	for _, call := range changing {
		if call.name == p.Call {
			return call.fails
		}
	}
	return nil
}

// goesOn reports whether the kernel carries a call out although it returns an error: a connect continues
// after a signal.
func goesOn(p Point, errno unix.Errno) bool { return p.Call == "connect" && errno == unix.EINTR }

// refuse keeps the kernel from making the call that a process is about to enter.
func refuse(pid int, regs *unix.PtraceRegs) error {
	regs.Orig_rax = ^uint64(0)
	return unix.PtraceSetRegs(pid, regs)
}

// answer makes a call return an error. If the kernel carried the call out and it failed, answer returns
// the kernel's error.
func answer(pid int, errno unix.Errno) error {
	var regs unix.PtraceRegs
	if err := unix.PtraceGetRegs(pid, &regs); err != nil {
		return err
	}
	if failedByItself(&regs) {
		return nil
	}
	regs.Rax = uint64(-int64(errno))
	return unix.PtraceSetRegs(pid, &regs)
}

// failedByItself reports whether the kernel carried out a call and returned an error for it, other than
// that it continues. A call that the tracer refused returns ENOSYS.
func failedByItself(regs *unix.PtraceRegs) bool {
	errno := unix.Errno(-int64(regs.Rax))
	return int64(regs.Rax) < 0 && errno != unix.ENOSYS && errno != unix.EINPROGRESS
}

// tracesItself reports whether a process asks to be traced by its parent. Two tracers are not possible.
func tracesItself(regs *unix.PtraceRegs) bool {
	return regs.Orig_rax == unix.SYS_PTRACE && regs.Rdi == unix.PTRACE_TRACEME
}
