package engine

import (
	"context"
	"maps"
	"slices"

	"github.com/bothy-dev/bothy/internal/vault"
)

// CheckSecrets opens the values that are stored, and forgets them: each is sealed with a MAC, so
// that a damaged one does not open. It asks nobody: values whose key is protected by a passphrase
// or in the keyring are counted as locked.
func (e *Engine) CheckSecrets(ctx context.Context) (damaged map[string]error, locked int, err error) {
	d, err := e.vault().Read()
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
	e.open(ctx, d, slices.Collect(maps.Values(items)), func(name string, value []byte, err error) {
		clear(value)
		if err != nil {
			damaged[name] = err
		}
	})
	return damaged, 0, nil
}
