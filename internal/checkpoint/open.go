package checkpoint

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// self is a path to an open file, be it open for its path alone.
func self(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

// dir is an open directory that is walked through.
type dir struct {
	*os.File
	shut bool // its owner, whom we are, may not look up names in it
}

// isShut tells whether an open directory is one in which we may not look up names, and may
// let ourselves.
func (e *Entry) isShut() bool { return e.Mode&0o100 == 0 && int(e.UID) == os.Geteuid() }

// look has a function look up names in the directory, be it shut.
func (d dir) look(up func() error) error {
	err := up()
	if !d.shut || !errors.Is(err, unix.EACCES) {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(d.Fd()), &st); err != nil {
		return err
	}
	return lend(self(int(d.Fd())), &st, up)
}

func (d dir) openAnyway(name string, flags int) (f *os.File, err error) {
	err = d.look(func() (err error) {
		f, err = openAnyway(d.File, name, flags)
		return err
	})
	return f, err
}

func (d dir) readlink(name string) (target string, err error) {
	err = d.look(func() (err error) {
		target, err = readlink(d.File, name)
		return err
	})
	return target, err
}

// attributes are those of a name of the directory.
func (d dir) attributes(name string) ([]Attr, error) {
	var pin *os.File
	err := d.look(func() (err error) {
		pin, err = openIn(d.File, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC)
		return err
	})
	if err != nil {
		return nil, err
	}
	defer pin.Close()
	return attributes(pin), nil
}

// openAnyway is openIn for what programs inside may have taken its owner the
// permission, which is theirs to give back.
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

// openPinned opens what was found, giving its owner the permission for a moment.
func openPinned(pin, flags int) (*os.File, error) {
	var st unix.Stat_t
	if err := unix.Fstat(pin, &st); err != nil {
		return nil, err
	}
	if kind := st.Mode & unix.S_IFMT; kind != unix.S_IFREG && kind != unix.S_IFDIR {
		return nil, unix.EACCES
	}
	path, fd := self(pin), -1
	err := lend(path, &st, func() (err error) {
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

// lend gives the owner of a file all permissions for as long as a function takes. Who
// changes them meanwhile has the last word.
func lend(path string, st *unix.Stat_t, use func() error) error {
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
