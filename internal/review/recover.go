package review

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Interrupted tells whether an apply has not ended: it is at work, or was killed.
func (w Workspace) Interrupted() bool {
	_, err := os.Lstat(w.Layer.intent())
	return !errors.Is(err, fs.ErrNotExist)
}

// Recover finishes or undoes the steps of an apply that was killed. The caller sees to it that
// nobody else applies or discards.
func (w Workspace) Recover() error {
	if !w.Interrupted() {
		return nil
	}
	err := w.change(func(*look) error { return nil })
	if errors.Is(err, spec.ErrNotFound) {
		return nil // it went with the workspace
	}
	return err
}

// recover brings in order what one left that was killed: what left the layer, and, of an apply,
// files beside those they should replace, or that they have replaced. The record gets what the
// apply has done. Where it cannot be told whether it or somebody else has, the record gets
// nothing, and the change is in conflict.
func (l *look) recover() error {
	store.SweepTemp(l.Layer.Dir, 0)
	if err := store.RemoveTree(l.Layer.gone()); err != nil {
		return err
	}
	n, err := l.Layer.readIntent()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, f := range n.Files {
		if err := l.finishStep(f); err != nil {
			return fmt.Errorf("finish %s, which an interrupted apply began: %w", Quote(f.path()), err)
		}
	}
	l.noteQuiet(n)
	if err := l.Layer.write(l.record); err != nil {
		return err
	}
	l.temps = nil
	return os.Remove(l.Layer.intent())
}

// finishStep finishes or undoes one step, and notes what was done.
func (l *look) finishStep(f intended) error {
	d, err := l.host.sub(f.Dir)
	if hidden(err) && f.Known.Gone {
		l.record.done(f, Mark{}) // with its directory
	}
	if err != nil {
		return nil // what lay in it has gone with it
	}
	defer d.close()
	if f.Temp != "" {
		if err := f.clear(d); err != nil {
			return err
		}
	}
	there, err := d.own(f.Name)
	if err != nil {
		return err
	}
	if host, done := f.isDone(there); done {
		l.record.done(f, host)
		l.relink(f.Old)
	}
	return nil
}

// isDone tells whether a step was done, as what is in its place says, and what the host had
// then.
func (f intended) isDone(there own) (host Mark, done bool) {
	dir := there.Mark.Mode&unix.S_IFMT == unix.S_IFDIR
	switch f.Do {
	case remove, rmdir:
		return Mark{}, there.none()
	case chmod:
		return there.Mark, dir && there.Mark.Inode == f.Old.Inode && there.Mark.Mode&0o777 == f.Mode
	case bring:
		if f.Mine.none() || !f.Mine.is(there) {
			return Mark{}, false
		}
		if there.Mark.Mode == f.Mine.Mark.Mode && (dir || f.Mine.has(there)) {
			return there.Mark, true
		}
		return f.Mine.Mark, true // somebody has changed it since
	}
	return Mark{}, false
}

// relink notes what other names of a file are now of which a name went: the step has changed
// their inode, and nobody else has, as long as they have the same content.
func (l *look) relink(old Mark) {
	if old == (Mark{}) {
		return
	}
	for i := range l.record.Paths {
		k := &l.record.Paths[i]
		if k.Host != old {
			continue
		}
		p, err := Unquote(k.Path)
		if err != nil {
			continue
		}
		if now, err := markAt(l.host, p); err == nil && now.aside() == old.aside() {
			k.Host = now
		}
	}
}

// clear removes what lies beside the place of a step, or puts it back.
func (f intended) clear(d *dir) error {
	beside, err := d.own(f.Temp)
	if err != nil || beside.none() {
		return err
	}
	there, err := d.own(f.Name)
	if err != nil {
		return err
	}
	s := &step{do: remove, dir: d, name: f.Name, temp: f.Temp, old: Entry{Mark: f.Old}, mine: f.Mine, gone: f.Tree}
	if f.Fresh {
		s.do = bring
	}
	if f.Old.Mode&unix.S_IFMT == unix.S_IFDIR {
		s.old.Form = Directory
	}
	if f.Fresh && f.Mine.none() && beside.Mark.Inode == f.Old.Inode {
		s.mine = there // an older Bothy wrote this, before what it tells of was in place
	}
	switch {
	case !f.Fresh: // beside it is what was at the name
	case s.mine.none(), s.mine.is(beside): // ours is not in place, or is no more
		return s.unstage()
	case !there.none() && !s.mine.has(there): // what is at the name now came last
		if s.old.Form == Directory {
			_ = s.gone.remove(d, f.Temp) // what somebody wrote into it stays where it is
			return nil
		}
		return s.unstage()
	}
	if err := s.finish(); err != nil && !errors.Is(err, spec.ErrConflict) && !errors.Is(err, unix.ENOENT) {
		return err
	}
	return nil
}
