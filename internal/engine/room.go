package engine

import (
	"fmt"

	"github.com/bothy-dev/bothy/internal/quota"
	"github.com/bothy-dev/bothy/spec"
)

// room refuses what would add to the state directory if that takes more of the disk
// than it may. It is measured only where there is a limit: that takes a look at every
// file.
func (e *Engine) room() error {
	if e.StoreLimit <= 0 {
		return nil
	}
	var m quota.Meter
	if taken := m.Add(e.Store.Path()); taken > e.StoreLimit {
		return spec.Errorf(spec.ErrConflict, "Bothy's files take %s of the disk, and store_limit allows %s", mebibytes(taken), mebibytes(e.StoreLimit)).
			WithHint("see what takes the room: bothy system df; have some go: bothy system prune, bothy rm, bothy template rm, bothy checkpoint rm")
	}
	return nil
}

func mebibytes(n int64) string { return fmt.Sprintf("%d MiB", n>>20) }
