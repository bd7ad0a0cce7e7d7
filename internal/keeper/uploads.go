package keeper

import (
	"log/slog"

	"github.com/bothy-dev/bothy/internal/gateway/uploadlimit"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// openUploads continues the ledger of the last keeper. An unreadable ledger stops the start: without
// it the keeper cannot know how much of a budget is left.
func openUploads(dir store.Sandbox, log *slog.Logger) (*uploadlimit.Ledger, error) {
	before, err := dir.ReadUploads()
	if err != nil {
		return nil, &spec.Error{Op: "read the uploads under rules with max_upload", Err: err, Hint: "to count anew, remove " + dir.Uploads()}
	}
	return uploadlimit.New(before, func(list []spec.Upload) error {
		err := dir.WriteUploads(list)
		if err != nil {
			log.Warn("write the uploads under rules with max_upload", "err", err)
		}
		return err
	}), nil
}
