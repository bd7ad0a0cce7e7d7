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

// openTop opens the directory at a path of the host's. No link may stand in it.
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

// open opens what lies at a relative path.
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

// writable is an error if the caller may not add or remove names in the directory, which is
// called that.
func (d *dir) writable(called string) error {
	if err := unix.Faccessat(d.fd(), ".", unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		return fmt.Errorf("write in %s: %w", Quote(called), err)
	}
	return nil
}

// parent opens the directory that a path lies in, and gives the last name.
func (d *dir) parent(rel string) (*dir, string, error) {
	p, err := d.sub(path.Dir(rel))
	return p, path.Base(rel), err
}

// names are the directory's, sorted.
func (d *dir) names() ([]string, error) {
	if _, err := d.f.Seek(0, 0); err != nil {
		return nil, err
	}
	list, err := d.f.Readdirnames(-1)
	slices.Sort(list)
	return list, err
}

// stat looks at a name in the directory itself; a name that is not there is no
// error, but has no form.
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

// chmod gives a directory its permissions. The inside may have taken them all away,
// and what is no directory has none that matter.
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

// entry is what a name is.
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

// Mark tells one state of a file from another without its content: nobody can
// change a file's content and keep the time at which its inode changed; but what is
// written through memory changes it only once the kernel looks, and then once for all
// that is written until the page is on its way to the disk.
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

// aside is the mark without what a rename changes.
func (m Mark) aside() Mark {
	m.Changed = 0
	return m
}

// own is a file that an apply made. Its number alone is that of another one, once it is
// removed.
type own struct {
	Mark Mark  `json:"mark"`
	Born int64 `json:"born"` // nanoseconds; zero where nobody knows
}

// own looks at a name in the directory; it is none if nothing is there.
func (d *dir) own(name string) (own, error) {
	st, there, err := d.stat(name)
	if err != nil || !there {
		return own{}, err
	}
	return own{markOf(&st), d.bornAt(name)}, nil
}

func (o own) none() bool { return o == own{} }

// is tells whether both are the same file, whatever was done to it.
func (o own) is(f own) bool { return o.Mark.Inode == f.Mark.Inode && o.Born == f.Born }

// has tells whether both are the same file, that nobody wrote to.
func (o own) has(f own) bool {
	return o.is(f) && o.Mark.Size == f.Mark.Size && o.Mark.Modified == f.Mark.Modified
}

// errChanged says that a file is being written just now.
func errChanged() error {
	return spec.Errorf(spec.ErrConflict, "it was changed while it was looked at").WithHint("try again, or stop the sandbox first")
}

// read opens a regular file that must still be as it was seen.
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

// unchanged wants an open file to be as it was seen.
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

// bornAt is when a name was made, in nanoseconds; zero where nobody knows.
func (d *dir) bornAt(name string) int64 {
	var st unix.Statx_t
	err := unix.Statx(d.fd(), name, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BTIME, &st)
	if err != nil || st.Mask&unix.STATX_BTIME == 0 {
		return 0
	}
	return st.Btime.Sec*1e9 + int64(st.Btime.Nsec)
}
