package review

import (
	"crypto/sha256"
	"errors"
	"io"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/review/beneath"
)

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
