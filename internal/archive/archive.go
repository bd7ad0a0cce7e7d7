// Package archive moves trees of files as tar streams. Both ends may be
// hostile, and at work while a copy is made: what is read may turn into a link
// in between, what is written may come with links to write through. So every
// step is taken from an open directory to one name in it, and no symbolic link
// is ever followed on the way, except where following was asked for.
package archive

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// fileID tells files with several names, and directories met again, apart.
type fileID struct{ dev, ino uint64 }

func id(st *unix.Stat_t) fileID { return fileID{st.Dev, st.Ino} }

// errChanged says that somebody else was at work on a file.
var errChanged = errors.New("it changed while it was copied")

// openDir opens one directory in another, itself and no link to it. It looks before and
// behind: gVisor follows a link for O_DIRECTORY, whatever O_NOFOLLOW says.
func openDir(parent int, name string) (int, error) {
	var before, behind unix.Stat_t
	if err := unix.Fstatat(parent, name, &before, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return -1, err
	}
	fd, err := unix.Openat(parent, name, asDirectory|unix.O_NOFOLLOW, 0)
	if err != nil {
		return -1, err
	}
	if err = unix.Fstat(fd, &behind); err == nil && id(&before) != id(&behind) {
		err = unix.ELOOP
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// dirHandle gives a descriptor for the directory a root was opened at.
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

// zeros stand for the end of a file that shrank while it was read.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

var _ io.Reader = zeros{}
