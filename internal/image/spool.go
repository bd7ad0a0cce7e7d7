package image

import (
	"io"
	"os"

	"github.com/bothy-dev/bothy/spec"
)

// maxSpool bounds a spooled archive of images, in bytes.
const maxSpool = 128 << 30

// Spool copies a stream to a file on the shelf's disk. The file has no name: it disappears
// when the last descriptor is closed, even if this process is killed.
func (s Shelf) Spool(r io.Reader) (*os.File, error) { return s.spoolUpTo(r, maxSpool) }

func (s Shelf) spoolUpTo(r io.Reader, most int64) (*os.File, error) {
	if err := s.Make(); err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(s.Dir, spoolPattern)
	if err != nil {
		return nil, err
	}
	if err = os.Remove(f.Name()); err == nil {
		var n int64
		n, err = io.Copy(f, io.LimitReader(r, most+1))
		if err == nil && n > most {
			err = spec.Errorf(spec.ErrDenied, "it has more than %d GiB", most>>30)
		}
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}
