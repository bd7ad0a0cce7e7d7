package failcall

import (
	"strings"

	"golang.org/x/sys/unix"
)

// How the path of a call is found among its arguments.
type subject int

const (
	noPath      subject = iota
	pathFirst           // argument 0 is a path
	pathSecond          // arguments 0 and 1 are a directory and a path in it
	pathThird           // the same, from argument 2: the new name of a rename or link
	pathOfFile          // argument 0 is an open file
	openedFlags         // as pathSecond, and argument 2 has flags of open
)

// changing are the calls that change state.
var changing = map[uint64]struct {
	name string
	is   subject
}{
	unix.SYS_OPENAT:          {"openat", openedFlags},
	unix.SYS_OPENAT2:         {"openat2", openedFlags},
	unix.SYS_WRITE:           {"write", pathOfFile},
	unix.SYS_PWRITE64:        {"pwrite64", pathOfFile},
	unix.SYS_WRITEV:          {"writev", pathOfFile},
	unix.SYS_PWRITEV:         {"pwritev", pathOfFile},
	unix.SYS_COPY_FILE_RANGE: {"copy_file_range", noPath},
	unix.SYS_FSYNC:           {"fsync", pathOfFile},
	unix.SYS_FDATASYNC:       {"fdatasync", pathOfFile},
	unix.SYS_SYNCFS:          {"syncfs", pathOfFile},
	unix.SYS_FTRUNCATE:       {"ftruncate", pathOfFile},
	unix.SYS_FALLOCATE:       {"fallocate", pathOfFile},
	unix.SYS_RENAME:          {"rename", pathFirst},
	unix.SYS_RENAMEAT:        {"renameat", pathThird},
	unix.SYS_RENAMEAT2:       {"renameat2", pathThird},
	unix.SYS_LINKAT:          {"linkat", pathThird},
	unix.SYS_SYMLINKAT:       {"symlinkat", noPath},
	unix.SYS_UNLINK:          {"unlink", pathFirst},
	unix.SYS_RMDIR:           {"rmdir", pathFirst},
	unix.SYS_UNLINKAT:        {"unlinkat", pathSecond},
	unix.SYS_MKDIR:           {"mkdir", pathFirst},
	unix.SYS_MKDIRAT:         {"mkdirat", pathSecond},
	unix.SYS_FCHMOD:          {"fchmod", pathOfFile},
	unix.SYS_FCHMODAT:        {"fchmodat", pathSecond},
	unix.SYS_MOUNT:           {"mount", pathFirst},
	unix.SYS_MOVE_MOUNT:      {"move_mount", noPath},
	unix.SYS_OPEN_TREE:       {"open_tree", pathSecond},
	unix.SYS_UMOUNT2:         {"umount2", pathFirst},
	unix.SYS_MEMFD_CREATE:    {"memfd_create", pathFirst},
	unix.SYS_SOCKET:          {"socket", noPath},
	unix.SYS_SOCKETPAIR:      {"socketpair", noPath},
	unix.SYS_BIND:            {"bind", noPath},
	unix.SYS_CONNECT:         {"connect", noPath},
	unix.SYS_PIPE2:           {"pipe2", noPath},
	unix.SYS_EXECVE:          {"execve", pathFirst},
}

// point names the call that a process is about to make, or says that it is none that counts.
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
		path = readString(pid, regs.Rsi)
	case pathThird:
		path = readString(pid, regs.R10)
	case pathOfFile:
		path = openFile(pid, regs.Rdi)
		if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "/dev/") || regs.Rdi <= 2 {
			return Point{}, false // a pipe, a socket, a terminal, or what the caller reads
		}
	case openedFlags:
		path = readString(pid, regs.Rsi)
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

// refuse keeps the kernel from making the call at whose entry a process stands.
func refuse(pid int, regs *unix.PtraceRegs) error {
	regs.Orig_rax = ^uint64(0)
	return unix.PtraceSetRegs(pid, regs)
}

// answer has the call that was refused return an error.
func answer(pid int, errno unix.Errno) error {
	var regs unix.PtraceRegs
	if err := unix.PtraceGetRegs(pid, &regs); err != nil {
		return err
	}
	regs.Rax = uint64(-int64(errno))
	return unix.PtraceSetRegs(pid, &regs)
}

// tracesItself says whether a process asks to be traced by its parent, which it cannot be by two.
func tracesItself(regs *unix.PtraceRegs) bool {
	return regs.Orig_rax == unix.SYS_PTRACE && regs.Rdi == unix.PTRACE_TRACEME
}
