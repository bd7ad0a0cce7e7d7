package image

import "github.com/bothy-dev/bothy/spec"

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
