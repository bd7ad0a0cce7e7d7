package beneath

import (
	"bytes"
	"errors"
	"io"
	"os"

	"github.com/bothy-dev/bothy/spec"
)

// SameData reports whether two files have the same content. It does not read a hole of both
// files; a hole equals zeros in the other file. A file that is truncated meanwhile counts as
// different.
func SameData(a, b *os.File) (bool, error) {
	s := sides{a, b, make([]byte, 128<<10), make([]byte, 128<<10)}
	size, err := s.commonSize()
	for at := int64(0); err == nil && at < size; {
		var start, end int64
		if start, end, err = s.nextData(at, size); err == nil {
			err = s.compare(start, end)
		}
		at = end
	}
	if errors.Is(err, errDiffer) || errors.Is(err, spec.ErrConflict) {
		return false, nil
	}
	return err == nil, err
}

// errDiffer says that two files are not the same.
var errDiffer = errors.New("they differ")

// sides are two files to compare, and the buffers for the parts read last.
type sides struct {
	a, b *os.File
	x, y []byte
}

// commonSize returns the size of both.
func (s sides) commonSize() (int64, error) {
	a, err := s.a.Stat()
	if err != nil {
		return 0, err
	}
	b, err := s.b.Stat()
	if err == nil && a.Size() != b.Size() {
		err = errDiffer
	}
	return a.Size(), err
}

// nextData returns the next part in which either file has data.
func (s sides) nextData(at, size int64) (start, end int64, err error) {
	start, end, err = nextData(s.a, at, size)
	if err != nil {
		return 0, 0, err
	}
	other, otherEnd, err := nextData(s.b, at, size)
	if other < start {
		return other, otherEnd, err
	}
	return start, end, err
}

// compare reads a part of both.
func (s sides) compare(start, end int64) error {
	for at := start; at < end; at += int64(len(s.x)) {
		n := min(end-at, int64(len(s.x)))
		_, err := s.a.ReadAt(s.x[:n], at)
		if err == nil {
			_, err = s.b.ReadAt(s.y[:n], at)
		}
		if errors.Is(err, io.EOF) || err == nil && !bytes.Equal(s.x[:n], s.y[:n]) {
			return errDiffer
		}
		if err != nil {
			return err
		}
	}
	return nil
}
