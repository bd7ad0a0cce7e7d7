package store

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// NextData finds the next part of a file with data, from a position on. If there is none left, the part
// is empty, at the end. A file system that knows no holes has data everywhere. The error is unix.ENXIO
// if the file was cut meanwhile. It moves the file's position.
func NextData(f *os.File, at, size int64) (start, end int64, err error) {
	start, err = f.Seek(at, unix.SEEK_DATA)
	switch {
	case errors.Is(err, unix.ENXIO) || err == nil && start >= size:
		return size, size, nil
	case errors.Is(err, unix.EINVAL):
		return at, size, nil
	case err != nil:
		return 0, 0, err
	}
	end, err = f.Seek(start, unix.SEEK_HOLE)
	return start, min(end, size), err
}
