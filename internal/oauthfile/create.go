package oauthfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// ErrLoggedIn reports that a sandbox already has a login that was made inside.
var ErrLoggedIn = errors.New("it is logged in already")

// Create writes a new login, and reads it. It makes the directory if necessary, for its owner alone.
// When it returns without an error the tokens are on the disk; after an error the file does not exist.
func (f File) Create(g Grant, now time.Time) (*Document, error) {
	d, err := f.create(g, now)
	if err != nil {
		_ = f.Remove()
		return nil, &spec.Error{Op: "keep a login", Err: err}
	}
	return d, nil
}

func (f File) create(g Grant, now time.Time) (*Document, error) {
	if !g.usable() || g.Refresh == "" {
		return nil, ErrNoToken
	}
	dir := filepath.Dir(f.Path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	h := Held{Document: &Document{how: f.How, all: map[string]any{}}, f: f}
	data, err := h.withGrant(g, now)
	if err != nil {
		return nil, err
	}
	if len(data) > MaxFile/2 { // sealing makes it larger
		return nil, fmt.Errorf("it has more than %d bytes", MaxFile/2)
	}
	if err := f.replace(data, 0o600); err != nil {
		return nil, err
	}
	if err := store.SyncDir(filepath.Dir(dir)); err != nil {
		return nil, err
	}
	return f.Read()
}
