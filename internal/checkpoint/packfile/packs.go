package packfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/checkpoint/manifest"
	"github.com/bothy-dev/bothy/internal/store"
)

// Packs opens the files with contents as they are needed.
type Packs struct {
	dir    string
	opened map[int64]*os.File
	sizes  map[int64]int64

	summer summer
}

// Open returns access to the packs in a directory. The caller closes it.
func Open(dir string) *Packs {
	return &Packs{dir: dir, opened: map[int64]*os.File{}, sizes: map[int64]int64{}}
}

func (p *Packs) Open(number int64) (*os.File, error) {
	if f := p.opened[number]; f != nil {
		return f, nil
	}
	f, err := store.OpenRegular(filepath.Join(p.dir, strconv.FormatInt(number, 10)), unix.O_NOFOLLOW)
	if err == nil {
		p.opened[number] = f
	}
	return f, err
}

// CheckSize checks that a pack has as many bytes of a file's contents as it should.
func (p *Packs) CheckSize(e *manifest.Entry) error {
	if !e.HasData() || len(e.Content.Pieces) == 0 {
		return nil
	}
	f, err := p.Open(e.Content.Pack)
	if errors.Is(err, fs.ErrNotExist) {
		return manifest.ErrDamaged
	}
	if err != nil {
		return err
	}
	if p.sizes[e.Content.Pack] == 0 {
		info, err := f.Stat()
		if err != nil {
			return err
		}
		p.sizes[e.Content.Pack] = info.Size()
	}
	if e.Content.Offset+e.Content.Stored() > p.sizes[e.Content.Pack] {
		return manifest.ErrDamaged
	}
	return nil
}

// Close closes all.
func (p *Packs) Close() {
	for _, f := range p.opened {
		_ = f.Close()
	}
}

// Verify compares the content of a file with its sum, if it has one, once.
func (p *Packs) Verify(e *manifest.Entry) error {
	if !e.HasData() || !e.Content.Summed || e.Content.Verified || len(e.Content.Pieces) == 0 {
		return nil
	}
	f, err := p.Open(e.Content.Pack)
	if err != nil {
		return err
	}
	sum, err := p.summer.addSum(0, f, e.Content.Offset, e.Content.Stored())
	if errors.Is(err, io.EOF) || err == nil && sum != e.Content.Sum {
		return DamagedContent(e)
	}
	e.Content.Verified = err == nil
	return err
}

func DamagedContent(e *manifest.Entry) error {
	return fmt.Errorf("the content of %q, in pack %d at byte %d: %w", e.Path, e.Content.Pack, e.Content.Offset, manifest.ErrDamaged)
}

// Zeros reads as endless zeros.
type Zeros struct{}

func (Zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}
