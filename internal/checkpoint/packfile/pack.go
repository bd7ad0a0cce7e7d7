// Package packfile keeps the contents of files one after another in packs, with their sums.
package packfile

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/checkpoint/manifest"
	"github.com/bothy-dev/bothy/internal/store"
)

// Writer is a file with the contents of many.
type Writer struct {
	f      *os.File
	number int64
	size   int64
	spared int64 // the part of it that takes no disk space

	summer summer
}

// Create creates a pack, or empties one that a killed command left.
func Create(path string, number int64) (*Writer, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	return &Writer{f: f, number: number}, nil
}

// IsEmpty reports whether nothing was added.
func (p *Writer) IsEmpty() bool { return p.size == 0 }

// DiskSize returns the disk space that the pack takes, in bytes.
func (p *Writer) DiskSize() int64 { return p.size - p.spared }

func (p *Writer) Sync() error  { return p.f.Sync() }
func (p *Writer) Close() error { return p.f.Close() }

// Contents of this size begin at a multiple of a block, so that file systems that can share blocks do
// so.
const (
	alignFrom = 64 << 10
	block     = 4 << 10
)

// Align returns where contents of a size begin in a pack that has so many bytes.
func Align(at, size int64) int64 {
	if size < alignFrom {
		return at
	}
	return (at + block - 1) / block * block
}

// Add copies a file's data to the end. If the file grows meanwhile, add leaves out the rest; if
// it shrinks, Add fills with zeros.
func (p *Writer) Add(f *os.File, size int64) (manifest.Content, error) {
	p.size = Align(p.size, size)
	c := manifest.Content{Pack: p.number, Offset: p.size, Summed: true}
	if _, err := p.f.Seek(p.size, io.SeekStart); err != nil {
		return c, err
	}
	for at := int64(0); at < size; {
		start, end, err := store.NextData(f, at, size)
		if errors.Is(err, unix.ENXIO) || err == nil && start == end { // it was cut just now, or has no more data
			break
		}
		if err != nil {
			return c, err
		}
		if _, err := f.Seek(start, io.SeekStart); err != nil {
			return c, err
		}
		n, err := io.CopyN(p.f, f, end-start)
		if err != nil && !errors.Is(err, io.EOF) {
			return c, fmt.Errorf("copy into the checkpoint: %w", err)
		}
		// The sum is of the copy: programs may change the file meanwhile.
		if c.Sum, err = p.summer.addSum(c.Sum, p.f, p.size, n); err != nil {
			return c, fmt.Errorf("sum the copy in the checkpoint: %w", err)
		}
		p.size += n
		if n > 0 {
			c.Pieces = append(c.Pieces, manifest.Piece{At: start, Length: n})
		}
		if at = end; n < end-start {
			break
		}
	}
	return c, nil
}

// AddText puts a text at the end.
func (p *Writer) AddText(text string) (manifest.Content, error) {
	c := manifest.Content{Pack: p.number, Offset: p.size, Summed: true}
	n := int64(len(text))
	if n == 0 {
		return c, nil
	}
	if _, err := p.f.WriteAt([]byte(text), p.size); err != nil {
		return c, fmt.Errorf("write into the checkpoint: %w", err)
	}
	var err error
	if c.Sum, err = p.summer.addSum(0, p.f, p.size, n); err != nil {
		return c, fmt.Errorf("sum the text in the checkpoint: %w", err)
	}
	p.size += n
	c.Pieces = []manifest.Piece{{Length: n}}
	return c, nil
}

// FreeUnused frees the disk space of copies that are in none of the trees: files that changed while
// they were kept were copied again. Not every file system can do that.
func (p *Writer) FreeUnused(trees []manifest.Tree) {
	var used []manifest.Piece
	for _, t := range trees {
		for i := range t.Entries {
			if c := t.Entries[i].Content; t.Entries[i].HasData() && c.Pack == p.number && len(c.Pieces) > 0 {
				used = append(used, manifest.Piece{At: c.Offset, Length: c.Stored()})
			}
		}
	}
	slices.SortFunc(used, func(a, b manifest.Piece) int { return cmp.Compare(a.At, b.At) })
	end := int64(0)
	for _, u := range append(used, manifest.Piece{At: p.size}) {
		from, to := (end+block-1)/block*block, u.At/block*block
		if to > from {
			if unix.Fallocate(int(p.f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, from, to-from) != nil {
				return
			}
			p.spared += to - from
		}
		end = u.At + u.Length
	}
}
