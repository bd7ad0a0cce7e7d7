package credential

import (
	"fmt"
	"slices"

	"github.com/bothy-dev/bothy/internal/audit"
	"github.com/bothy-dev/bothy/spec"
)

// Events returns the events of secrets, in order: the changes from the log of the vault, and, from the
// network logs of all sandboxes, uses of secrets and refused placeholders.
func (v *Values) Events() ([]audit.Event, error) {
	var all []audit.Event
	keep := func(ev audit.Event) error {
		all = append(all, ev)
		return nil
	}
	if err := audit.ReadExisting(v.vault().Log(), keep); err != nil {
		return nil, err
	}
	list, err := v.Store.List()
	if err != nil {
		return nil, err
	}
	for _, sb := range list {
		err := audit.ReadExisting(v.Store.Sandbox(sb.ID).NetworkLog(), func(ev audit.Event) error {
			if _, named := ev.Fields["secret"]; named || ev.Kind == spec.NetworkSecret || ev.Kind == spec.NetworkRenewal {
				return keep(ev)
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("network log of %s: %w", sb.Name, err)
		}
	}
	slices.SortStableFunc(all, func(a, b audit.Event) int { return a.Time.Compare(b.Time) })
	return all, nil
}
