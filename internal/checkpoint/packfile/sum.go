package packfile

import (
	"errors"
	"hash/crc32"
	"io"
	"os"

	"github.com/bothy-dev/bothy/internal/checkpoint/manifest"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sumSize is how much of a file is read at once.
const sumSize = 256 << 10

// summer computes sums of parts of files.
type summer struct{ buf []byte }

// addSum returns sum, continued over a part of a file. A file that ends before is io.EOF.
func (s *summer) addSum(sum uint32, f io.ReaderAt, off, n int64) (uint32, error) {
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

// SumPieces sums the pieces of a file.
func (p *Writer) SumPieces(f *os.File, pieces []manifest.Piece) (sum uint32, err error) {
	for _, c := range pieces {
		if sum, err = p.summer.addSum(sum, f, c.At, c.Length); err != nil {
			return 0, err
		}
	}
	return sum, nil
}
