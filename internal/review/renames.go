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

// renames finds added files with the content of deleted ones. It changes nothing
// but how they are shown.
func (l *look) renames() {
	gone := map[int64][]int{} // by size
	for i, c := range l.list {
		if c.Kind == Deleted && c.Old.Form == File && c.Old.Size > 0 && c.Old.Size <= maxRename {
			gone[c.Old.Size] = append(gone[c.Old.Size], i)
		}
	}
	sums := map[[sha256.Size]byte][]int{} // those of a size of which one was added, by content
	for i := range l.list {
		c := &l.list[i]
		if c.Kind != Added || c.New.Form != File || c.Refused != "" {
			continue
		}
		of, ok := gone[c.New.Size]
		if !ok {
			continue
		}
		sum, err := l.hashOf(l.upper, c.Path, c.New.Size)
		if err != nil {
			continue // it is written just now, or it is enough
		}
		for _, j := range of {
			if was, err := l.hashOf(l.host, l.list[j].Path, c.New.Size); err == nil {
				sums[was] = append(sums[was], j)
			}
		}
		gone[c.New.Size] = nil
		if from := sums[sum]; len(from) > 0 {
			c.From = l.list[from[0]].Path
			sums[sum] = from[1:]
		}
	}
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
