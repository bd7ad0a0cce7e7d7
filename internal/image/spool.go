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

// RoomHint tells how to free space.
const RoomHint = "see what takes the room: bothy system df; have some go: bothy system prune, bothy rm, bothy template rm, bothy checkpoint rm"

// Room is the number of bytes that may be added to the state directory. Nil means
// unlimited.
type Room struct {
	Left  int64 `json:"left"`
	Limit int64 `json:"limit"` // the setting that it results from
}

// Take reserves n bytes before they are written. A negative n gives bytes back.
func (r *Room) Take(n int64) error {
	if r == nil {
		return nil
	}
	if r.Left -= n; r.Left < 0 {
		return spec.Errorf(spec.ErrConflict, "Bothy's files would take more of the disk than store_limit allows, %d MiB", r.Limit>>20).WithHint(RoomHint)
	}
	return nil
}
