package review

import (
	"crypto/sha256"
	"errors"
	"io"

	"golang.org/x/sys/unix"
)

// Bounds of looking whether files were renamed: the size of one, and how much is read of
// all. The inside makes a million files that are all hole in no time.
const (
	maxRename = 16 << 20
	maxHashed = 4 << 30
)

// renames finds files with the content of some that go: those that are deleted, and then
// those that become something else. An added one is shown as a rename of a deleted one.
func (l *look) renames() {
	m := moves{look: l, gone: map[int64][]int{}, sums: map[[sha256.Size]byte][]int{}}
	for _, kind := range []Kind{Deleted, Type} {
		for i, c := range l.list {
			if c.Kind == kind && c.Old.Form == File && c.Old.Size > 0 && c.Old.Size <= maxRename {
				m.gone[c.Old.Size] = append(m.gone[c.Old.Size], i)
			}
		}
	}
	for i := range l.list {
		if c := &l.list[i]; c.Kind == Added && c.Refused == "" {
			if from := m.of(c); from >= 0 && l.list[from].Kind == Deleted {
				c.From = l.list[from].Path
			}
		}
	}
	for i := range l.list {
		if c := &l.list[i]; c.Kind == Modified || c.Kind == Type || c.Refused != "" {
			m.of(c)
		}
	}
}

// moves are files that go and what is in them.
type moves struct {
	*look
	gone map[int64][]int             // by size
	sums map[[sha256.Size]byte][]int // those of a size of which one came, by content
}

// of finds one that a change has the content of, for which no other was found, and gives its
// place in the list; -1 if there is none.
func (m moves) of(c *Change) int {
	files, ok := m.gone[c.New.Size]
	if !ok || c.New.Form != File {
		return -1
	}
	sum, err := m.hashOf(m.upper, c.Path, c.New.Size)
	if err != nil {
		return -1 // it is written just now, or it is enough
	}
	for _, i := range files {
		if was, err := m.hashOf(m.host, m.list[i].Path, c.New.Size); err == nil {
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
	m.list[i].to = append(m.list[i].to, c.Path)
	return i
}

// hashOf is the SHA-256 of a file that is of a size still, as long as there is not too
// much of all.
func (l *look) hashOf(d *dir, path string, size int64) (sum [sha256.Size]byte, err error) {
	if l.hashed += size; l.hashed > maxHashed {
		return sum, errors.New("enough was read")
	}
	f, err := d.open(path, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return sum, err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(f, size+1))
	if err == nil && n != size {
		err = errChanged()
	}
	return [sha256.Size]byte(h.Sum(nil)), err
}
