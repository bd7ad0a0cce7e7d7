package keeper

import (
	"github.com/bothy-dev/bothy/internal/gateway/outflow"
	"github.com/bothy-dev/bothy/spec"
)

// openUploads goes on from what the last keeper wrote. What cannot be read stops a start:
// who does not know what was sent cannot know what is left.
func (k *Keeper) openUploads() (*outflow.Ledger, error) {
	before, err := k.dir.ReadUploads()
	if err != nil {
		return nil, &spec.Error{Op: "read what was sent by rules with max_upload", Err: err, Hint: "to count anew, remove " + k.dir.Uploads()}
	}
	return outflow.New(before, func(list []spec.Upload) error {
		err := k.dir.WriteUploads(list)
		if err != nil {
			k.log.Warn("write what was sent by rules with max_upload", "err", err)
		}
		return err
	}), nil
}

// closeUploads makes what is written down exact. Where that fails, more is written down
// than was sent.
func (k *Keeper) closeUploads() { _ = k.uploads.Close() }
