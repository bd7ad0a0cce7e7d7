package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/bothy-dev/bothy/internal/sealedfile"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// SealFile seals the output of write with the owner's key. Only the owner of this state directory
// can read it, or can have made it.
func (e *Engine) SealFile(to io.Writer, write func(io.Writer) error) error {
	key, err := e.ownerKey(true)
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

// OpenSealed returns the content of a file that SealFile wrote. The caller must read to its end
// before it trusts any of it. The error is sealedfile.ErrNone if the file was never sealed.
func (e *Engine) OpenSealed(from io.Reader) (io.Reader, error) {
	key, without := e.ownerKey(false)
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

// ownerKey returns the key that seals exported files. With fresh, it makes a missing key.
func (e *Engine) ownerKey(fresh bool) ([]byte, error) {
	path := e.Store.OwnerKey()
	key, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && fresh {
		lock, err := e.Store.NamesLock(context.Background()) // so that only one of two callers makes it
		if err != nil {
			return nil, err
		}
		defer lock.Unlock()
		if _, err := os.Lstat(path); err == nil {
			return e.ownerKey(false)
		}
		key = make([]byte, sealedfile.KeySize)
		_, _ = rand.Read(key) // it does not fail
		if err := store.WriteFile(path, key); err != nil {
			return nil, err
		}
		e.say("files are sealed with %s: who wants to import them elsewhere, or after a reset, keeps a copy of it", path)
		return key, nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, spec.Errorf(spec.ErrDenied, "there is no %s: nothing was ever exported from here", path).
			WithHint("copy owner.key from the state directory of the Bothy that has exported it")
	}
	if err == nil && len(key) != sealedfile.KeySize {
		err = spec.Errorf(nil, "%s is damaged", path)
	}
	return key, err
}
