package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/bothy-dev/bothy/internal/audit"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/spec"
)

// NetworkRecords reads the network log of a sandbox from its beginning. The log is empty before the
// first start.
func (e *Engine) NetworkRecords(sb *spec.Sandbox, each func(*spec.NetworkRecord)) error {
	return e.networkEvents(sb, func(ev audit.Event) {
		var r spec.NetworkRecord
		if ev.Decode(&r) == nil { // any other entry does not come from a keeper
			each(&r)
		}
	})
}

// maxRefused bounds the number of names in a hint.
const maxRefused = 5

// Refused returns the first names that a sandbox tried to reach since a given time, and that were
// denied: for a hint.
func (e *Engine) Refused(sb *spec.Sandbox, since time.Time) (names []string) {
	_ = e.NetworkRecords(sb, func(r *spec.NetworkRecord) { // without a log, no hint
		name := term.Sanitize(r.Name)
		if r.Verdict == spec.VerdictDeny && !r.IsPacket() && name != "" && !r.Time.Before(since) && len(names) < maxRefused && !slices.Contains(names, name) {
			names = append(names, name)
		}
	})
	return names
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
