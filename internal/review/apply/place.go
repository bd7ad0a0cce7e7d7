package apply

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/review/beneath"
	"github.com/bothy-dev/bothy/internal/review/quote"
	"github.com/bothy-dev/bothy/internal/review/record"
)

// unstage removes the temporary file of a step. A directory stays if another program put
// something into it.
func (s *step) unstage() error {
	err := unix.Unlinkat(s.dir.FD(), s.temp, 0)
	if errors.Is(err, unix.EISDIR) {
		err = unix.Unlinkat(s.dir.FD(), s.temp, unix.AT_REMOVEDIR)
	}
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) {
		return nil
	}
	return err
}

// putInPlace puts a step into effect, in one atomic step for readers.
func (s *step) putInPlace(links *links) error {
	at := s.dir.FD()
	if s.old.Form == beneath.Nothing {
		return s.placeNew()
	}
	st, there, err := s.dir.Stat(s.name)
	if err != nil {
		return err
	}
	if !there || !isAsSeen(s.old, beneath.MarkOf(&st), false) {
		return errNewer()
	}
	if s.do == record.Remove {
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
		if s.old.Form == beneath.Directory {
			return errors.New("this file system cannot put it in the place of a directory in one step: move the directory away, and apply again")
		}
		return unix.Renameat(at, s.temp, at, s.name)
	}
	return links.around(s, s.removeOld)
}

// errLeft says that a step is done, but that the replaced file could not be removed. The removal
// stays intended, and the next command retries it.
var errLeft = errors.New("remove the replaced file")

// removeOld looks at the replaced file and removes it. If another program wrote to it in the moment
// before, removeOld puts it back.
func (s *step) removeOld() error {
	at := s.dir.FD()
	st, there, err := s.dir.Stat(s.temp)
	if err != nil || !there {
		return err
	}
	if s.old.Form == beneath.Directory {
		if checkContents(s.gone, s.dir, s.temp, aside) == nil {
			return removeTree(s.gone, s.dir, s.temp)
		}
	} else if beneath.MarkOf(&st).Aside() == s.old.Mark.Aside() {
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

// putBack undoes putInPlace. The file it takes out again must be the file that putInPlace put there.
// Otherwise another program put a newer file there meanwhile, which replaces both ours and the
// one that goes back. A touch alone does not make it a newer file.
func (s *step) putBack() error {
	at := s.dir.FD()
	for there := s.mine; ; {
		back, err := s.dir.Identify(s.temp)
		if err != nil {
			return err
		}
		if s.do == record.Bring {
			err = unix.Renameat2(at, s.temp, at, s.name, unix.RENAME_EXCHANGE)
		}
		if s.do == record.Remove || errors.Is(err, unix.ENOENT) { // ours was moved away, or removed
			err = unix.Renameat2(at, s.temp, at, s.name, unix.RENAME_NOREPLACE)
			if !errors.Is(err, unix.EEXIST) {
				return err
			}
			if s.do == record.Remove { // the newer one stays
				return unix.Unlinkat(at, s.temp, 0)
			}
			continue
		}
		if err != nil {
			return err
		}
		out, err := s.dir.Identify(s.temp)
		if err != nil {
			return err
		}
		if out.IsSame(there) {
			_ = s.unstage()
			if _, stays, _ := s.dir.Stat(s.temp); stays { // a directory with something new in it
				return fmt.Errorf("the contents of %s are now in %s", quote.Path(s.name), quote.Path(s.temp))
			}
			return nil
		}
		there = back
	}
}

// placeNew puts a file at an unused name.
func (s *step) placeNew() error {
	at := s.dir.FD()
	err := unix.Renameat2(at, s.temp, at, s.name, unix.RENAME_NOREPLACE)
	switch {
	case !errors.Is(err, unix.EINVAL):
	case s.form == beneath.Directory: // this file system cannot; an empty one is all that it replaces
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
