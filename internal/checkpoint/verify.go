package checkpoint

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/bothy-dev/bothy/internal/checkpoint/manifest"
	"github.com/bothy-dev/bothy/internal/checkpoint/packfile"
	"github.com/bothy-dev/bothy/internal/sums"
)

// Verifier compares all the contents of a shelf with their sums. Data that several checkpoints share is
// read once.
type Verifier struct {
	shelf Shelf
	packs *packfile.Packs
	read  map[[2]int64]error // by pack and offset
	// Unsummed counts contents that an older version kept without a sum.
	Unsummed int
}

// Verifier begins to verify a shelf. The caller closes it.
func (s Shelf) Verifier() *Verifier {
	return &Verifier{shelf: s, packs: s.Packs(), read: map[[2]int64]error{}}
}

// Close ends it.
func (v *Verifier) Close() { v.packs.Close() }

// Verify reads a checkpoint, and returns all damage. It calls read with the number of bytes read;
// an error of read ends the check, and is then the only one.
func (v *Verifier) Verify(p Point, read func(n int) error) (damage []error, err error) {
	trees, err := v.shelf.Trees(p)
	if err != nil {
		return []error{err}, nil
	}
	for _, t := range trees {
		if err := t.Check(); err != nil {
			return []error{fmt.Errorf("%s: %w", filepath.Join(v.shelf.Path(p.Number), manifestName), err)}, nil
		}
		for i := range t.Entries {
			e := &t.Entries[i]
			n, err := v.content(e)
			if err != nil {
				damage = append(damage, fmt.Errorf("%s: %w", t.Name, err))
			}
			if err := read(n); err != nil {
				return nil, err
			}
		}
	}
	for _, dir := range []string{v.shelf.Layer(p), v.shelf.Memory(p)} {
		bad, err := v.checkFiles(dir, read)
		if err != nil {
			return nil, err
		}
		damage = append(damage, bad...)
	}
	return damage, nil
}

// content reads the content of a file, unless that was done, and returns how many bytes it
// read.
func (v *Verifier) content(e *manifest.Entry) (n int, err error) {
	if !e.HasData() || len(e.Content.Pieces) == 0 {
		return 0, nil
	}
	at := [2]int64{e.Content.Pack, e.Content.Offset}
	if err, done := v.read[at]; done {
		return 0, err
	}
	if err = v.packs.CheckSize(e); err != nil {
		err = packfile.DamagedContent(e)
	} else if !e.Content.Summed {
		v.Unsummed++
	} else {
		n, err = int(e.Content.Stored()), v.packs.Verify(e)
	}
	v.read[at] = err
	return n, err
}

// checkFiles checks a directory with sums; "" means none.
func (v *Verifier) checkFiles(dir string, read func(n int) error) (damage []error, err error) {
	if dir == "" {
		return nil, nil
	}
	files, err := sums.Open(dir)
	if errors.Is(err, sums.ErrNone) {
		v.Unsummed++
		return nil, nil
	}
	if err != nil {
		return []error{fmt.Errorf("%s: %w", dir, err)}, nil
	}
	defer files.Close()
	var ended error
	err = files.Check(func(n int) error {
		ended = read(n)
		return ended
	})
	if ended != nil {
		return nil, ended
	}
	if err != nil {
		return []error{fmt.Errorf("%s: %w", dir, err)}, nil
	}
	return nil, nil
}
