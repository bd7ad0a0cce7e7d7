package review

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/spec"
)

// dir is an open directory, from which names are opened one at a time.
type dir struct{ f *os.File }

const asDirectory = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

// openTop opens the directory at a host path, which must not contain a link.
func openTop(name string) (*dir, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, name, &unix.OpenHow{
		Flags: asDirectory, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return &dir{os.NewFile(uintptr(fd), name)}, nil
}

func (d *dir) fd() int { return int(d.f.Fd()) }

func (d *dir) close() {
	if d != nil {
		_ = d.f.Close()
	}
}

// beneath stays in one file system below a directory and follows no link.
const beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV

// open opens a relative path.
func (d *dir) open(rel string, flags uint64) (*os.File, error) {
	for {
		fd, err := unix.Openat2(d.fd(), rel, &unix.OpenHow{Flags: flags | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: beneath})
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			continue // something was renamed meanwhile
		}
		if err != nil {
			return nil, &fs.PathError{Op: "open", Path: rel, Err: err}
		}
		return os.NewFile(uintptr(fd), rel), nil
	}
}

// sub opens a directory below, in which names can be looked up; the path may be ".".
func (d *dir) sub(rel string) (*dir, error) {
	f, err := d.open(rel, asDirectory)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstatat(int(f.Fd()), ".", &st, 0); errors.Is(err, unix.EACCES) {
		_ = f.Close()
		return nil, &fs.PathError{Op: "open", Path: rel, Err: err}
	}
	return &dir{f}, nil
}

// writable fails if the caller may not add or remove names in the directory. called is its name
// in the error.
func (d *dir) writable(called string) error {
	if err := unix.Faccessat(d.fd(), ".", unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		return fmt.Errorf("write in %s: %w", Quote(called), err)
	}
	return nil
}

// parent opens the directory of a path, and returns the path's last name.
func (d *dir) parent(rel string) (*dir, string, error) {
	p, err := d.sub(path.Dir(rel))
	return p, path.Base(rel), err
}

// names returns the directory's names, sorted.
func (d *dir) names() ([]string, error) {
	if _, err := d.f.Seek(0, 0); err != nil {
		return nil, err
	}
	list, err := d.f.Readdirnames(-1)
	slices.Sort(list)
	return list, err
}

// stat looks at a name in the directory itself. A missing name is not an error; the result is
// false.
func (d *dir) stat(name string) (unix.Stat_t, bool, error) {
	var st unix.Stat_t
	if d == nil {
		return st, false, nil
	}
	err := unix.Fstatat(d.fd(), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case err == nil:
		return st, true, nil
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return st, false, nil
	}
	return st, false, &fs.PathError{Op: "stat", Path: name, Err: err}
}

// chmod gives a directory its permissions; the sandbox may have removed them all. Permissions of
// anything else do not matter.
func (d *dir) chmod(name string, mode uint32) error {
	f, err := d.open(name, unix.O_PATH|unix.O_DIRECTORY)
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	return unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), st.Mode&0o7000|mode)
}

// entry returns the state of a name.
func (d *dir) entry(name string) (Entry, error) {
	st, there, err := d.stat(name)
	if err != nil || !there {
		return Entry{}, err
	}
	e := entryOf(&st)
	if e.Form == Link {
		e.Target, err = d.readlink(name)
	}
	return e, err
}

func (d *dir) readlink(name string) (string, error) {
	b := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(d.fd(), name, b)
	if err != nil {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: err}
	}
	return string(b[:n]), nil
}

func entryOf(st *unix.Stat_t) Entry {
	e := Entry{Form: Special, Mode: st.Mode & 0o777, Size: st.Size, Mark: markOf(st)}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		e.Form = File
	case unix.S_IFDIR:
		e.Form, e.Size = Directory, 0
	case unix.S_IFLNK:
		e.Form, e.Mode = Link, 0o777
	}
	return e
}

// Mark tells two states of a file apart without reading its content. A program cannot change a
// file's content and keep the inode's change time. But a write through a memory map changes that
// time only once the kernel notices it, and then once for all writes until the kernel writes the
// page to disk.
type Mark struct {
	Inode    uint64 `json:"inode"`
	Mode     uint32 `json:"mode"`
	Size     int64  `json:"size"`
	Modified int64  `json:"modified"` // nanoseconds
	Changed  int64  `json:"changed"`  // of the inode, by the kernel
}

func markOf(st *unix.Stat_t) Mark {
	return Mark{Inode: st.Ino, Mode: st.Mode, Size: st.Size, Modified: st.Mtim.Nano(), Changed: st.Ctim.Nano()}
}

// aside returns the mark without the fields that a rename changes.
func (m Mark) aside() Mark {
	m.Changed = 0
	return m
}

// own identifies a file that an apply made. The inode number alone is not enough: another file
// may get it once the first one is removed.
type own struct {
	Mark Mark  `json:"mark"`
	Born int64 `json:"born"` // nanoseconds; zero if unknown
}

// own looks at a name in the directory; the result is none if the name does not exist.
func (d *dir) own(name string) (own, error) {
	st, there, err := d.stat(name)
	if err != nil || !there {
		return own{}, err
	}
	return own{markOf(&st), d.bornAt(name)}, nil
}

func (o own) none() bool { return o == own{} }

// is reports whether both are the same file, even if it was changed.
func (o own) is(f own) bool { return o.Mark.Inode == f.Mark.Inode && o.Born == f.Born }

// has reports whether both are the same file and it was not written to.
func (o own) has(f own) bool {
	return o.is(f) && o.Mark.Size == f.Mark.Size && o.Mark.Modified == f.Mark.Modified
}

// errChanged returns the error for a file that is being written just now.
func errChanged() error {
	return spec.Errorf(spec.ErrConflict, "it was changed while it was looked at").WithHint("try again, or stop the sandbox first")
}

// read opens a regular file, and fails if it changed since it was seen.
func (d *dir) read(rel string, seen Mark) (*os.File, error) {
	f, err := d.open(rel, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return nil, err
	}
	if err := unchanged(f, seen); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// unchanged fails if an open file changed since it was seen.
func unchanged(f *os.File, seen Mark) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	if markOf(&st) != seen {
		return fmt.Errorf("read %s: %w", Quote(f.Name()), errChanged())
	}
	return nil
}

// bornAt returns the creation time of a name in nanoseconds; zero if unknown.
func (d *dir) bornAt(name string) int64 {
	var st unix.Statx_t
	err := unix.Statx(d.fd(), name, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BTIME, &st)
	if err != nil || st.Mask&unix.STATX_BTIME == 0 {
		return 0
	}
	return st.Btime.Sec*1e9 + int64(st.Btime.Nsec)
}
