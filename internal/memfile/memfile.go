// Package memfile has the files in which the memory of what runs in a sandbox lies: files
// in memory that have no name.
//
// gVisor takes one from memfd_create, for which a host gives large pages only if its
// administrator said so (/sys/kernel/mm/transparent_hugepage/shmem_enabled, which is
// "never" as it comes). In a file system of one's own they are had by asking, and then a
// program's memory is there after a fault for each 2 MiB instead of 512.
package memfile

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// name is what such a file was called for a moment.
const name = "bothy-memory"

// Open opens an empty file with large pages under a number, which must be free; programs
// that are executed have it, too. It needs CAP_SYS_ADMIN in the user namespace that the
// mounts belong to, and Linux 5.2.
func Open(number int) error {
	dir, err := largePages()
	if err != nil {
		return fmt.Errorf("make a file system with large pages: %w", err)
	}
	defer unix.Close(dir)
	if err := open(dir, number); err != nil {
		return fmt.Errorf("open a file with large pages: %w", err)
	}
	return nil
}

// largePages makes a file system in memory that is mounted nowhere: it goes with its
// file. It may take what memory there is, as a memfd may.
func largePages() (dir int, err error) {
	fs, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fs)
	for _, option := range [][2]string{{"huge", "always"}, {"size", "0"}, {"mode", "0700"}} {
		if err := unix.FsconfigSetString(fs, option[0], option[1]); err != nil {
			return -1, err
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, err
	}
	return unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
}

func open(dir, number int) error {
	if _, err := unix.FcntlInt(uintptr(number), unix.F_GETFD, 0); err == nil {
		return fmt.Errorf("descriptor %d is taken", number)
	}
	fd, err := unix.Openat(dir, name, unix.O_CREAT|unix.O_EXCL|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Unlinkat(dir, name, 0); err != nil {
		return err
	}
	return unix.Dup3(fd, number, 0)
}

// Is tells by what /proc calls an open or a mapped file whether it is in memory: a memfd,
// or one of ours. No file of a disk is called so.
func Is(target string) bool {
	return strings.HasPrefix(target, "/memfd:") || target == "/"+name+" (deleted)"
}

// ID is the number of such a file.
type ID struct{ Dev, Ino uint64 }

// Of are those that a process has open, and the bytes that each takes.
func Of(pid int) map[ID]int64 {
	dir := "/proc/" + strconv.Itoa(pid) + "/fd"
	fds, _ := os.ReadDir(dir)
	sizes := map[ID]int64{}
	for _, fd := range fds {
		link := dir + "/" + fd.Name()
		target, err := os.Readlink(link)
		if err != nil || !Is(target) {
			continue
		}
		var st unix.Stat_t
		if unix.Stat(link, &st) == nil {
			sizes[ID{st.Dev, st.Ino}] = st.Blocks * 512
		}
	}
	return sizes
}
