package hostroot

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// copier writes a scanner's files into a directory: their content, and the targets of links.
// Owner, times and extended attributes are those of a new file; of the mode only the x bits are
// kept.
type copier struct {
	dirs  []int // destination directories, the current one last
	total int
}

// close closes the directories that a failed scan left open.
func (c *copier) close() {
	for len(c.dirs) > 1 {
		c.leaveDir()
	}
}

func (c *copier) enterDir(name string) error {
	fd, err := makeDirAt(c.current(), name, 0o755)
	if err != nil {
		return err
	}
	c.dirs = append(c.dirs, fd)
	return nil
}

func (c *copier) leaveDir() {
	unix.Close(c.current())
	c.dirs = c.dirs[:len(c.dirs)-1]
}

func (c *copier) current() int { return c.dirs[len(c.dirs)-1] }

func (c *copier) copyEntry(dirfd int, name string, st *unix.Stat_t) error {
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return c.copyLink(dirfd, name)
	}
	return c.copyFile(dirfd, name)
}

func (c *copier) copyLink(dirfd int, name string) error {
	target, err := readLink(dirfd, name)
	if err != nil {
		return unlessGone(err)
	}
	return unix.Symlinkat(target, c.current(), name)
}

// copyFile copies a regular file, unless its content looks like a secret. The file may have changed since
// the scanner saw it, so it is checked again once it is open.
func (c *copier) copyFile(dirfd int, name string) error {
	// O_NONBLOCK: it may be a fifo by now.
	fd, err := unix.Openat(dirfd, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return unlessGone(err)
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Mode&othersRead == 0 || st.Size > maxFile {
		return nil
	}
	content, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return err
	}
	if len(content) > maxFile || c.total+len(content) > maxTotal || secretInside(content) {
		return nil
	}
	c.total += len(content)
	return writeFileAt(c.current(), name, content, 0o644|st.Mode&0o111)
}

// makeDirAt makes a directory with exactly this mode and opens it.
func makeDirAt(dirfd int, name string, mode uint32) (int, error) {
	if err := unix.Mkdirat(dirfd, name, mode); err != nil {
		return -1, err
	}
	fd, err := unix.Openat(dirfd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if err := unix.Fchmod(fd, mode); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// writeFileAt makes a new file with exactly this mode.
func writeFileAt(dirfd int, name string, content []byte, mode uint32) error {
	fd, err := unix.Openat(dirfd, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	if _, err := f.Write(content); err != nil {
		return err
	}
	return unix.Fchmod(fd, mode)
}
