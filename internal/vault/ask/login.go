package ask

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"

	"github.com/bothy-dev/bothy/internal/sealedfile"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// LoginKey makes the key of a login that is made inside, and seals it for the vault. The keeper can
// renew the login as long as it knows this key, without asking for the vault's key.
func LoginKey(ctx context.Context, program string, d *vault.Document, env ...string) (*wire.Seal, error) {
	if d.Recipient == "" {
		return nil, spec.Errorf(nil, "no key exists to seal it with").WithHint("stop and start the sandbox: that makes a key, or reports why it cannot")
	}
	key := make([]byte, sealedfile.KeySize)
	_, _ = rand.Read(key) // it cannot fail
	sealed, err := Seal(ctx, program, d.Recipient, "the key of a login", []byte(hex.EncodeToString(key)), env...)
	if err != nil {
		return nil, err
	}
	return &wire.Seal{Key: key, Sealed: sealed}, nil
}

// OpenedLoginKey rebuilds the result of LoginKey from the opened key.
func OpenedLoginKey(opened []byte, sealed string) (*wire.Seal, error) {
	key, err := hex.DecodeString(string(opened))
	if err != nil || len(key) != sealedfile.KeySize {
		return nil, errors.New("its key is malformed")
	}
	return &wire.Seal{Key: key, Sealed: sealed}, nil
}
