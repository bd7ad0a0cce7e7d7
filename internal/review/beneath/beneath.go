// Package beneath works on directories whose contents others may swap at any moment, for example
// because a sandbox writes them. It opens names one at a time below an open directory, follows no
// link, and stays in one file system. A [Mark] tells whether a file changed between two looks.
package beneath

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/review/quote"
	"github.com/bothy-dev/bothy/spec"
)

// Dir is an open directory, from which names are opened one at a time.
type Dir struct{ f *os.File }

// AsDirectory are the flags to open a directory with, in which names are looked up.
const AsDirectory = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

// OpenTop opens the directory at a host path, which must not contain a link.
func OpenTop(name string) (*Dir, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, name, &unix.OpenHow{
		Flags: AsDirectory, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return &Dir{os.NewFile(uintptr(fd), name)}, nil
}

func (d *Dir) FD() int { return int(d.f.Fd()) }

func (d *Dir) Close() {
	if d != nil {
		_ = d.f.Close()
	}
}

// Sync brings the directory's names to the disk.
func (d *Dir) Sync() error { return d.f.Sync() }

// stayBelow stays in one file system below a directory and follows no link.
const stayBelow = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV

// Open opens a relative path.
func (d *Dir) Open(rel string, flags uint64) (*os.File, error) {
	for {
		fd, err := unix.Openat2(d.FD(), rel, &unix.OpenHow{Flags: flags | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: stayBelow})
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			continue // something was renamed meanwhile
		}
		if err != nil {
			return nil, &fs.PathError{Op: "open", Path: rel, Err: err}
		}
		return os.NewFile(uintptr(fd), rel), nil
	}
}

// OpenDir opens a directory below, in which names can be looked up; the path may be ".".
func (d *Dir) OpenDir(rel string) (*Dir, error) {
	f, err := d.Open(rel, AsDirectory)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstatat(int(f.Fd()), ".", &st, 0); errors.Is(err, unix.EACCES) {
		_ = f.Close()
		return nil, &fs.PathError{Op: "open", Path: rel, Err: err}
	}
	return &Dir{f}, nil
}

// CheckWritable fails if the caller may not add or remove names in the directory. called is its name
// in the error.
func (d *Dir) CheckWritable(called string) error {
	if err := unix.Faccessat(d.FD(), ".", unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		return fmt.Errorf("write in %s: %w", quote.Path(called), err)
	}
	return nil
}

// OpenParent opens the directory of a path, and returns the path's last name.
func (d *Dir) OpenParent(rel string) (*Dir, string, error) {
	p, err := d.OpenDir(path.Dir(rel))
	return p, path.Base(rel), err
}

// Names returns the directory's names, sorted.
func (d *Dir) Names() ([]string, error) {
	if _, err := d.f.Seek(0, 0); err != nil {
		return nil, err
	}
	list, err := d.f.Readdirnames(-1)
	slices.Sort(list)
	return list, err
}

// Stat looks at a name in the directory itself. A missing name is not an error; the result is
// false.
func (d *Dir) Stat(name string) (unix.Stat_t, bool, error) {
	var st unix.Stat_t
	if d == nil {
		return st, false, nil
	}
	err := unix.Fstatat(d.FD(), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case err == nil:
		return st, true, nil
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return st, false, nil
	}
	return st, false, &fs.PathError{Op: "stat", Path: name, Err: err}
}

// Chmod gives a directory its permissions; the sandbox may have removed them all. Permissions of
// anything else do not matter.
func (d *Dir) Chmod(name string, mode uint32) error {
	f, err := d.Open(name, unix.O_PATH|unix.O_DIRECTORY)
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

// Entry returns the state of a name.
func (d *Dir) Entry(name string) (Entry, error) {
	st, there, err := d.Stat(name)
	if err != nil || !there {
		return Entry{}, err
	}
	e := entryOf(&st)
	if e.Form == Link {
		e.Target, err = d.readLink(name)
	}
	return e, err
}

func (d *Dir) readLink(name string) (string, error) {
	b := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(d.FD(), name, b)
	if err != nil {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: err}
	}
	return string(b[:n]), nil
}

func entryOf(st *unix.Stat_t) Entry {
	e := Entry{Form: Special, Mode: st.Mode & 0o777, Size: st.Size, Mark: MarkOf(st)}
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

// Form is the form of a file.
type Form string

// Forms of files.
const (
	Nothing   Form = ""
	File      Form = "file"
	Directory Form = "directory"
	Link      Form = "symlink"
	Special   Form = "special" // a device, a socket, a pipe: never applied
)

// Entry is one side of a change.
type Entry struct {
	Form   Form
	Mode   uint32 // permissions only
	Size   int64
	Target string // of a link
	Mark   Mark
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

func MarkOf(st *unix.Stat_t) Mark {
	return Mark{Inode: st.Ino, Mode: st.Mode, Size: st.Size, Modified: st.Mtim.Nano(), Changed: st.Ctim.Nano()}
}

// Aside returns the mark without the fields that a rename changes.
func (m Mark) Aside() Mark {
	m.Changed = 0
	return m
}

// Identity identifies a file that an apply made. The inode number alone is not enough: another file
// may get it once the first one is removed.
type Identity struct {
	Mark Mark  `json:"mark"`
	Born int64 `json:"born"` // nanoseconds; zero if unknown
}

// Identify looks at a name in the directory; the result is none if the name does not exist.
func (d *Dir) Identify(name string) (Identity, error) {
	st, there, err := d.Stat(name)
	if err != nil || !there {
		return Identity{}, err
	}
	return Identity{MarkOf(&st), d.BornAt(name)}, nil
}

func (o Identity) IsNone() bool { return o == Identity{} }

// IsSame reports whether both are the same file, even if it was changed.
func (o Identity) IsSame(f Identity) bool { return o.Mark.Inode == f.Mark.Inode && o.Born == f.Born }

// IsUnwritten reports whether both are the same file and it was not written to.
func (o Identity) IsUnwritten(f Identity) bool {
	return o.IsSame(f) && o.Mark.Size == f.Mark.Size && o.Mark.Modified == f.Mark.Modified
}

// ErrChanged returns the error for a file that is being written just now.
func ErrChanged() error {
	return spec.Errorf(spec.ErrConflict, "it was changed while it was looked at").WithHint("try again, or stop the sandbox first")
}

// OpenSeen opens a regular file, and fails if it changed since it was seen.
func (d *Dir) OpenSeen(rel string, seen Mark) (*os.File, error) {
	f, err := d.Open(rel, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return nil, err
	}
	if err := CheckUnchanged(f, seen); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// CheckUnchanged fails if an open file changed since it was seen.
func CheckUnchanged(f *os.File, seen Mark) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	if MarkOf(&st) != seen {
		return fmt.Errorf("read %s: %w", quote.Path(f.Name()), ErrChanged())
	}
	return nil
}

// BornAt returns the creation time of a name in nanoseconds; zero if unknown.
func (d *Dir) BornAt(name string) int64 {
	var st unix.Statx_t
	err := unix.Statx(d.FD(), name, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BTIME, &st)
	if err != nil || st.Mask&unix.STATX_BTIME == 0 {
		return 0
	}
	return st.Btime.Sec*1e9 + int64(st.Btime.Nsec)
}

// Mkdir makes a directory with a mode, regardless of the umask.
func (d *Dir) Mkdir(name string, mode uint32) error {
	if err := unix.Mkdirat(d.FD(), name, mode|0o700); err != nil {
		return fmt.Errorf("make directory %s: %w", quote.Path(name), err)
	}
	made, err := d.OpenDir(name)
	if err != nil {
		return err
	}
	defer made.Close()
	return made.SetMode(mode)
}

// SetMode sets a directory's permissions, and keeps its set-group-ID bit.
func (d *Dir) SetMode(mode uint32) error {
	var st unix.Stat_t
	if err := unix.Fstat(d.FD(), &st); err != nil {
		return err
	}
	mode = st.Mode&unix.S_ISGID | mode | 0o700
	if st.Mode&0o7777 == mode {
		return nil
	}
	return unix.Fchmod(d.FD(), mode)
}

// SumNames adds up the names in a directory that are not left out.
func (d *Dir) SumNames(leftOut map[string]bool) (sum uint64, err error) {
	names, err := d.Names()
	for _, name := range names {
		if !leftOut[name] {
			h := sha256.Sum256([]byte(name))
			sum += binary.LittleEndian.Uint64(h[:])
		}
	}
	return sum, err
}

// IsMissing reports whether an error comes from opening a path below a file, a link or a missing
// name.
func IsMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}

// Reason returns an error's text without the part that the caller adds.
func Reason(err error) string {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err.Error()
	}
	return strings.TrimSpace(err.Error())
}

// MarkAt looks at a path below the directory.
func MarkAt(d *Dir, p string) (Mark, error) {
	in, name, err := d.OpenParent(p)
	if err != nil {
		return Mark{}, err
	}
	defer in.Close()
	st, there, err := in.Stat(name)
	if err == nil && !there {
		err = unix.ENOENT
	}
	return MarkOf(&st), err
}

// DirEntry is an entry of a directory.
type DirEntry struct {
	Name  string
	Inode uint64 // its number
	kind  byte   // as DT_REG
}

// EachFile calls a function for the names below a directory that may be regular files, but skips
// some paths. It skips a directory that it cannot list.
func (d *Dir) EachFile(without []string, visit func(in *Dir, at string, e DirEntry)) error {
	buf := make([]byte, 32<<10)
	for queue := []string{"."}; len(queue) > 0; queue = queue[1:] {
		in, err := d.OpenDir(queue[0])
		if err != nil {
			continue
		}
		err = in.eachEntry(buf, func(e DirEntry) {
			switch in.kindOf(e) {
			case unix.DT_DIR:
				if p := path.Join(queue[0], e.Name); !slices.Contains(without, p) {
					queue = append(queue, p)
				}
			case unix.DT_REG:
				visit(in, queue[0], e)
			}
		})
		in.Close()
		if err != nil && !IsMissing(err) { // it may have been removed just now
			return err
		}
	}
	return nil
}

// kindOf looks up the kind of a name if the directory does not give it.
func (d *Dir) kindOf(e DirEntry) byte {
	if e.kind != unix.DT_UNKNOWN {
		return e.kind
	}
	st, _, _ := d.Stat(e.Name)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return unix.DT_DIR
	case unix.S_IFREG:
		return unix.DT_REG
	}
	return unix.DT_UNKNOWN
}

// eachEntry goes through the names in the directory itself.
func (d *Dir) eachEntry(buf []byte, visit func(DirEntry)) error {
	for {
		n, err := unix.Getdents(d.FD(), buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return err
		}
		for rest := buf[:n]; len(rest) > 0; {
			var e DirEntry
			if e, rest = cutDirent(rest); e.Name != "." && e.Name != ".." {
				visit(e)
			}
		}
	}
}

// cutDirent takes one struct linux_dirent64 from the kernel's buffer, see getdents(2).
func cutDirent(b []byte) (e DirEntry, rest []byte) {
	const head = 8 + 8 + 2 + 1 // inode, where the next is, length, type
	length := binary.NativeEndian.Uint16(b[16:])
	name, _, _ := bytes.Cut(b[head:length], []byte{0})
	return DirEntry{string(name), binary.NativeEndian.Uint64(b), b[18]}, b[length:]
}
