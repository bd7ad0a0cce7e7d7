package keeper

import (
	"github.com/bothy-dev/bothy/internal/gateway/uploadlimit"
	"github.com/bothy-dev/bothy/spec"
)

// openUploads continues the ledger of the last keeper. An unreadable ledger stops the start: without
// it the keeper cannot know how much of a budget is left.
func (k *Keeper) openUploads() (*uploadlimit.Ledger, error) {
	before, err := k.dir.ReadUploads()
	if err != nil {
		return nil, &spec.Error{Op: "read what was sent by rules with max_upload", Err: err, Hint: "to count anew, remove " + k.dir.Uploads()}
	}
	return uploadlimit.New(before, func(list []spec.Upload) error {
		err := k.dir.WriteUploads(list)
		if err != nil {
			k.log.Warn("write what was sent by rules with max_upload", "err", err)
		}
		return err
	}), nil
}

// closeUploads makes the written sums exact. If that fails they are higher than the bytes sent.
func (k *Keeper) closeUploads() { _ = k.uploads.Close() }
