package beneath

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// A hole of terabytes costs the sandbox nothing. It must cost the host nothing either: no disk
// space, and no hours of reading or writing zeros.

// CopyData copies a file of a known size into an empty one. It feeds the bytes it reads to seen,
// unless that is nil. A hole stays a hole.
func CopyData(to, from *os.File, size int64, seen *Hasher) error {
	err := eachData(from, size, func(start, length int64) error {
		if _, err := to.Seek(start, io.SeekStart); err != nil {
			return err
		}
		if seen == nil {
			return copyN(to, from, length)
		}
		seen.seekTo(start)
		return copyN(io.MultiWriter(to, seen), from, length)
	})
	if err != nil {
		return err
	}
	if err := to.Truncate(size); err != nil {
		return fmt.Errorf("make it as long as it was: %w", err)
	}
	return nil
}

// eachData calls do for each part of a file that has data, with the file positioned at its start.
func eachData(f *os.File, size int64, do func(start, length int64) error) error {
	for at := int64(0); at < size; {
		start, end, err := nextData(f, at, size)
		if err != nil {
			return err
		}
		if _, err := f.Seek(start, io.SeekStart); err != nil {
			return err
		}
		if err := do(start, end-start); err != nil {
			return err
		}
		at = end
	}
	return nil
}

// nextData returns the next part of a file with data. If there is none left, the part is empty,
// at the end.
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
		return 0, 0, ErrChanged()
	}
	return start, min(end, size), err
}
