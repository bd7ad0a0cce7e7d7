package review

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"io"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/linediff"
	"github.com/bothy-dev/bothy/internal/review/beneath"
	"github.com/bothy-dev/bothy/internal/review/quote"
	"github.com/bothy-dev/bothy/internal/review/record"
)

// maxSources is how many bytes of the host's files are read to find the origins of files that the
// sandbox moved.
const maxSources = 16 << 20

// orphan is a copy of one of the host's files, at a name that the host does not have and, as far as
// known, did not have. Either the host made and deleted it since, or the sandbox moved it there from
// another place. The overlay does not say which.
type orphan struct {
	path    string
	suspect bool // names came or went in its directory on the host
}

// withdrawn returns the conflict of a file that the host deleted and the sandbox changed or
// replaced: the host had the name when the layer began, and does not have it any more. If that is
// unknown, or the name came later, the overlay's mark of a copy decides; for files, findOrigins finds
// that out at the end. The sandbox cannot move a directory that is a copy.
func (l *View) withdrawn(p place, name string, c Change) string {
	k, noted := l.Record.Find(c.Path)
	if k.Moved {
		return ""
	}
	had := l.Had(c.Path)
	if noted { // it had none when that was applied or discarded
		had = record.Absent
	}
	if had == record.Present {
		return l.deletedThere()
	}
	if !p.made && (c.New.Form == beneath.File || c.New.Form == beneath.Directory) && p.upper.IsCopy(name) {
		if c.New.Form == beneath.Directory {
			return l.deletedThere()
		}
		l.orphans = append(l.orphans, orphan{c.Path, l.NamesChanged(p.path, p.host)})
		return ""
	}
	if had == record.Unknown && !p.made && l.NamesChanged(p.path, p.host) {
		return "names came or went beside it on the host since " + l.Record.SinceText() + ", and it is not known whether this was one"
	}
	return ""
}

func (l *View) deletedThere() string { return "deleted on the host since " + l.Record.SinceText() }

// NamesChanged reports whether names may have come or gone in a directory of the host, other
// than by an apply. A nil directory is gone.
func (l *View) NamesChanged(at string, d *beneath.Dir) bool {
	if d == nil {
		return true
	}
	var st unix.Stat_t
	if unix.Fstat(d.FD(), &st) != nil {
		return true
	}
	return st.Ctim.Nano() >= l.Record.Since && st.Ctim.Nano() != l.Record.Touched[quote.Path(path.Clean(at))]
}

// findOrigins finds the origin of each orphan by its contents: a file of the host that the layer does
// not have as it is. An orphan without such an origin is in conflict. The origin lists the orphan
// as its heir, because the origin cannot be found any more once it is applied or discarded.
func (l *View) findOrigins() {
	var from *sources
	for _, o := range l.orphans {
		i, found := l.findChange(o.path)
		if !found {
			continue // it was refused, or is not a change
		}
		c := &l.list[i]
		origin, found := l.findChange(c.From)
		if !found {
			if from == nil {
				from = l.sources()
			}
			origin, found = from.findOrigin(linesOf(l.Upper, c.Path))
		}
		switch {
		case found && origin >= 0:
			l.list[origin].Heirs = append(l.list[origin].Heirs, c.Path)
			l.list[origin].MovedTo = append(l.list[origin].MovedTo, c.Path)
		case !found && o.suspect:
			c.Conflict = l.deletedThere()
		}
	}
}

func (l *View) findChange(path string) (int, bool) {
	return slices.BinarySearchFunc(l.list, path, func(c Change, p string) int { return cmp.Compare(c.Path, p) })
}

// sources are files of the host that the sandbox may have moved elsewhere.
type sources struct {
	lists []int // of each, its place in the list of changes
	sizes []int // and how many different lines it has
	lines map[string][]int
	whole bool // they are all there are
}

func (l *View) sources() *sources {
	s := &sources{lines: map[string][]int{}}
	size := int64(0)
	for i, c := range l.list {
		if c.Old.Form != beneath.File {
			continue
		}
		if size += min(c.Old.Size, MaxText); size > maxSources {
			return s
		}
		list := linesOf(l.Host, c.Path)
		for _, line := range list {
			s.lines[line] = append(s.lines[line], len(s.lists))
		}
		s.lists, s.sizes = append(s.lists, i), append(s.sizes, len(list))
	}
	s.whole = true
	return s
}

// findOrigin finds the file that shares most lines, if those are half of the smaller of both files. If it
// cannot tell, it returns -1 and found is true.
func (s *sources) findOrigin(list []string) (origin int, found bool) {
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

// linesOf returns the different lines of a file, or of its beginning.
func linesOf(d *beneath.Dir, path string) []string {
	f, err := d.Open(path, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return nil
	}
	defer f.Close()
	var b strings.Builder
	_, _ = io.Copy(&b, io.LimitReader(f, MaxText))
	list := linediff.Lines(b.String())
	slices.Sort(list)
	return slices.Compact(list)
}

// Limits of the search for renames: the size of one file, and the bytes read of all. The sandbox
// can quickly make a million files that are all hole.
const (
	maxRename = 16 << 20
	maxHashed = 4 << 30
)

// renames finds new files with the content of files that go: first of deleted ones, then of those
// that become something else. It shows the new file as a rename of the deleted one.
func (l *View) renames() {
	m := moves{View: l, gone: map[int64][]int{}, sums: map[[sha256.Size]byte][]int{}}
	for _, kind := range []Kind{Deleted, Type} {
		for i, c := range l.list {
			if c.Kind == kind && c.Old.Form == beneath.File && c.Old.Size > 0 && c.Old.Size <= maxRename {
				m.gone[c.Old.Size] = append(m.gone[c.Old.Size], i)
			}
		}
	}
	for i := range l.list {
		if c := &l.list[i]; c.Kind == Added && c.Refused == "" {
			if from := m.findGone(c); from >= 0 && l.list[from].Kind == Deleted {
				c.From = l.list[from].Path
			}
		}
	}
	for i := range l.list {
		if c := &l.list[i]; c.Kind == Modified || c.Kind == Type || c.Refused != "" {
			m.findGone(c)
		}
	}
}

// moves are files that go, with their contents.
type moves struct {
	*View
	gone map[int64][]int             // by size
	sums map[[sha256.Size]byte][]int // those of a size of which one came, by content
}

// findGone finds a deleted file with the content of a change, for which no other change was found. It
// returns its index in the list; -1 if it finds none.
func (m moves) findGone(c *Change) int {
	files, ok := m.gone[c.New.Size]
	if !ok || c.New.Form != beneath.File {
		return -1
	}
	sum, err := m.hashOf(m.Upper, c.Path, c.New.Size)
	if err != nil {
		return -1 // it is being written just now, or the limit is reached
	}
	for _, i := range files {
		if was, err := m.hashOf(m.Host, m.list[i].Path, c.New.Size); err == nil {
			m.sums[was] = append(m.sums[was], i)
		}
	}
	m.gone[c.New.Size] = nil
	from := m.sums[sum]
	if len(from) == 0 {
		return -1
	}
	m.sums[sum] = from[1:]
	i := from[0]
	m.list[i].MovedTo = append(m.list[i].MovedTo, c.Path)
	return i
}

// hashOf returns the SHA-256 of a file if it still has its size and the total stays within the
// limit.
func (l *View) hashOf(d *beneath.Dir, path string, size int64) (sum [sha256.Size]byte, err error) {
	if l.hashed += size; l.hashed > maxHashed {
		return sum, errors.New("enough was read")
	}
	f, err := d.Open(path, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return sum, err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(f, size+1))
	if err == nil && n != size {
		err = beneath.ErrChanged()
	}
	return [sha256.Size]byte(h.Sum(nil)), err
}
