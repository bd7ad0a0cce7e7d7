// Package nsproc sets up the namespaces of a keeper. The engine uses it to start keepers, and the doctor
// to test whether that works.
package nsproc

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/spec"
)

// InnerID is the uid and gid that root of the host has inside. It is not zero,
// so that no process of the wall keeps a capability when it executes.
const InnerID = 1000

// Attributes start a process in a session, and in user, mount and pid namespaces, of its own, with every
// capability in them and none outside. Only the caller's id is mapped. When such a process dies, the
// kernel kills every process that it made.
func Attributes() *syscall.SysProcAttr {
	uid, gid := os.Geteuid(), os.Getegid()
	attr := &syscall.SysProcAttr{
		Setsid:      true,
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: innerID(uid), HostID: uid, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: innerID(gid), HostID: gid, Size: 1}},
	}
	for c := range lastCapability() + 1 {
		attr.AmbientCaps = append(attr.AmbientCaps, uintptr(c))
	}
	return attr
}

// Explain turns an error of starting a process into one that tells that the host lets the caller make no
// namespaces, if that is the reason. It returns other errors unchanged.
func Explain(err error) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EINVAL) {
		return (&spec.Error{Class: spec.ErrSandbox, Op: "create user, mount and pid namespaces", Err: err}).
			WithHint("this host does not let you make user namespaces; bothy doctor says how to allow them")
	}
	return err
}

// IDs returns the uid and gid that the caller's files belong to inside.
func IDs() (uid, gid int) { return innerID(os.Geteuid()), innerID(os.Getegid()) }

func innerID(id int) int {
	if id == 0 {
		return InnerID
	}
	return id
}

// lastCapability returns the highest capability that this kernel knows.
func lastCapability() int {
	n := unix.CAP_LAST_CAP
	if b, err := os.ReadFile("/proc/sys/kernel/cap_last_cap"); err == nil {
		_, _ = fmt.Sscan(string(b), &n)
	}
	return n
}

// Enter completes the setup from inside: it makes mounts private, and makes /proc show the new pid
// namespace.
func Enter() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make the mount namespace private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc for the new pid namespace: %w", err)
	}
	return nil
}

// KeepDescriptors keeps descriptors that the caller's own parents left open from reaching the processes
// that we start.
func KeepDescriptors() {
	const first = 3
	if unix.CloseRange(first, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC) == nil {
		return
	}
	entries, err := os.ReadDir("/proc/self/fd") // before Linux 5.11
	if err != nil {
		return
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd >= first {
			unix.CloseOnExec(fd)
		}
	}
}

// Anonymous reports whether the caller has the uid that the kernel shows for users that a namespace does
// not know. In its own namespace such a caller could not be distinguished from others.
func Anonymous() bool {
	overflow := 65534
	if b, err := os.ReadFile("/proc/sys/kernel/overflowuid"); err == nil {
		_, _ = fmt.Sscan(string(b), &overflow)
	}
	return os.Geteuid() == overflow
}
