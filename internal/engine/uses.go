package engine

import (
	"errors"
	"io/fs"
	"slices"

	"github.com/bothy-dev/bothy/internal/audit"
	"github.com/bothy-dev/bothy/spec"
)

// SecretEvents gives what was done with secrets, in order: from the log of the
// vault, and from the network logs of the sandboxes there are, uses as well as
// placeholders that were refused.
func (e *Engine) SecretEvents() ([]audit.Event, error) {
	var all []audit.Event
	err := audit.Read(e.vault().Log(), func(ev audit.Event) error {
		all = append(all, ev)
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	list, err := e.Store.List()
	if err != nil {
		return nil, err
	}
	for _, sb := range list {
		err := e.networkEvents(sb, func(ev audit.Event) {
			if _, named := ev.Fields["secret"]; named || ev.Kind == spec.NetworkSecret || ev.Kind == spec.NetworkRenewal {
				all = append(all, ev)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(all, func(a, b audit.Event) int { return a.Time.Compare(b.Time) })
	return all, nil
}
