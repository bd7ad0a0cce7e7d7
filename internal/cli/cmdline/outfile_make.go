package cmdline

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Make writes a new file, and then moves it into place.
func (o Outfile) Make(do func(*os.File) error) error {
	temp := "." + o.name + "." + rand.Text()[:10]
	f, err := o.nameless()
	if err != nil { // not every file system supports that
		f, err = o.openNamed(temp)
	}
	if err != nil {
		return err
	}
	defer func() { _ = o.place.Remove(temp) }() // a no-op if all went well
	if err = do(f); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = o.moveIntoPlace(f, temp)
	}
	return errors.Join(err, f.Close())
}

// nameless makes a file that vanishes when the last process closes it, even after a crash.
func (o Outfile) nameless() (*os.File, error) {
	dir, err := o.place.Open(".")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	fd, err := unix.Openat(int(dir.Fd()), ".", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), o.tempPath()), nil
}

func (o Outfile) openNamed(temp string) (*os.File, error) {
	return o.place.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
}

// moveIntoPlace moves a file into place. A link cannot replace an existing file, so an unnamed file gets a
// temporary name first in that case.
func (o Outfile) moveIntoPlace(f *os.File, temp string) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	if st.Nlink == 0 {
		err := o.linkIntoPlace(f, o.name)
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		if err := o.linkIntoPlace(f, temp); err != nil {
			return err
		}
	}
	return o.place.Rename(temp, o.name)
}

func (o Outfile) linkIntoPlace(f *os.File, name string) error {
	dir, err := o.place.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	from := fmt.Sprintf("/proc/self/fd/%d", f.Fd())
	if err := unix.Linkat(unix.AT_FDCWD, from, int(dir.Fd()), name, unix.AT_SYMLINK_FOLLOW); err != nil {
		return &os.LinkError{Op: "link", Old: from, New: name, Err: err}
	}
	return nil
}
