package hostroot

import (
	"io"
	"slices"

	"golang.org/x/sys/unix"
)

// copier writes a scanner's files into a directory: their content, and the targets of links.
// Owner, times and extended attributes are those of a new file; of the mode only the x bits are
// kept.
type copier struct {
	dirs  []int // destination directories, the current one last
	buf   []byte
	total int
}

func newCopier(dst int) *copier {
	return &copier{dirs: []int{dst}, buf: make([]byte, 64<<10)}
}

// close closes the directories that a failed scan left open.
func (c *copier) close() {
	for len(c.dirs) > 1 {
		c.leave()
	}
}

func (c *copier) enter(name string) error {
	fd, err := makeDirAt(c.dst(), name, 0o755)
	if err != nil {
		return err
	}
	c.dirs = append(c.dirs, fd)
	return nil
}

func (c *copier) leave() {
	unix.Close(c.dst())
	c.dirs = c.dirs[:len(c.dirs)-1]
}

func (c *copier) dst() int { return c.dirs[len(c.dirs)-1] }

func (c *copier) entry(dirfd int, name string, st *unix.Stat_t) error {
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return c.link(dirfd, name)
	}
	return c.file(dirfd, name)
}

func (c *copier) link(dirfd int, name string) error {
	n, err := unix.Readlinkat(dirfd, name, c.buf[:unix.PathMax])
	if err != nil {
		return unlessGone(err)
	}
	return unix.Symlinkat(string(c.buf[:n]), c.dst(), name)
}

// file copies a regular file, unless its content looks like a secret. The file may have changed since
// the scanner saw it, so it is checked again once it is open.
func (c *copier) file(dirfd int, name string) error {
	// O_NONBLOCK: it may be a fifo by now.
	fd, err := unix.Openat(dirfd, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return unlessGone(err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Mode&othersRead == 0 || st.Size > maxFile {
		return nil
	}
	content, err := c.read(fd)
	if err != nil {
		return err
	}
	if len(content) > maxFile || c.total+len(content) > maxTotal || secretInside(content) {
		return nil
	}
	c.total += len(content)
	return writeFileAt(c.dst(), name, content, 0o644|st.Mode&0o111)
}

// read returns the content of a file, at most one byte more than maxFile. It is valid until the
// next call.
func (c *copier) read(fd int) ([]byte, error) {
	n := 0
	for n <= maxFile {
		if n == len(c.buf) {
			c.buf = slices.Grow(c.buf, min(n, maxFile+1-n))
			c.buf = c.buf[:min(cap(c.buf), maxFile+1)]
		}
		m, err := unix.Read(fd, c.buf[n:])
		if err == unix.EINTR {
			continue
		}
		if err != nil || m == 0 {
			return c.buf[:n], err
		}
		n += m
	}
	return c.buf[:n], nil
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
	defer unix.Close(fd)
	for len(content) > 0 {
		n, err := unix.Write(fd, content)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		if n == 0 {
			return io.ErrShortWrite
		}
		content = content[n:]
	}
	return unix.Fchmod(fd, mode)
}
