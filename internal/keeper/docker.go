package keeper

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/guest"
)

// dockerMount is the mount for the images of a sandbox's own Docker. The root layer cannot hold
// them: one overlay cannot be put over another, and without overlays each image layer copies
// all those below. The mount has a byte limit of its own, like that of the root layer.
func (k *Keeper) dockerMount() (driver.Mount, error) {
	dir := k.dir.Kept()
	if err := os.RemoveAll(dir); err != nil { // left by a crash; the layer has the files that count
		return driver.Mount{}, fmt.Errorf("make room for Docker's files: %w", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return driver.Mount{}, fmt.Errorf("make room for Docker's files: %w", err)
	}
	saved, err := k.layers.Current()
	if err != nil {
		return driver.Mount{}, fmt.Errorf("find the root layer: %w", err)
	}
	limit, err := k.disk.LayerLimit(saved)
	return driver.Mount{Source: dir, Target: guest.DockerData, Memory: true, Kept: true, Mode: 0o711, Size: limit}, err
}

// dockerWish says what init does at Docker's socket.
func (k *Keeper) dockerWish() string {
	switch {
	case k.spec.Build != nil: // the step's result is the contents of its root
		return ""
	case k.spec.Docker:
		return guest.DockerOn(k.account.UID, k.account.GID)
	}
	return guest.DockerOff(k.account.UID, k.account.GID)
}
