package engine

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/bothy-dev/bothy/internal/audit"
	"github.com/bothy-dev/bothy/spec"
)

// NetworkRecords reads the network log of a sandbox from its beginning; nothing is
// there before its first start.
func (e *Engine) NetworkRecords(sb *spec.Sandbox, each func(*spec.NetworkRecord)) error {
	return e.networkEvents(sb, func(ev audit.Event) {
		var r spec.NetworkRecord
		if ev.Decode(&r) == nil { // what is no record was not written by a keeper
			each(&r)
		}
	})
}

func (e *Engine) networkEvents(sb *spec.Sandbox, each func(audit.Event)) error {
	err := audit.Read(e.Store.Sandbox(sb.ID).NetworkLog(), func(ev audit.Event) error {
		each(ev)
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("network log of %s: %w", sb.Name, err)
	}
	return nil
}
