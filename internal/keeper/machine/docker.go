package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/guest"
)

// dockerMount is the mount for the images of a sandbox's own Docker. The root layer cannot hold them:
// one overlay cannot be put over another, and without overlays each image layer copies all those below.
// The mount has its own byte limit, like that of the root layer.
func (b *Builder) dockerMount() (driver.Mount, error) {
	dir := b.Dir.Kept()
	if err := os.RemoveAll(dir); err != nil { // left by a crash; the layer has the files that count
		return driver.Mount{}, fmt.Errorf("make room for Docker's files: %w", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return driver.Mount{}, fmt.Errorf("make room for Docker's files: %w", err)
	}
	saved, err := b.Layers.Current()
	if err != nil {
		return driver.Mount{}, fmt.Errorf("find the root layer: %w", err)
	}
	limit, err := b.Limits.LayerLimit(saved)
	return driver.Mount{Source: dir, Target: guest.DockerData, Memory: true, Kept: true, Mode: 0o711, Size: limit}, err
}

// dockerWish returns init's argument for Docker's socket.
func (b *Builder) dockerWish() string {
	switch {
	case b.Spec.Build != nil: // the step's result is the contents of its root
		return ""
	case b.Spec.Docker:
		return guest.DockerOn(b.account.UID, b.account.GID)
	}
	return guest.DockerOff(b.account.UID, b.account.GID)
}
