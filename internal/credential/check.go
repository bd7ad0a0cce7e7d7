package credential

import (
	"context"
	"maps"
	"slices"

	"github.com/bothy-dev/bothy/internal/vault"
)

// CheckStored opens the stored values, and forgets them. Each is sealed with a MAC, so a damaged value
// does not open. CheckStored does not ask the user: it only counts, as locked, the values whose key is
// in the keyring or protected by a passphrase.
func (v *Values) CheckStored(ctx context.Context) (damaged map[string]error, locked int, err error) {
	d, err := v.vault().Read()
	if err != nil {
		return nil, 0, err
	}
	items := map[string]vault.Item{}
	for _, s := range d.Secrets {
		if s.Sealed != "" {
			items[s.Name] = vault.Item{Name: s.Name, Sealed: s.Sealed, Again: "bothy secret set " + s.Name}
		}
	}
	if d.Guard != vault.GuardFile {
		return nil, len(items), nil
	}
	damaged = map[string]error{}
	v.openItems(ctx, d, slices.Collect(maps.Values(items)), func(name string, value []byte, err error) {
		clear(value)
		if err != nil {
			damaged[name] = err
		}
	})
	return damaged, 0, nil
}
