package review

import (
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"

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
func (l *look) renames() error {
	gone := map[int64][]int{}
	for i, c := range l.list {
		if c.Kind == Deleted && c.Old.Form == File && c.Old.Size > 0 && c.Old.Size <= maxRename {
			gone[c.Old.Size] = append(gone[c.Old.Size], i)
		}
	}
	sums := map[int][sha256.Size]byte{}
	for i := range l.list {
		c := &l.list[i]
		if c.Kind != Added || c.New.Form != File || c.Refused != "" || len(gone[c.New.Size]) == 0 {
			continue
		}
		if l.hashed += c.New.Size; l.hashed > maxHashed {
			return nil
		}
		sum, err := hashOf(l.upper, c.Path)
		if err != nil {
			continue // it is written just now
		}
		for n, j := range gone[c.New.Size] {
			if _, ok := sums[j]; !ok {
				if sums[j], err = hashOf(l.host, l.list[j].Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
					continue
				}
			}
			if sums[j] == sum {
				c.From = l.list[j].Path
				gone[c.New.Size] = append(gone[c.New.Size][:n:n], gone[c.New.Size][n+1:]...)
				break
			}
		}
	}
	return nil
}

func hashOf(d *dir, path string) (sum [sha256.Size]byte, err error) {
	f, err := d.open(path, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return sum, err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, io.LimitReader(f, maxRename+1)); err != nil {
		return sum, err
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}
