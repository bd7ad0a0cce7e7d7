// Package records reads the records of a sandbox on the disk: its network log, its uploads, its bill, and the
// sessions of its agent. The sandbox need not run.
package records

import (
	"fmt"
	"slices"
	"time"

	"github.com/bothy-dev/bothy/internal/audit"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/spec"
)

// Network reads the network log of a sandbox from its beginning. The log is empty before the
// first start.
func Network(st *store.Store, sb *spec.Sandbox, each func(*spec.NetworkRecord)) error {
	err := audit.ReadExisting(st.Sandbox(sb.ID).NetworkLog(), func(ev audit.Event) error {
		var r spec.NetworkRecord
		if ev.Decode(&r) == nil { // any other entry does not come from a keeper
			each(&r)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("network log of %s: %w", sb.Name, err)
	}
	return nil
}

// maxRefused bounds the number of names in a hint.
const maxRefused = 5

// Refused returns the first names that a sandbox tried to reach since a given time, and that were
// denied: for a hint.
func Refused(st *store.Store, sb *spec.Sandbox, since time.Time) (names []string) {
	_ = Network(st, sb, func(r *spec.NetworkRecord) { // without a log, no hint
		name := term.Sanitize(r.Name)
		if r.Verdict == spec.VerdictDeny && !r.IsPacket() && name != "" && !r.Time.Before(since) && len(names) < maxRefused && !slices.Contains(names, name) {
			names = append(names, name)
		}
	})
	return names
}

// Host returns the host of a record, as a rule would name it.
func Host(r *spec.NetworkRecord) string {
	host := r.Name
	switch {
	case r.Event == spec.NetworkSuppressed:
		return "(many)"
	case r.Direction == spec.DirectionIn:
		return fmt.Sprintf("port %d inside", r.Port)
	case host == "" && r.Addr.Is6():
		host = "[" + r.Addr.String() + "]"
	case host == "" && r.Addr.IsValid():
		host = r.Addr.String()
	}
	if r.Port != 0 {
		host += fmt.Sprintf(":%d", r.Port)
	}
	return host
}
