package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/checkpoint/manifest"
	"github.com/bothy-dev/bothy/internal/store"
)

// tempPrefix marks files on their way to their final name.
const tempPrefix = ".bothy-restore-"

// errTaken says that another program writes to the directory.
var errTaken = errors.New("another program is changing it")

// replace puts a new file, or anything but a directory, in the place of an old one.
func (p *putter) replace(d *os.File, name string, e *manifest.Entry) error {
	temp := tempPrefix + store.NewID()
	if err := p.create(d, temp, e); err != nil {
		_ = unix.Unlinkat(int(d.Fd()), temp, 0)
		return err
	}
	if err := unix.Renameat(int(d.Fd()), temp, int(d.Fd()), name); err != nil {
		_ = unix.Unlinkat(int(d.Fd()), temp, 0)
		return err
	}
	if e.Same != "" {
		_ = unix.Unlinkat(int(d.Fd()), temp, 0) // a rename onto the same file does nothing
	}
	var st unix.Stat_t
	if err := unix.Fstatat(int(d.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	e.Seen = manifest.SeenOf(&st)
	// If others write there, this may be their file already.
	if e.Seen.Fresh = p.src.Shared; !p.src.Shared {
		p.placed.last = max(p.placed.last, e.Seen.Changed)
		p.placed.files = append(p.placed.files, e)
	}
	return nil
}

// openFirstName opens the file that another is a name of.
func (p *putter) openFirstName(rel string) (*os.File, error) {
	return p.openPath(rel, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC)
}

// openPath opens a path step by step: the sandbox may have put a link in its way, and it may be
// longer than one system call takes.
func (p *putter) openPath(rel string, how int) (*os.File, error) {
	steps := strings.Split(rel, "/")
	at := p.top
	for i, name := range steps {
		flags := unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
		if i == len(steps)-1 {
			flags = how
		}
		next, err := openIn(at, name, flags)
		if at != p.top {
			at.Close()
		}
		if err != nil {
			return nil, err
		}
		at = next
	}
	return at, nil
}

// create makes anything but a directory.
func (p *putter) create(d *os.File, temp string, e *manifest.Entry) error {
	at := int(d.Fd())
	switch {
	case e.Same != "":
		f, err := p.openFirstName(e.Same)
		if err != nil {
			return err
		}
		defer f.Close()
		var st unix.Stat_t
		if err := unix.Fstat(int(f.Fd()), &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
			return errors.Join(err, errTaken)
		}
		return unix.Linkat(unix.AT_FDCWD, fdPath(int(f.Fd())), at, temp, unix.AT_SYMLINK_FOLLOW)
	case e.IsFile():
		return p.writeFile(d, temp, e)
	case e.Kind() == unix.S_IFLNK:
		if err := unix.Symlinkat(e.Target, at, temp); err != nil {
			return err
		}
	default:
		if err := unix.Mknodat(at, temp, e.Kind()|0o600, 0); err != nil {
			return err
		}
	}
	return p.dressNode(d, temp, e)
}

// dressNode gives a link, pipe or device its owner and permissions. Another program that writes
// to the directory may have put something else there meanwhile.
func (p *putter) dressNode(d *os.File, name string, e *manifest.Entry) error {
	pin, err := openIn(d, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC)
	if err != nil {
		return err
	}
	defer pin.Close()
	fd := int(pin.Fd())
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != e.Kind() || st.Nlink > 1 {
		return errors.Join(err, errTaken)
	}
	if st.Uid != e.UID || st.Gid != e.GID {
		if err := unix.Fchownat(fd, "", int(e.UID), int(e.GID), unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
	}
	if e.Kind() == unix.S_IFLNK {
		return nil
	}
	narrowed, err := dressAttributes(e, pin)
	if err != nil {
		return err
	}
	return unix.Chmod(fdPath(fd), p.permissions(e, narrowed))
}

// writeFile writes a new file.
func (p *putter) writeFile(d *os.File, temp string, e *manifest.Entry) error {
	f, err := openInNew(d, temp)
	if err != nil {
		return err
	}
	err = p.contents(f, e)
	if err == nil {
		err = p.setMetadata(f, e)
	}
	return errors.Join(err, f.Close())
}

func openInNew(d *os.File, name string) (*os.File, error) {
	fd, err := unix.Openat(int(d.Fd()), name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, &os.PathError{Op: "create", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

func (p *putter) contents(f *os.File, e *manifest.Entry) error {
	if err := f.Truncate(e.Size); err != nil || len(e.Content.Pieces) == 0 {
		return err
	}
	if err := p.packs.Verify(e); err != nil { // most were verified before anything was touched
		return err
	}
	from, err := p.packs.Open(e.Content.Pack)
	if err != nil {
		return err
	}
	at := e.Content.Offset
	for _, c := range e.Content.Pieces {
		if _, err := f.Seek(c.At, io.SeekStart); err != nil {
			return err
		}
		if _, err := from.Seek(at, io.SeekStart); err != nil {
			return err
		}
		if _, err := io.CopyN(f, from, c.Length); errors.Is(err, io.EOF) {
			return manifest.ErrDamaged
		} else if err != nil {
			return err
		}
		at += c.Length
	}
	return nil
}

// setMetadata gives a file or directory its owner, attributes, permissions and time, where they differ.
func (p *putter) setMetadata(f *os.File, e *manifest.Entry) error {
	fd := int(f.Fd())
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Uid != e.UID || st.Gid != e.GID {
		if err := unix.Fchown(fd, int(e.UID), int(e.GID)); err != nil {
			return err
		}
	}
	narrowed, err := dressAttributes(e, f)
	if err != nil {
		return err
	}
	if err := unix.Fstat(fd, &st); err != nil { // a new owner clears bits, and a list has its own
		return err
	}
	if mode := p.permissions(e, narrowed); st.Mode&0o7777 != mode {
		if err := unix.Fchmod(fd, mode); err != nil {
			return err
		}
	}
	if st.Mtim.Nano() == e.Modified {
		return nil
	}
	times := []unix.Timespec{unix.NsecToTimespec(time.Now().UnixNano()), unix.NsecToTimespec(e.Modified)}
	return unix.UtimesNanoAt(unix.AT_FDCWD, fdPath(fd), times, 0)
}

// Access control lists. If a file has one, the group bits of its mode are the list's mask:
// without the list, they would be the group's rights.
const (
	accessList  = "system.posix_acl_access"
	defaultList = "system.posix_acl_default"
)

func isList(name string) bool { return name == accessList || name == defaultList }

// maxAttrs bounds the bytes of a file's attributes, and is the kernel's limit for one attribute.
const maxAttrs = 64 << 10

// attributes returns the access control lists, and the attributes of the namespace "user", some
// of which belong to an overlay's layer. It returns none if there are none, or if they cannot be
// read.
func attributes(f *os.File) (list []manifest.Attr) {
	file := fdPath(int(f.Fd()))
	n, err := unix.Listxattr(file, nil)
	if err != nil || n == 0 {
		return nil
	}
	b := make([]byte, n)
	if n, err = unix.Listxattr(file, b); err != nil {
		return nil
	}
	sum, v := 0, make([]byte, maxAttrs)
	for name := range strings.SplitSeq(strings.TrimSuffix(string(b[:n]), "\x00"), "\x00") {
		if !isList(name) && !strings.HasPrefix(name, "user.") {
			continue
		}
		n, err := unix.Getxattr(file, name, v)
		if err != nil {
			continue
		}
		if !isList(name) {
			sum += len(name) + n
		}
		if isList(name) || sum <= maxAttrs {
			list = append(list, manifest.Attr{Name: name, Value: string(v[:n])})
		}
	}
	return list
}

// dressAttributes gives a file the attributes of an entry, and no others. It reports whether an
// access control list could not be set.
func dressAttributes(e *manifest.Entry, f *os.File) (narrowed bool, err error) {
	file := fdPath(int(f.Fd()))
	has := attributes(f)
	for _, a := range has {
		if slices.ContainsFunc(e.Attrs, func(b manifest.Attr) bool { return a.Name == b.Name }) {
			continue
		}
		if err := unix.Removexattr(file, a.Name); err != nil {
			return false, fmt.Errorf("remove attribute %q: %w", a.Name, err)
		}
	}
	for _, a := range e.Attrs {
		if slices.Contains(has, a) {
			continue
		}
		err := unix.Setxattr(file, a.Name, []byte(a.Value), 0)
		switch {
		case err == nil:
		case isList(a.Name) && !store.IsFull(err):
			narrowed = true
		default:
			return false, fmt.Errorf("set attribute %q: %w", a.Name, err)
		}
	}
	return narrowed, nil
}

// permissions returns the permissions that a file gets. A file whose access control list cannot
// be restored is reported as skipped, and its group gets none.
func (p *putter) permissions(e *manifest.Entry, narrowed bool) uint32 {
	if narrowed {
		p.skipped = append(p.skipped, path.Join(p.src.Dir, e.Path))
		return e.Mode & 0o7707
	}
	return e.Mode & 0o7777
}
