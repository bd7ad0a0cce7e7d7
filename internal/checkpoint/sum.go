package checkpoint

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/sums"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sumSize is how much of a file is read at once.
const sumSize = 256 << 10

// summer computes sums of parts of files.
type summer struct{ buf []byte }

// add returns sum, continued over a part of a file. A file that ends before is io.EOF.
func (s *summer) add(sum uint32, f io.ReaderAt, off, n int64) (uint32, error) {
	if s.buf == nil {
		s.buf = make([]byte, sumSize)
	}
	for n > 0 {
		b := s.buf[:min(n, int64(len(s.buf)))]
		if _, err := io.ReadFull(io.NewSectionReader(f, off, int64(len(b))), b); errors.Is(err, io.ErrUnexpectedEOF) {
			return 0, io.EOF
		} else if err != nil {
			return 0, err
		}
		sum = crc32.Update(sum, castagnoli, b)
		off, n = off+int64(len(b)), n-int64(len(b))
	}
	return sum, nil
}

// verify compares the content of a file with its sum, if it has one, once.
func (p *Packs) verify(e *Entry) error {
	if !e.hasData() || !e.Content.Summed || e.Content.verified || len(e.Content.Pieces) == 0 {
		return nil
	}
	f, err := p.at(e.Content.Pack)
	if err != nil {
		return err
	}
	sum, err := p.summer.add(0, f, e.Content.Offset, e.Content.Stored())
	if errors.Is(err, io.EOF) || err == nil && sum != e.Content.Sum {
		return damagedContent(e)
	}
	e.Content.verified = err == nil
	return err
}

func damagedContent(e *Entry) error {
	return fmt.Errorf("the content of %q, in pack %d at byte %d: %w", e.Path, e.Content.Pack, e.Content.Offset, errDamaged)
}

// sumKept sums a file whose content an older version kept without a sum. The file has not
// changed since, so its own data is what the pack must hold; the pack may be damaged already.
func (t *taker) sumKept(d dir, name string, e *Entry) error {
	f, err := d.openAnyway(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC)
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		return nil // it stays as it was
	}
	if err != nil {
		return gone(err)
	}
	defer f.Close()
	sum, err := t.pack.sumPieces(f, e.Content.Pieces)
	var st unix.Stat_t
	if err == nil {
		err = unix.Fstat(int(f.Fd()), &st)
	}
	if err != nil || !e.unchanged(&st) { // a program changes it just now
		return t.keep(f, e)
	}
	e.Content.Sum, e.Content.Summed = sum, true
	return nil
}

// sumPieces sums the pieces of a file.
func (p *pack) sumPieces(f *os.File, pieces []Piece) (sum uint32, err error) {
	for _, c := range pieces {
		if sum, err = p.summer.add(sum, f, c.At, c.Length); err != nil {
			return 0, err
		}
	}
	return sum, nil
}

// checkLayer compares the saved root layer of a checkpoint with its sums, if it has any.
func (s Shelf) checkLayer(p Point) error {
	if p.Layer == 0 {
		return nil
	}
	files, err := sums.Open(s.Layer(p))
	if errors.Is(err, sums.ErrNone) {
		return nil
	}
	if err == nil {
		err = files.Check(nil)
		files.Close()
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the root layer of checkpoint %s: %w", p.Name, err)
	}
	return err
}
