package checkpoint

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/checkpoint/manifest"
)

// fdPath returns a path to an open file, even one opened with O_PATH.
func fdPath(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

// dir is an open directory of a walk.
type dir struct {
	*os.File
	shut bool // its owner, as whom we run, may not look up names in it
}

// isShut reports whether we may not look up names in an open directory, but own it and could
// change that.
func isShut(e *manifest.Entry) bool { return e.Mode&0o100 == 0 && int(e.UID) == os.Geteuid() }

// lookUp runs a function that looks up names in the directory, even in a shut one.
func (d dir) lookUp(up func() error) error {
	err := up()
	if !d.shut || !errors.Is(err, unix.EACCES) {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(d.Fd()), &st); err != nil {
		return err
	}
	return lendPermissions(fdPath(int(d.Fd())), &st, up)
}

func (d dir) openAnyway(name string, flags int) (f *os.File, err error) {
	err = d.lookUp(func() (err error) {
		f, err = openAnyway(d.File, name, flags)
		return err
	})
	return f, err
}

func (d dir) readlink(name string) (target string, err error) {
	err = d.lookUp(func() (err error) {
		target, err = readlink(d.File, name)
		return err
	})
	return target, err
}

// attributes returns the attributes of a name in the directory.
func (d dir) attributes(name string) ([]manifest.Attr, error) {
	var pin *os.File
	err := d.lookUp(func() (err error) {
		pin, err = openIn(d.File, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC)
		return err
	})
	if err != nil {
		return nil, err
	}
	defer pin.Close()
	return attributes(pin), nil
}

// openAnyway is openIn for files whose owner may have no permission, because a program in the
// sandbox removed it.
func openAnyway(d *os.File, name string, flags int) (*os.File, error) {
	f, err := openIn(d, name, flags)
	if !errors.Is(err, unix.EACCES) {
		return f, err
	}
	pin, err := openIn(d, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC)
	if err != nil {
		return nil, err
	}
	defer pin.Close()
	return openPinned(int(pin.Fd()), flags)
}

// openPinned opens a pinned file, giving its owner the permission for a moment.
func openPinned(pin, flags int) (*os.File, error) {
	var st unix.Stat_t
	if err := unix.Fstat(pin, &st); err != nil {
		return nil, err
	}
	if kind := st.Mode & unix.S_IFMT; kind != unix.S_IFREG && kind != unix.S_IFDIR {
		return nil, unix.EACCES
	}
	path, fd := fdPath(pin), -1
	err := lendPermissions(path, &st, func() (err error) {
		fd, err = unix.Open(path, flags&^unix.O_NOFOLLOW, 0)
		return err
	})
	if fd < 0 {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), path)
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// lendPermissions gives the owner of a file all permissions while a function runs. If another program
// changes them meanwhile, its change stays.
func lendPermissions(path string, st *unix.Stat_t, use func() error) error {
	had := st.Mode & 0o7777
	lent := had | 0o700
	if err := unix.Chmod(path, lent); err != nil {
		return err
	}
	return errors.Join(use(), func() error {
		var now unix.Stat_t
		if err := unix.Stat(path, &now); err != nil || now.Mode&0o7777 != lent {
			return err
		}
		return unix.Chmod(path, had)
	}())
}
