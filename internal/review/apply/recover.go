package apply

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/review"
	"github.com/bothy-dev/bothy/internal/review/beneath"
	"github.com/bothy-dev/bothy/internal/review/quote"
	"github.com/bothy-dev/bothy/internal/review/record"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Interrupted reports whether an apply has not ended: it is running, or was killed.
func Interrupted(w review.Workspace) bool {
	_, err := os.Lstat(w.Layer.IntentFile())
	return !errors.Is(err, fs.ErrNotExist)
}

// Recover finishes or undoes the steps of an apply that was killed. The caller makes sure that no
// other apply or discard runs.
func Recover(w review.Workspace) error {
	if !Interrupted(w) {
		return nil
	}
	err := withJob(w, func(*job) error { return nil })
	if errors.Is(err, spec.ErrNotFound) {
		return nil // it went with the workspace
	}
	return err
}

// recover repairs a layer after a command was killed. It removes leftovers of the layer and the
// temporary files of an apply: new ones, and replaced ones. It records the finished steps of the
// apply. If a step cannot be told from another program's change, it records nothing, and the
// change is in conflict.
func (l *job) recover() error {
	store.SweepTemp(l.Layer.Dir, 0)
	if err := store.RemoveTree(l.Layer.GoneDir()); err != nil {
		return err
	}
	n, err := l.Layer.ReadIntent()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, f := range n.Files {
		if err := l.finishStep(f); err != nil {
			return fmt.Errorf("finish %s, which an interrupted apply began: %w", quote.Path(f.Path()), err)
		}
	}
	l.noteQuiet(n)
	if err := l.Layer.Write(l.Record); err != nil {
		return err
	}
	l.Temps = nil
	return os.Remove(l.Layer.IntentFile())
}

// finishStep finishes or undoes one step, and records a finished one.
func (l *job) finishStep(f record.Step) error {
	d, err := l.Host.OpenDir(f.Dir)
	if beneath.IsMissing(err) && f.Known.Gone {
		l.Record.Finish(f, beneath.Mark{}) // with its directory
	}
	if err != nil {
		return nil // its contents are gone with it
	}
	defer d.Close()
	if f.Temp != "" {
		if err := clearTemp(f, d); err != nil {
			return err
		}
	}
	there, err := d.Identify(f.Name)
	if err != nil {
		return err
	}
	if host, done := isDone(f, there); done {
		l.Record.Finish(f, host)
		l.updateMarks(f.Old)
	}
	return nil
}

// isDone reports whether a step was done, judging by the file at its name, and returns the host's
// mark after it.
func isDone(f record.Step, there beneath.Identity) (host beneath.Mark, done bool) {
	dir := there.Mark.Mode&unix.S_IFMT == unix.S_IFDIR
	switch f.Do {
	case record.Remove, record.RemoveDir:
		return beneath.Mark{}, there.IsNone()
	case record.Chmod:
		return there.Mark, dir && there.Mark.Inode == f.Old.Inode && there.Mark.Mode&0o777 == f.Mode
	case record.Bring:
		if f.Mine.IsNone() || !f.Mine.IsSame(there) {
			return beneath.Mark{}, false
		}
		if there.Mark.Mode == f.Mine.Mark.Mode && (dir || f.Mine.IsUnwritten(there)) {
			return there.Mark, true
		}
		return f.Mine.Mark, true // another program has changed it since
	}
	return beneath.Mark{}, false
}

// updateMarks updates the marks of a file's other names after a step removed one name. The step
// changed their inode; no other program did, as long as they have the same content.
func (l *job) updateMarks(old beneath.Mark) {
	if old == (beneath.Mark{}) {
		return
	}
	for i := range l.Record.Paths {
		k := &l.Record.Paths[i]
		if k.Host != old {
			continue
		}
		p, err := quote.Parse(k.Path)
		if err != nil {
			continue
		}
		if now, err := beneath.MarkAt(l.Host, p); err == nil && now.Aside() == old.Aside() {
			k.Host = now
		}
	}
}

// clearTemp removes the temporary file of a step, or puts it back.
func clearTemp(f record.Step, d *beneath.Dir) error {
	beside, err := d.Identify(f.Temp)
	if err != nil || beside.IsNone() {
		return err
	}
	there, err := d.Identify(f.Name)
	if err != nil {
		return err
	}
	s := &step{do: record.Remove, dir: d, name: f.Name, temp: f.Temp, old: beneath.Entry{Mark: f.Old}, mine: f.Mine, gone: f.Tree}
	if f.Fresh {
		s.do = record.Bring
	}
	if f.Old.Mode&unix.S_IFMT == unix.S_IFDIR {
		s.old.Form = beneath.Directory
	}
	if f.Fresh && f.Mine.IsNone() && beside.Mark.Inode == f.Old.Inode {
		s.mine = there // an older Bothy wrote the intent before the file was in place
	}
	switch {
	case !f.Fresh: // the temporary file was at the name
	case s.mine.IsNone(), s.mine.IsSame(beside): // ours is not in place, or not any more
		return s.unstage()
	case !there.IsNone() && !s.mine.IsUnwritten(there): // the file at the name is the newest
		if s.old.Form == beneath.Directory {
			_ = removeTree(s.gone, d, f.Temp) // files that other programs wrote into it stay where they are
			return nil
		}
		return s.unstage()
	}
	if err := s.removeOld(); err != nil && !errors.Is(err, spec.ErrConflict) && !errors.Is(err, unix.ENOENT) {
		return err
	}
	return nil
}
