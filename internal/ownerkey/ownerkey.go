// Package ownerkey seals exported files with the key of the owner of a state directory.
package ownerkey

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/bothy-dev/bothy/internal/keeperclient"
	"github.com/bothy-dev/bothy/internal/sealedfile"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Owner is the owner of a state directory.
type Owner struct{ Keepers keeperclient.Keepers }

// Seal seals the output of write with the owner's key. Only the owner of this state directory
// can read it, or can have made it.
func (o Owner) Seal(to io.Writer, write func(io.Writer) error) error {
	key, err := o.readKey(true)
	if err != nil {
		return err
	}
	sealed, err := sealedfile.NewWriter(to, key)
	if err != nil {
		return err
	}
	if err := write(sealed); err != nil {
		return err
	}
	return sealed.Close()
}

// Open returns the content of a file that Seal wrote. The caller must read to its end
// before it trusts any of it. The error is sealedfile.ErrNone if the file was never sealed.
func (o Owner) Open(from io.Reader) (io.Reader, error) {
	key, without := o.readKey(false)
	open, err := sealedfile.NewReader(from, key)
	switch {
	case errors.Is(err, sealedfile.ErrNone):
	case without != nil:
		return nil, without
	case errors.Is(err, sealedfile.ErrOther):
		return nil, spec.Errorf(spec.ErrDenied, "%w", err).WithHint("copy owner.key from the state directory of the Bothy that has exported it")
	}
	return open, err
}

// readKey returns the key that seals exported files. With fresh, it makes a missing key.
func (o Owner) readKey(fresh bool) ([]byte, error) {
	path := o.Keepers.Store.OwnerKey()
	key, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && fresh {
		lock, err := o.Keepers.Store.NamesLock(context.Background()) // so that only one of two callers makes it
		if err != nil {
			return nil, err
		}
		defer lock.Unlock()
		if _, err := os.Lstat(path); err == nil {
			return o.readKey(false)
		}
		key = make([]byte, sealedfile.KeySize)
		_, _ = rand.Read(key) // it does not fail
		if err := store.WriteFile(path, key); err != nil {
			return nil, err
		}
		o.Keepers.Say("files are sealed with %s: who wants to import them elsewhere, or after a reset, keeps a copy of it", path)
		return key, nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, spec.Errorf(spec.ErrDenied, "%s does not exist: nothing was ever exported from here", path).
			WithHint("copy owner.key from the state directory of the Bothy that has exported it")
	}
	if err == nil && len(key) != sealedfile.KeySize {
		err = spec.Errorf(nil, "%s is damaged", path)
	}
	return key, err
}
