package keeper

import (
	"errors"

	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/spec"
)

// badLayer adds a hint to the error of a saved root layer that is damaged or that the wall cannot
// be built with. Other errors stay as they are. The home and the workspaces are not in the
// layer.
func badLayer(name, layer string, err error) error {
	if !errors.Is(err, driver.ErrLayer) {
		return err
	}
	return (&spec.Error{Class: spec.ErrSandbox, Err: err}).
		WithHint("go back to a checkpoint: bothy checkpoint ls %s, bothy checkpoint restore %s CHECKPOINT; without one, move %s away: the root begins anew then, and the home stays", name, name, layer)
}
