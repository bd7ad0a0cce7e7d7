package review

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// tempPrefix marks files that are on their way into their place.
const tempPrefix = ".bothy-apply-"

func newNonce() string {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

func (a *applying) temp() string {
	a.steps++
	return tempPrefix + a.nonce + "-" + strconv.Itoa(a.steps)
}

// stage writes a new file beside the place it shall have.
func (a *applying) stage(s *step) error {
	err := a.fill(s)
	if err == nil && a.outcome[s.order].Result == "" {
		s.mine, err = s.dir.own(s.temp)
	}
	return err
}

func (a *applying) fill(s *step) error {
	o := a.orders[s.order]
	switch o.New.Form {
	case Link:
		return a.naming(s, func() error { return unix.Symlinkat(o.New.Target, s.dir.fd(), s.temp) })
	case Directory:
		return a.naming(s, func() error { return s.dir.mkdir(s.temp, o.mode()) })
	}
	if o.Pick != nil {
		return a.stageHunks(s)
	}
	in, mark := a.upper, o.New.Mark
	if o.Kind == Mode { // what is written through memory meanwhile has no flags, and no other mark
		in, mark = a.host, o.Old.Mark
	}
	from, err := in.read(o.Path, mark)
	if err != nil {
		return err
	}
	defer from.Close()
	return a.write(s, o.mode(), func(to *os.File) error {
		var seen *digest
		if o.Shown != nil {
			seen = newDigest()
		}
		if err := copyData(to, from, o.New.Size, seen); err != nil {
			return err
		}
		if seen != nil && seen.of(o.New.Size) != *o.Shown {
			return errChanged()
		}
		return unchanged(from, mark)
	})
}

// hunks are those of a text that are wanted.
func (a *applying) hunks(o Order) (t Text, some []hunk, err error) {
	if !o.hasHunks() {
		return t, nil, nil
	}
	t, err = newReader(a.look).Text(o.Change)
	if err == nil && o.Shown != nil && t.Digest != *o.Shown {
		err = errChanged()
	}
	if err != nil {
		return t, nil, err
	}
	return t, t.pick(o.Pick), nil
}

// stageHunks writes the host's file with some of the hunks.
func (a *applying) stageHunks(s *step) error {
	o := a.orders[s.order]
	t, some, err := a.hunks(o)
	if err != nil {
		return err
	}
	if len(some) == 0 {
		a.end(s.order, Unmatched, t.Left)
		return nil
	}
	s.partly = len(some) < len(t.hunks) || o.Old.Mode != o.New.Mode && o.Old.Form != Nothing
	mode := o.mode()
	if s.partly && o.Old.Form != Nothing {
		mode = o.Old.Mode
	}
	return a.write(s, mode, func(to *os.File) error {
		_, err := io.WriteString(to, merge(t.old, t.now, some))
		return err
	})
}

// few tells a batch of which each file is made durable by itself. More are made
// so with all else that the file system has to write.
func (a *applying) few() bool { return len(a.batch) <= 16 }

// sync makes durable what the batch has done in its directories, and, if it is
// large, the files.
func (a *applying) sync() error {
	if !a.few() {
		if err := unix.Syncfs(a.host.fd()); err != nil {
			return fmt.Errorf("write to the disk: %w", err)
		}
		return nil
	}
	for _, s := range a.batch {
		if err := s.dir.f.Sync(); err != nil {
			return fmt.Errorf("write to the disk: %w", err)
		}
	}
	return nil
}

// naming does what adds or removes names beside the place of a step. What is done between
// two such, which may take long, is not within it: others may do the same meanwhile.
func (a *applying) naming(s *step, do func() error) error {
	defer a.touching(path.Dir(a.orders[s.order].Path), s.dir)()
	return do()
}

// write makes the new file. It is a fresh one, of the caller's, never set-uid.
func (a *applying) write(s *step, mode uint32, fill func(*os.File) error) error {
	f, err := a.create(s)
	if err != nil {
		return fmt.Errorf("write beside %s: %w", Quote(s.name), err)
	}
	err = fill(f)
	if err == nil {
		err = unix.Fchmod(int(f.Fd()), mode&0o777)
	}
	if err == nil && a.few() {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		_ = a.naming(s, func() error { return unix.Unlinkat(s.dir.fd(), s.temp, 0) })
	}
	return err
}

func (a *applying) create(s *step) (f *os.File, err error) {
	err = a.naming(s, func() error {
		fd, err := unix.Openat(s.dir.fd(), s.temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		f = os.NewFile(uintptr(fd), s.temp)
		return err
	})
	return f, err
}

// commit carries a batch out. What will lie about meanwhile is noted before it
// appears, so that it is found after a crash, and again before it takes the place of others:
// beside the name lies ours until then, and later it is the host's. What was written is made
// durable before it takes its place, and is in its place before that is written down, which
// may be some batches later.
func (a *applying) commit() error {
	if len(a.batch) == 0 {
		return nil
	}
	defer a.drop()
	if err := a.intend(a.batch); err != nil {
		return err
	}
	for i := range a.batch {
		s := &a.batch[i]
		if !s.fresh {
			continue
		}
		if err := a.stage(s); err != nil {
			if ferr := a.failed(s.order, err); ferr != nil {
				return ferr
			}
		}
	}
	if slices.ContainsFunc(a.batch, step.replaces) {
		if err := a.intend(a.batch); err != nil {
			return err
		}
	}
	if err := a.sync(); err != nil {
		return err
	}
	for _, s := range a.batch {
		if a.outcome[s.order].Result != "" {
			continue
		}
		s.old.Mark = a.orders[s.order].Old.Mark // another name of it may have gone since
		if err := a.naming(&s, func() error { return s.place(a.links) }); err != nil {
			if ferr := a.failed(s.order, err); ferr != nil {
				return ferr
			}
			continue
		}
		if err := a.note(s); err != nil {
			return err
		}
	}
	if err := a.sync(); err != nil {
		return err
	}
	if time.Since(a.written) > recordEvery {
		if err := a.Layer.write(a.record); err != nil {
			return err
		}
		a.written = time.Now()
	}
	return a.intend(nil)
}

// replaces tells whether a file comes in the place of another.
func (s step) replaces() bool { return s.fresh && s.old.Form != Nothing }

// note remembers what the host has now.
func (a *applying) note(s step) error {
	o := a.orders[s.order]
	if !s.fresh {
		a.noteGone(s.order)
		return nil
	}
	a.record.inherit(o.heirs)
	if s.old.Form == Directory {
		for _, j := range a.ties.parts[s.order] {
			a.noteGone(j)
		}
	}
	if o.New.Form == Directory { // it was moved there, which give tells why not to show
		if err := s.dir.touch(s.name); err != nil {
			return err
		}
	}
	st, _, err := s.dir.stat(s.name)
	if err != nil {
		return err
	}
	k := known{Host: markOf(&st), Layer: o.New.Mark}
	if o.New.Form == Directory {
		k.Inside = o.inside()
	}
	result := Applied
	if s.partly {
		k.Layer, result = Mark{}, Partly
	}
	a.record.set(o.Path, k)
	a.end(s.order, result, "")
	return nil
}

// noteGone remembers that the host has something no more.
func (a *applying) noteGone(i int) {
	o := a.orders[i]
	a.record.inherit(o.heirs)
	a.record.set(o.Path, known{Gone: true})
	a.end(i, Applied, "")
}

// drop closes the directories of the batch, and removes what was not put in place.
func (a *applying) drop() {
	for _, s := range a.batch {
		if s.fresh && a.outcome[s.order].Result != Applied && a.outcome[s.order].Result != Partly {
			_ = a.naming(&s, func() error { s.unstage(); return nil })
		}
		s.dir.close()
	}
	a.batch, a.bytes = nil, 0
}

func (s *step) unstage() {
	if errors.Is(unix.Unlinkat(s.dir.fd(), s.temp, 0), unix.EISDIR) {
		_ = unix.Unlinkat(s.dir.fd(), s.temp, unix.AT_REMOVEDIR)
	}
}

// place puts a step into effect, in one step for whoever looks.
func (s *step) place(links *links) error {
	at := s.dir.fd()
	if s.old.Form == Nothing {
		return s.placeNew()
	}
	st, there, err := s.dir.stat(s.name)
	if err != nil {
		return err
	}
	if !there || !s.asSeen(markOf(&st)) {
		return errNewer()
	}
	if !s.fresh {
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

// asSeen tells whether what is in the place is what was seen there. Of a directory, what is
// in it is looked at once it is out of it.
func (s *step) asSeen(now Mark) bool {
	if s.old.Form == Directory {
		return now.Inode == s.old.Mark.Inode && now.Mode == s.old.Mark.Mode
	}
	return now == s.old.Mark
}

// finish looks at what was taken out of its place. If somebody wrote to it in the
// moment before, it goes back.
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
		return unix.Unlinkat(at, s.temp, 0)
	}
	if err := s.putBack(); err != nil {
		return err
	}
	return errNewer()
}

// putBack undoes place. What comes out again must be the file that was put there: else
// somebody put a newer one there meanwhile, to which ours was the older one as much as what
// goes back. That somebody touched it does not make it a newer one.
func (s *step) putBack() error {
	at := s.dir.fd()
	for there := s.mine; ; {
		back, err := s.dir.own(s.temp)
		if err != nil {
			return err
		}
		if s.fresh {
			err = unix.Renameat2(at, s.temp, at, s.name, unix.RENAME_EXCHANGE)
		}
		if !s.fresh || errors.Is(err, unix.ENOENT) { // ours was moved away, or removed
			err = unix.Renameat2(at, s.temp, at, s.name, unix.RENAME_NOREPLACE)
			if !errors.Is(err, unix.EEXIST) {
				return err
			}
			if !s.fresh { // the newer one stays
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
			s.unstage()
			if _, stays, _ := s.dir.stat(s.temp); stays { // a directory with something new in it
				return fmt.Errorf("what was in %s lies in %s", Quote(s.name), Quote(s.temp))
			}
			return nil
		}
		there = back
	}
}

// placeNew puts a file where there is none.
func (s *step) placeNew() error {
	at := s.dir.fd()
	err := unix.Renameat2(at, s.temp, at, s.name, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) { // this file system cannot
		if err = unix.Linkat(at, s.temp, at, s.name, 0); err == nil {
			return unix.Unlinkat(at, s.temp, 0)
		}
	}
	if errors.Is(err, unix.EEXIST) {
		return errNewer()
	}
	return err
}
