package apply

import (
	"os"
	"path"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/review"
	"github.com/bothy-dev/bothy/internal/review/beneath"
	"github.com/bothy-dev/bothy/internal/review/quote"
	"github.com/bothy-dev/bothy/internal/review/record"
)

// intended returns the entry that is written for a step.
func (a *applying) intended(s step) record.Step {
	o := a.orders[s.order]
	n := record.Step{
		Do: s.do, Dir: path.Dir(o.Path), Name: path.Base(o.Path), Temp: s.temp, Old: s.old.Mark, Fresh: s.do == record.Bring,
		Mine: s.mine, Tree: s.gone, Heirs: o.Heirs,
	}
	switch s.do {
	case record.Remove, record.RemoveDir:
		n.Known.Gone = true
	case record.Chmod:
		n.Mode = o.HostMode() | 0o700
		n.Known.Inside = o.recordedMode()
	case record.Bring:
		if o.New.Form == beneath.Directory {
			n.Known.Inside = o.recordedMode()
		}
		if !s.partly && (o.New.Form != beneath.Directory || o.Kind == review.Type) {
			n.Known.Layer = o.New.Mark
		}
	}
	for _, i := range a.partsOf(s.order) {
		if s.old.Form == beneath.Directory {
			n.Parts = append(n.Parts, a.orders[i].Path)
			n.Heirs = append(slices.Clip(n.Heirs), a.orders[i].Heirs...)
		}
	}
	return n
}

// writeIntent writes down the steps of the batch, and those that the record does not have yet.
func (a *applying) writeIntent() error {
	list := slices.Clip(a.pending)
	for _, s := range a.batch {
		list = append(list, a.intended(s))
	}
	a.sumQuiet(list)
	return a.Layer.WriteIntent(record.Intent{Files: list, Quiet: a.quiet})
}

// finishRecord writes the record. Then only the removal of replaced files that could not be
// removed is still intended.
func (a *applying) finishRecord() error {
	a.links.updateRecord(a.Record)
	if err := a.Layer.Write(a.Record); err != nil {
		return err
	}
	a.written = time.Now()
	var left []record.Step
	for _, n := range a.pending {
		if n.Temp != "" && a.hostMayHave(path.Join(n.Dir, n.Temp)) {
			left = append(left, n)
		}
	}
	began := len(a.pending) > 0
	a.pending, a.quiet = left, map[string]uint64{}
	switch {
	case len(left) > 0:
		return a.Layer.WriteIntent(record.Intent{Files: left})
	case began:
		return os.Remove(a.Layer.IntentFile())
	}
	return nil
}

// hostMayHave reports whether the host may have something at a path.
func (l *job) hostMayHave(at string) bool {
	in, name, err := l.Host.OpenParent(at)
	if err != nil {
		return !beneath.IsMissing(err)
	}
	defer in.Close()
	_, there, err := in.Stat(name)
	return there || err != nil
}

// An apply records each directory in which it was the last to add or remove names (see touching).
// A killed apply has not recorded that, and its own changes would look like the host's. So the
// intent has a sum of the names that no step changes. If the sum is the same later, the host has
// added and removed no names.

// namesOf returns the names that steps change in one directory.
func namesOf(list []record.Step, at string) map[string]bool {
	names := map[string]bool{}
	for _, n := range list {
		if n.Dir == at {
			names[n.Name], names[n.Temp] = true, true
		}
	}
	return names
}

// sumQuiet sums up the names in the directories of the batch in which only applies have added
// or removed any.
func (a *applying) sumQuiet(list []record.Step) {
	seen := map[string]bool{}
	for _, s := range a.batch {
		at := path.Dir(a.orders[s.order].Path)
		if seen[at] {
			continue
		}
		seen[at] = true
		delete(a.quiet, at)
		if a.NamesChanged(at, s.dir) {
			continue
		}
		if sum, err := s.dir.SumNames(namesOf(list, at)); err == nil {
			a.quiet[at] = sum
		}
	}
}

// noteQuiet notes of directories with the same names as before that an apply has changed them
// last.
func (l *job) noteQuiet(n record.Intent) {
	for at, before := range n.Quiet {
		d, err := l.Host.OpenDir(at)
		if err != nil {
			continue
		}
		sum, err := d.SumNames(namesOf(n.Files, at))
		var st unix.Stat_t
		if err == nil && sum == before && unix.Fstat(d.FD(), &st) == nil {
			l.noteTouched(at, &st)
		}
		d.Close()
	}
}

// touching is called before names are added or removed in a directory of the host, and the
// function it returns is called afterwards. It notes that only the apply changed the directory,
// unless something else had changed it before.
func (l *job) touching(at string, d *beneath.Dir) (done func()) {
	if l.NamesChanged(at, d) {
		return func() {}
	}
	return func() {
		var st unix.Stat_t
		if unix.Fstat(d.FD(), &st) != nil {
			return
		}
		l.noteTouched(at, &st)
	}
}

func (l *job) noteTouched(at string, st *unix.Stat_t) {
	if l.Record.Touched == nil {
		l.Record.Touched = map[string]int64{}
	}
	l.Record.Touched[quote.Path(path.Clean(at))] = st.Ctim.Nano()
}
