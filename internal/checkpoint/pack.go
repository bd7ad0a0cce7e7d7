package checkpoint

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// pack is a file with the contents of many.
type pack struct {
	f      *os.File
	number int64
	size   int64
	spared int64 // the part of it that takes no disk space

	summer summer
}

// Contents of this size begin at a multiple of a block, so that file systems that can share blocks do
// so.
const (
	alignFrom = 64 << 10
	block     = 4 << 10
)

// add copies a file's data to the end. If the file grows meanwhile, add leaves out the rest; if
// it shrinks, add fills with zeros.
func (p *pack) add(f *os.File, size int64) (Content, error) {
	if size >= alignFrom {
		p.size = (p.size + block - 1) / block * block
	}
	c := Content{Pack: p.number, Offset: p.size, Summed: true}
	if _, err := p.f.Seek(p.size, io.SeekStart); err != nil {
		return c, err
	}
	for at := int64(0); at < size; {
		piece, err := nextPiece(f, at, size)
		if err != nil {
			return c, err
		}
		if piece.Length == 0 {
			break
		}
		if _, err := f.Seek(piece.At, io.SeekStart); err != nil {
			return c, err
		}
		n, err := io.CopyN(p.f, f, piece.Length)
		if err != nil && !errors.Is(err, io.EOF) {
			return c, fmt.Errorf("copy into the checkpoint: %w", err)
		}
		// The sum is of the copy: programs may change the file meanwhile.
		if c.Sum, err = p.summer.add(c.Sum, p.f, p.size, n); err != nil {
			return c, fmt.Errorf("sum what was copied into the checkpoint: %w", err)
		}
		p.size += n
		if n > 0 {
			c.Pieces = append(c.Pieces, Piece{piece.At, n})
		}
		if at = piece.At + piece.Length; n < piece.Length {
			break
		}
	}
	return c, nil
}

// addText puts a text at the end.
func (p *pack) addText(text string) (Content, error) {
	c := Content{Pack: p.number, Offset: p.size, Summed: true}
	n := int64(len(text))
	if n == 0 {
		return c, nil
	}
	if _, err := p.f.WriteAt([]byte(text), p.size); err != nil {
		return c, fmt.Errorf("write into the checkpoint: %w", err)
	}
	var err error
	if c.Sum, err = p.summer.add(0, p.f, p.size, n); err != nil {
		return c, fmt.Errorf("sum what was written into the checkpoint: %w", err)
	}
	p.size += n
	c.Pieces = []Piece{{0, n}}
	return c, nil
}

// nextPiece finds the next part of a file that has data; a part of no length means none.
func nextPiece(f *os.File, at, size int64) (Piece, error) {
	from, err := unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
	if errors.Is(err, unix.ENXIO) || err == nil && from >= size {
		return Piece{}, nil
	}
	if errors.Is(err, unix.EINVAL) { // a file system that knows no holes
		return Piece{at, size - at}, nil
	}
	if err != nil {
		return Piece{}, err
	}
	to, err := unix.Seek(int(f.Fd()), from, unix.SEEK_HOLE)
	if errors.Is(err, unix.ENXIO) { // it was cut just now
		return Piece{}, nil
	}
	if err != nil {
		return Piece{}, err
	}
	return Piece{from, min(to, size) - from}, nil
}

// spare frees the disk space of copies that are in none of the trees: files that changed while
// they were kept were copied again. Not every file system can do that.
func (p *pack) spare(trees []Tree) {
	var used []Piece
	for _, t := range trees {
		for i := range t.Entries {
			if c := t.Entries[i].Content; t.Entries[i].hasData() && c.Pack == p.number && len(c.Pieces) > 0 {
				used = append(used, Piece{c.Offset, c.Stored()})
			}
		}
	}
	slices.SortFunc(used, func(a, b Piece) int { return cmp.Compare(a.At, b.At) })
	end := int64(0)
	for _, u := range append(used, Piece{At: p.size}) {
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
