package apply

import (
	"path"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/review/beneath"
	"github.com/bothy-dev/bothy/internal/review/quote"
	"github.com/bothy-dev/bothy/internal/review/record"
)

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
