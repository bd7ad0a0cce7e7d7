package starter

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// syncFlag tells the sentry and the gofer to wait until their user namespace is ready, to take an id of
// it, and to start again: only the calling thread has the new id. The starter does this for them, which
// saves the second start with its second initialisation of everything.
const syncFlag = "--sync-userns-fd="

// waitDescriptor returns the descriptor that such a process is to wait for, -1 if none.
func waitDescriptor(args []string) int {
	fd := -1
	for _, a := range args {
		if v, ok := strings.CutPrefix(a, syncFlag); ok {
			if n, err := strconv.Atoi(v); err == nil {
				fd = n
			}
		}
	}
	return fd
}

// Capabilities, in their user namespace, with which the sentry and the gofer isolate themselves. The
// sentry keeps none of them. The gofer keeps those that it needs to serve files, all except
// CAP_SYS_ADMIN.
var (
	sentryCaps = capSet(unix.CAP_SYS_ADMIN, unix.CAP_SYS_CHROOT)
	goferCaps  = capSet(unix.CAP_SYS_ADMIN, unix.CAP_SYS_CHROOT,
		unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH, unix.CAP_FOWNER, unix.CAP_FSETID)
)

func capSet(caps ...int) (set uint64) {
	for _, c := range caps {
		set |= 1 << c
	}
	return set
}

// settle waits for the user namespace, and takes the ids of --uid and --gid. It gives up all
// capabilities but keep, and becomes the program, which then has nothing to wait for. The kept
// capabilities are passed on as ambient ones.
// It also empties the bounding set. The program would do so itself, but by then it has threads,
// and would stop all of them for each capability.
func settle(program string, args []string, keep uint64) int {
	fail := func(what string, err error) int {
		fmt.Fprintf(os.Stderr, "%s: %s: %v\n", args[0], what, err)
		return 127
	}
	runtime.LockOSThread()
	if fd := waitDescriptor(args); fd >= 0 {
		b := make([]byte, 1)
		if n, err := ignoringEINTR(func() (int, error) { return unix.Read(fd, b) }); n != 0 || err != nil {
			return fail("wait for the user namespace", fmt.Errorf("%d bytes, %w", n, err))
		}
		unix.Close(fd)
		if err := takeIDs(args); err != nil {
			return fail("take an id of the user namespace", err)
		}
		args = slices.DeleteFunc(slices.Clone(args), func(a string) bool { return strings.HasPrefix(a, syncFlag) })
	}
	if err := giveUpAllBut(keep); err != nil {
		return fail("give up capabilities", err)
	}
	return fail("exec "+program, unix.Exec(program, args, environment()))
}

// environment returns this process's environment, with settings that keep Go's runtime from watching
// the host's control group: it would keep files of the host open. It passes on the number of
// processors instead.
func environment() []string {
	const procs, debug = "GOMAXPROCS=", "GODEBUG="
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool {
		return strings.HasPrefix(kv, procs) || strings.HasPrefix(kv, debug)
	})
	return append(env, procs+strconv.Itoa(runtime.GOMAXPROCS(0)), debug+"containermaxprocs=0,updatemaxprocs=0")
}

// giveUpAllBut limits the calling thread's capabilities to keep, and empties its bounding set: no
// program that it executes can gain a capability.
func giveUpAllBut(keep uint64) error {
	for c := range 64 {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0)
		if err == unix.EINVAL {
			break // the kernel has no more capabilities
		}
		if err != nil {
			return fmt.Errorf("drop %d from the bounding set: %w", c, err)
		}
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	for i := range data {
		half := uint32(keep >> (32 * i))
		data[i] = unix.CapUserData{Effective: half, Permitted: half, Inheritable: half}
	}
	// Capset also drops ambient capabilities that are not both permitted and inheritable.
	return unix.Capset(&header, &data[0])
}

// takeIDs changes the ids of the calling thread, which is the one that continues.
func takeIDs(args []string) error {
	for _, id := range []struct {
		flag string
		call uintptr
	}{{"--uid=", unix.SYS_SETUID}, {"--gid=", unix.SYS_SETGID}} {
		n := 0
		for _, a := range args {
			if v, ok := strings.CutPrefix(a, id.flag); ok {
				var err error
				if n, err = strconv.Atoi(v); err != nil {
					return err
				}
			}
		}
		if _, _, errno := unix.RawSyscall(id.call, uintptr(n), 0, 0); errno != 0 {
			return fmt.Errorf("%s%d: %w", id.flag, n, errno)
		}
	}
	return nil
}

func ignoringEINTR(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); err != unix.EINTR {
			return n, err
		}
	}
}
