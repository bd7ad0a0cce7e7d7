package review

import (
	"errors"
	"fmt"
	"hash"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// copyData copies a file of a size into an empty one, and hashes it unless sum is nil. A
// hole stays a hole: to make one of terabytes costs the inside nothing, and shall not fill
// the host's disk.
func copyData(to, from *os.File, size int64, sum hash.Hash) error {
	out := io.Writer(to)
	if sum != nil {
		out = io.MultiWriter(to, sum)
	}
	for at := int64(0); at < size; {
		start, end, err := nextData(from, at, size)
		if err != nil {
			return err
		}
		if sum != nil {
			_, _ = io.CopyN(sum, zeros{}, start-at)
		}
		if _, err := from.Seek(start, io.SeekStart); err != nil {
			return err
		}
		if _, err := to.Seek(start, io.SeekStart); err != nil {
			return err
		}
		if _, err := io.CopyN(out, from, end-start); errors.Is(err, io.EOF) {
			return errChanged()
		} else if err != nil {
			return err
		}
		at = end
	}
	if err := to.Truncate(size); err != nil {
		return fmt.Errorf("make it as long as it was: %w", err)
	}
	return nil
}

// nextData is where the next data of a file is; without any left it is empty, at the end.
func nextData(f *os.File, at, size int64) (start, end int64, err error) {
	start, err = unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
	switch {
	case errors.Is(err, unix.ENXIO) || err == nil && start >= size:
		return size, size, nil
	case errors.Is(err, unix.EINVAL): // a file system that knows no holes
		return at, size, nil
	case err != nil:
		return 0, 0, err
	}
	end, err = unix.Seek(int(f.Fd()), start, unix.SEEK_HOLE)
	if errors.Is(err, unix.ENXIO) { // it was cut just now
		return 0, 0, errChanged()
	}
	return start, min(end, size), err
}

// zeros is what is read of a hole.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}
