package review

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// unstage removes the temporary file of a step. A directory stays if another program put
// something into it.
func (s *step) unstage() error {
	err := unix.Unlinkat(s.dir.fd(), s.temp, 0)
	if errors.Is(err, unix.EISDIR) {
		err = unix.Unlinkat(s.dir.fd(), s.temp, unix.AT_REMOVEDIR)
	}
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) {
		return nil
	}
	return err
}

// place puts a step into effect, in one atomic step for readers.
func (s *step) place(links *links) error {
	at := s.dir.fd()
	if s.old.Form == Nothing {
		return s.placeNew()
	}
	st, there, err := s.dir.stat(s.name)
	if err != nil {
		return err
	}
	if !there || !asSeen(s.old, markOf(&st), false) {
		return errNewer()
	}
	if s.do == remove {
		if err := unix.Renameat2(at, s.name, at, s.temp, unix.RENAME_NOREPLACE); err != nil {
			if !errors.Is(err, unix.EINVAL) {
				return err
			}
			return unix.Unlinkat(at, s.name, 0) // this file system cannot
		}
	} else if err := unix.Renameat2(at, s.temp, at, s.name, unix.RENAME_EXCHANGE); err != nil {
		if !errors.Is(err, unix.EINVAL) {
			return err
		}
		if s.old.Form == Directory {
			return errors.New("this file system cannot put it in the place of a directory in one step: move the directory away, and apply again")
		}
		return unix.Renameat(at, s.temp, at, s.name)
	}
	return links.around(s, s.finish)
}

// errLeft says that a step is done, but that the replaced file could not be removed. The removal
// stays intended, and the next command retries it.
var errLeft = errors.New("remove what was taken out of its place")

// finish looks at the replaced file and removes it. If another program wrote to it in the moment
// before, finish puts it back.
func (s *step) finish() error {
	at := s.dir.fd()
	st, there, err := s.dir.stat(s.temp)
	if err != nil || !there {
		return err
	}
	if s.old.Form == Directory {
		if s.gone.unlike(s.dir, s.temp, aside) == nil {
			return s.gone.remove(s.dir, s.temp)
		}
	} else if markOf(&st).aside() == s.old.Mark.aside() {
		if err := unix.Unlinkat(at, s.temp, 0); err != nil {
			return fmt.Errorf("%w: %w", errLeft, err)
		}
		return nil
	}
	if err := s.putBack(); err != nil {
		return err
	}
	return errNewer()
}

// putBack undoes place. The file it takes out again must be the file that place put there.
// Otherwise another program put a newer file there meanwhile, which replaces both ours and the
// one that goes back. A touch alone does not make it a newer file.
func (s *step) putBack() error {
	at := s.dir.fd()
	for there := s.mine; ; {
		back, err := s.dir.own(s.temp)
		if err != nil {
			return err
		}
		if s.do == bring {
			err = unix.Renameat2(at, s.temp, at, s.name, unix.RENAME_EXCHANGE)
		}
		if s.do == remove || errors.Is(err, unix.ENOENT) { // ours was moved away, or removed
			err = unix.Renameat2(at, s.temp, at, s.name, unix.RENAME_NOREPLACE)
			if !errors.Is(err, unix.EEXIST) {
				return err
			}
			if s.do == remove { // the newer one stays
				return unix.Unlinkat(at, s.temp, 0)
			}
			continue
		}
		if err != nil {
			return err
		}
		out, err := s.dir.own(s.temp)
		if err != nil {
			return err
		}
		if out.is(there) {
			_ = s.unstage()
			if _, stays, _ := s.dir.stat(s.temp); stays { // a directory with something new in it
				return fmt.Errorf("what was in %s lies in %s", Quote(s.name), Quote(s.temp))
			}
			return nil
		}
		there = back
	}
}

// placeNew puts a file at an unused name.
func (s *step) placeNew() error {
	at := s.dir.fd()
	err := unix.Renameat2(at, s.temp, at, s.name, unix.RENAME_NOREPLACE)
	switch {
	case !errors.Is(err, unix.EINVAL):
	case s.form == Directory: // this file system cannot; an empty one is all that it replaces
		err = unix.Renameat(at, s.temp, at, s.name)
	default:
		if err = unix.Linkat(at, s.temp, at, s.name, 0); err == nil {
			return unix.Unlinkat(at, s.temp, 0)
		}
	}
	if errors.Is(err, unix.EEXIST) || errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.ENOTDIR) {
		return errNewer()
	}
	return err
}
