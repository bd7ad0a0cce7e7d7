// Package archive moves trees of files as tar streams. Both ends may be hostile, and active
// during a copy: a source may turn into a link in between, and a destination may contain links to
// write through. So the package takes every step from an open directory to one name in it. It
// follows no symbolic link on the way, except where the caller asked for it.
package archive

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// fileID recognizes another name of the same file, and a directory that is reached again.
type fileID struct{ dev, ino uint64 }

func fileIDOf(st *unix.Stat_t) fileID { return fileID{st.Dev, st.Ino} }

// errChanged reports that another program changed a file during the copy.
var errChanged = errors.New("it changed while it was copied")

// openDir opens a directory inside another one, but not a link to one. It checks before and after the
// open: gVisor follows a link for O_DIRECTORY, despite O_NOFOLLOW.
func openDir(parent int, name string) (int, error) {
	var before, behind unix.Stat_t
	if err := unix.Fstatat(parent, name, &before, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return -1, err
	}
	fd, err := unix.Openat(parent, name, asDirectory|unix.O_NOFOLLOW, 0)
	if err != nil {
		return -1, err
	}
	if err = unix.Fstat(fd, &behind); err == nil && fileIDOf(&before) != fileIDOf(&behind) {
		err = unix.ELOOP
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// dirHandle returns a descriptor of the directory at which a root was opened.
func dirHandle(root *os.Root) (int, error) {
	f, err := root.Open(".")
	if err != nil {
		return -1, err
	}
	defer f.Close()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open the destination: %w", err)
	}
	return fd, nil
}

// zeros replaces the missing end of a file that shrank while it was read.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

var _ io.Reader = zeros{}
