package rootfs

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/quota"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// believed is how long a count of the state directory that found room is trusted, unless the free
// space of its disk has fallen by as much as was left.
const believed = time.Minute

// Room is the part of the disk that a state directory may take.
type Room struct {
	Store *store.Store
	Limit int64 // in bytes; 0 means no limit
}

// Check returns an error of class [spec.ErrConflict] if the state directory takes more of the disk
// than it may. It checks only if there is a limit. It counts every file only if the last count, and
// the change of free space since, do not decide.
func (r Room) Check() error {
	_, err := r.Left()
	return err
}

// Left is Check that also returns how many bytes are left, if there is a limit.
func (r Room) Left() (int64, error) {
	if r.Limit <= 0 {
		return 0, nil
	}
	before, err := diskNow(r.Store.Path())
	if err != nil {
		return 0, err
	}
	var last storeCount
	err = store.ReadJSON(r.Store.Counted(), &last)
	if errors.Is(err, spec.ErrNewer) {
		return 0, err
	}
	if err == nil && last.leaves(r.Limit, before) {
		return last.bytesLeft(r.Limit, before), nil
	}
	var m quota.Meter
	before.Taken = m.Add(r.Store.Path())
	if before.Taken > r.Limit {
		return 0, spec.Errorf(spec.ErrConflict, "Bothy's files take %s of the disk, and store_limit allows %s", mebibytes(before.Taken), mebibytes(r.Limit)).
			WithHint(image.RoomHint)
	}
	_ = store.WriteJSON(r.Store.Counted(), before) // if this fails, it is counted again
	return before.bytesLeft(r.Limit, before), nil
}

// storeCount is a count of the state directory's use of the disk.
type storeCount struct {
	Version int       `json:"version"`
	At      time.Time `json:"at"`
	Taken   int64     `json:"taken"`  // bytes
	Free    int64     `json:"free"`   // on the disk, before it was counted
	Device  uint64    `json:"device"` // identifies that disk
}

// diskNow is a count without its result.
func diskNow(path string) (storeCount, error) {
	c := storeCount{Version: spec.Version, At: time.Now().UTC()}
	var st unix.Stat_t
	err := unix.Stat(path, &st)
	if err != nil {
		return c, fmt.Errorf("look at %s: %w", path, err)
	}
	free, err := quota.Free(path)
	if err != nil {
		return c, fmt.Errorf("find the free space at %s: %w", path, err)
	}
	c.Free, c.Device = free.Bytes, uint64(st.Dev) //nolint:unconvert // its type differs between machines
	return c, nil
}

// leaves reports whether there must still be room, unless another process has freed as much as was
// added.
func (c storeCount) leaves(limit int64, now storeCount) bool {
	age := now.At.Sub(c.At)
	return c.Version == now.Version && c.Device == now.Device && age >= 0 && age < believed &&
		c.Taken >= 0 && c.bytesLeft(limit, now) > 0
}

// bytesLeft returns how many bytes of a limit are left, if all free space that was lost since was added
// here.
func (c storeCount) bytesLeft(limit int64, now storeCount) int64 {
	return limit - c.Taken - max(0, c.Free-now.Free)
}

func mebibytes(n int64) string { return fmt.Sprintf("%d MiB", n>>20) }
