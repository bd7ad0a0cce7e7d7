package review

import (
	"cmp"
	"io"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/linediff"
)

// maxSources is how much of the host's is read to find where the inside moved files
// from, in bytes.
const maxSources = 16 << 20

// orphan is a file that is a copy of one of the host's, where the host has none, and had
// none that is known of: the host made and deleted it since, or the inside moved it there
// from another place. The overlay does not say which.
type orphan struct {
	path    string
	suspect bool // names came or went on the host where it lies
}

// withdrawn says that the host deleted what the inside changed or replaced: it had the
// name when the layer began, and has it no more. Where that is not known, and of a name
// that came later, the mark of a copy tells; of files, that is found out at the end.
// Nobody inside can move a directory that is a copy.
func (l *look) withdrawn(p place, name string, c Change) string {
	k, noted := l.record.of(c.Path)
	if k.Moved {
		return ""
	}
	had := l.had(c.Path)
	if noted { // it had none when that was applied or discarded
		had = absent
	}
	if had == present {
		return l.deletedThere()
	}
	if !p.made && (c.New.Form == File || c.New.Form == Directory) && p.upper.isCopy(name) {
		if c.New.Form == Directory {
			return l.deletedThere()
		}
		l.orphans = append(l.orphans, orphan{c.Path, l.sinceChanged(p.path, p.host)})
		return ""
	}
	if had == unknown && !p.made && l.sinceChanged(p.path, p.host) {
		return "names came or went beside it on the host since " + l.record.since() + ", and it is not known whether this was one"
	}
	return ""
}

func (l *look) deletedThere() string { return "deleted on the host since " + l.record.since() }

// sinceChanged reports whether names may have come or gone in a directory of the host's,
// but by an apply; nil is one that is gone.
func (l *look) sinceChanged(at string, d *dir) bool {
	if d == nil {
		return true
	}
	var st unix.Stat_t
	if unix.Fstat(d.fd(), &st) != nil {
		return true
	}
	return st.Ctim.Nano() >= l.record.Since && st.Ctim.Nano() != l.record.Touched[Quote(path.Clean(at))]
}

// touching is called before names are added or removed in a directory of the host's, and
// what it gives after that: it was the apply who changed it, if nobody had before.
func (l *look) touching(at string, d *dir) (done func()) {
	if l.sinceChanged(at, d) {
		return func() {}
	}
	return func() {
		var st unix.Stat_t
		if unix.Fstat(d.fd(), &st) != nil {
			return
		}
		l.noteTouched(at, &st)
	}
}

func (l *look) noteTouched(at string, st *unix.Stat_t) {
	if l.record.Touched == nil {
		l.record.Touched = map[string]int64{}
	}
	l.record.Touched[Quote(path.Clean(at))] = st.Ctim.Nano()
}

// adopt finds of what each orphan was made, by what is in it: a file of the host's that
// the layer has not as it is, or none. One that has no such origin is in conflict.
// The origin has it as its heir, because once that is applied or discarded nobody could
// tell any more.
func (l *look) adopt() {
	var from *sources
	for _, o := range l.orphans {
		i, found := l.find(o.path)
		if !found {
			continue // it was refused, or is no change
		}
		c := &l.list[i]
		origin, found := l.find(c.From)
		if !found {
			if from == nil {
				from = l.sources()
			}
			origin, found = from.of(text(l.upper, c.Path))
		}
		switch {
		case found && origin >= 0:
			l.list[origin].heirs = append(l.list[origin].heirs, c.Path)
			l.list[origin].to = append(l.list[origin].to, c.Path)
		case !found && o.suspect:
			c.Conflict = l.deletedThere()
		}
	}
}

func (l *look) find(path string) (int, bool) {
	return slices.BinarySearchFunc(l.list, path, func(c Change, p string) int { return cmp.Compare(c.Path, p) })
}

// sources are files of the host's that the inside may have moved elsewhere.
type sources struct {
	lists []int // of each, its place in the list of changes
	sizes []int // and how many different lines it has
	lines map[string][]int
	whole bool // they are all there are
}

func (l *look) sources() *sources {
	s := &sources{lines: map[string][]int{}}
	size := int64(0)
	for i, c := range l.list {
		if c.Old.Form != File {
			continue
		}
		if size += min(c.Old.Size, maxText); size > maxSources {
			return s
		}
		list := text(l.host, c.Path)
		for _, line := range list {
			s.lines[line] = append(s.lines[line], len(s.lists))
		}
		s.lists, s.sizes = append(s.lists, i), append(s.sizes, len(list))
	}
	s.whole = true
	return s
}

// of finds the one that shares most lines, if those are half of the smaller of both. Of
// what cannot be told it is found, and is none (-1).
func (s *sources) of(list []string) (origin int, found bool) {
	shared := make([]int, len(s.lists))
	best := -1
	for _, line := range list {
		for _, n := range s.lines[line] {
			if shared[n]++; 2*shared[n] >= min(len(list), s.sizes[n]) && (best < 0 || shared[n] > shared[best]) {
				best = n
			}
		}
	}
	if best >= 0 {
		return s.lists[best], true
	}
	return -1, !s.whole || len(list) == 0 && len(s.lists) > 0
}

// text are the different lines of a file, or of its beginning.
func text(d *dir, path string) []string {
	f, err := d.open(path, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return nil
	}
	defer f.Close()
	var b strings.Builder
	_, _ = io.Copy(&b, io.LimitReader(f, maxText))
	list := linediff.Lines(b.String())
	slices.Sort(list)
	return slices.Compact(list)
}

// inherit remembers of files that the inside made of another of the host's that they are
// none that the host deleted: the other is going.
func (r *record) inherit(heirs []string) {
	for _, p := range heirs {
		if k, ok := r.of(p); !ok || k == (known{Path: k.Path}) {
			r.set(p, known{Moved: true})
		}
	}
}
