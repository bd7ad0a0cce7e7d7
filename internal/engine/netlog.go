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

// maxRefused bounds how many names a hint has.
const maxRefused = 5

// Refused are the first names that a sandbox wanted to reach since a time, and was not
// let: for a hint.
func (e *Engine) Refused(sb *spec.Sandbox, since time.Time) (names []string) {
	_ = e.NetworkRecords(sb, func(r *spec.NetworkRecord) { // without a log there is no hint
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
