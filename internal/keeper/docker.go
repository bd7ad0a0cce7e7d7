package keeper

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/guest"
)

// dockerMount is where a sandbox's own Docker keeps its images. The root layer cannot hold them:
// no overlay can be put over another one, and without overlays each layer of an image is a
// copy of all those below. Bytes are bounded as those of the root layer are, by themselves.
func (k *Keeper) dockerMount() (driver.Mount, error) {
	dir := k.dir.Kept()
	if err := os.RemoveAll(dir); err != nil { // what a crash left; what counts is in the layer
		return driver.Mount{}, fmt.Errorf("make room for Docker's files: %w", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return driver.Mount{}, fmt.Errorf("make room for Docker's files: %w", err)
	}
	saved, err := k.layers.Current()
	if err != nil {
		return driver.Mount{}, fmt.Errorf("find the root layer: %w", err)
	}
	limit, err := k.layerLimit(saved)
	return driver.Mount{Source: dir, Target: guest.DockerData, Memory: true, Kept: true, Mode: 0o711, Size: limit}, err
}

// dockerWish says what init does at Docker's socket.
func (k *Keeper) dockerWish() string {
	switch {
	case k.spec.Build != nil: // what is in its root is the step's result
		return ""
	case k.spec.Docker:
		return guest.DockerOn(k.account.UID, k.account.GID)
	}
	return guest.DockerOff(k.account.UID, k.account.GID)
}
