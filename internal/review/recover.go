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

// Interrupted reports whether an apply has not ended: it is running, or was killed.
func (w Workspace) Interrupted() bool {
	_, err := os.Lstat(w.Layer.intent())
	return !errors.Is(err, fs.ErrNotExist)
}

// Recover finishes or undoes the steps of an apply that was killed. The caller makes sure that no
// other apply or discard runs.
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

// recover repairs a layer after a command was killed. It removes leftovers of the layer and the
// temporary files of an apply: new ones, and replaced ones. It records the finished steps of the
// apply. If a step cannot be told from another program's change, it records nothing, and the
// change is in conflict.
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

// finishStep finishes or undoes one step, and records a finished one.
func (l *look) finishStep(f intended) error {
	d, err := l.host.sub(f.Dir)
	if hidden(err) && f.Known.Gone {
		l.record.done(f, Mark{}) // with its directory
	}
	if err != nil {
		return nil // its contents are gone with it
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

// isDone reports whether a step was done, judging by the file at its name, and returns the host's
// mark after it.
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
		return f.Mine.Mark, true // another program has changed it since
	}
	return Mark{}, false
}

// relink updates the marks of a file's other names after a step removed one name. The step
// changed their inode; no other program did, as long as they have the same content.
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

// clear removes the temporary file of a step, or puts it back.
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
		s.mine = there // an older Bothy wrote the intent before the file was in place
	}
	switch {
	case !f.Fresh: // the temporary file was at the name
	case s.mine.none(), s.mine.is(beside): // ours is not in place, or not any more
		return s.unstage()
	case !there.none() && !s.mine.has(there): // the file at the name is the newest
		if s.old.Form == Directory {
			_ = s.gone.remove(d, f.Temp) // files that other programs wrote into it stay where they are
			return nil
		}
		return s.unstage()
	}
	if err := s.finish(); err != nil && !errors.Is(err, spec.ErrConflict) && !errors.Is(err, unix.ENOENT) {
		return err
	}
	return nil
}
