package checkpoint

import (
	"errors"
	"io"
	"os"
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
