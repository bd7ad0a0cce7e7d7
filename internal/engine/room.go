package engine

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

// CheckRoom returns an error if the state directory takes more of the disk than it may. It checks only
// if there is a limit. It counts every file only if the last count, and the change of free space
// since, do not decide.
func (e *Engine) CheckRoom() error {
	_, err := e.roomLeft()
	return err
}

// roomLeft is CheckRoom that also returns how many bytes are left, if there is a limit.
func (e *Engine) roomLeft() (int64, error) {
	if e.StoreLimit <= 0 {
		return 0, nil
	}
	before, err := diskNow(e.Store.Path())
	if err != nil {
		return 0, err
	}
	var last storeCount
	err = store.ReadJSON(e.Store.Counted(), &last)
	if errors.Is(err, spec.ErrNewer) {
		return 0, err
	}
	if err == nil && last.leaves(e.StoreLimit, before) {
		return last.left(e.StoreLimit, before), nil
	}
	var m quota.Meter
	before.Taken = m.Add(e.Store.Path())
	if before.Taken > e.StoreLimit {
		return 0, spec.Errorf(spec.ErrConflict, "Bothy's files take %s of the disk, and store_limit allows %s", mebibytes(before.Taken), mebibytes(e.StoreLimit)).
			WithHint(image.RoomHint)
	}
	_ = store.WriteJSON(e.Store.Counted(), before) // if this fails, it is counted again
	return before.left(e.StoreLimit, before), nil
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
		return c, fmt.Errorf("ask what is free at %s: %w", path, err)
	}
	c.Free, c.Device = free.Bytes, uint64(st.Dev) //nolint:unconvert // its type differs between machines
	return c, nil
}

// leaves reports whether there must still be room, unless another process has freed as much as was
// added.
func (c storeCount) leaves(limit int64, now storeCount) bool {
	age := now.At.Sub(c.At)
	return c.Version == now.Version && c.Device == now.Device && age >= 0 && age < believed &&
		c.Taken >= 0 && c.left(limit, now) > 0
}

// left returns how many bytes of a limit are left, if all free space that was lost since was added
// here.
func (c storeCount) left(limit int64, now storeCount) int64 {
	return limit - c.Taken - max(0, c.Free-now.Free)
}

func mebibytes(n int64) string { return fmt.Sprintf("%d MiB", n>>20) }
