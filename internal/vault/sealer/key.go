package sealer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"filippo.io/age"
	"filippo.io/age/armor"

	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/spec"
)

// makeKey makes the key and puts it in the best available place. A key that is already in the file
// is used: a crash left it behind, or a user moved the document away.
func makeKey(ctx context.Context, o vault.Order) (vault.Answer, error) {
	if o.Identity != "" {
		return adoptKey(o)
	}
	id, err := age.GenerateX25519Identity()
	if err != nil {
		return vault.Answer{}, err
	}
	a := vault.Answer{Guard: o.Guard, Recipient: id.Recipient().String()}
	if a.Guard == "" {
		a.Guard = vault.GuardKeyring
		if len(o.Passphrase) > 0 {
			a.Guard = vault.GuardPassphrase
		} else if keepKey(ctx, o.Quiet, a.Recipient, id.String()) != nil {
			a.Guard = vault.GuardFile
		}
	} else if a.Guard == vault.GuardKeyring {
		err = keepKey(ctx, o.Quiet, a.Recipient, id.String())
	}
	switch a.Guard {
	case vault.GuardPassphrase:
		a.Identity, err = lockKey(id, o.Passphrase)
	case vault.GuardFile:
		a.Identity = id.String() + "\n"
	}
	return a, err
}

func adoptKey(o vault.Order) (vault.Answer, error) {
	o.Guard = vault.GuardFile
	if strings.HasPrefix(o.Identity, armor.Header) {
		o.Guard = vault.GuardPassphrase
	}
	id, err := identity(context.Background(), o)
	if err != nil {
		return vault.Answer{}, err
	}
	return vault.Answer{Guard: o.Guard, Recipient: id.Recipient().String(), Identity: o.Identity}, nil
}

func identity(ctx context.Context, o vault.Order) (*age.X25519Identity, error) {
	text := o.Identity
	var err error
	switch o.Guard {
	case vault.GuardFile:
	case vault.GuardPassphrase:
		text, err = unlock(o.Identity, o.Passphrase)
	case vault.GuardKeyring:
		text, err = keptKey(ctx, o.Recipient)
	default:
		err = fmt.Errorf("a key cannot be kept by %q", o.Guard)
	}
	if err != nil {
		return nil, err
	}
	id, err := age.ParseX25519Identity(strings.TrimSpace(text))
	if err != nil { // age's own text may quote the key
		return nil, errors.New("the key of the secrets is corrupted")
	}
	if o.Recipient != "" && id.Recipient().String() != o.Recipient {
		return nil, errors.New("the key of the secrets is another than they were sealed for")
	}
	return id, nil
}

// workFactor is the logarithm of the cost of one guess of the passphrase. age itself takes 18: a
// quarter of a gigabyte and a second, at every start of a sandbox that is lent a secret.
const workFactor = 16

// lockKey encrypts a key with a passphrase, so that age can open it too.
func lockKey(id *age.X25519Identity, passphrase []byte) (string, error) {
	r, err := age.NewScryptRecipient(string(passphrase))
	if err != nil {
		return "", spec.Errorf(spec.ErrUsage, "the passphrase cannot be used: %w", err)
	}
	r.SetWorkFactor(workFactor)
	return encrypt([]byte(id.String()+"\n"), r)
}

func unlock(text string, passphrase []byte) (string, error) {
	if len(passphrase) == 0 {
		return "", spec.Errorf(spec.ErrDenied, "the secrets are locked with a passphrase").
			WithHint("name a file with it in BOTHY_VAULT_PASSPHRASE_FILE, or run this on a terminal, where it is asked for")
	}
	id, err := age.NewScryptIdentity(string(passphrase))
	if err != nil {
		return "", err
	}
	plain, err := decrypt(text, id)
	if _, wrong := errors.AsType[*age.NoIdentityMatchError](err); wrong {
		return "", spec.Errorf(spec.ErrDenied, "wrong passphrase for the secrets")
	}
	if err != nil {
		return "", errors.New("the key of the secrets is corrupted")
	}
	return string(plain), nil
}

// sealAll encrypts values. It needs no key.
func sealAll(o vault.Order) (vault.Answer, error) {
	r, err := age.ParseX25519Recipient(o.Recipient)
	if err != nil {
		return vault.Answer{}, fmt.Errorf("the recipient of the secrets is invalid: %w", err)
	}
	a := vault.Answer{Items: make([]vault.Item, len(o.Items))}
	for i, item := range o.Items {
		a.Items[i].Name = item.Name
		if a.Items[i].Sealed, err = encrypt(item.Value, r); err != nil {
			return vault.Answer{}, err
		}
	}
	return a, nil
}

// openAll decrypts values. A value that cannot be opened does not block the others.
func openAll(ctx context.Context, o vault.Order) (vault.Answer, error) {
	var id *age.X25519Identity
	var locked error
	a := vault.Answer{Items: make([]vault.Item, len(o.Items))}
	for i, item := range o.Items {
		a.Items[i].Name = item.Name
		if item.Sealed == "" {
			value, err := lookUp(ctx, item.Attributes)
			a.Items[i].Value, a.Items[i].Error = value, wireError(err)
			continue
		}
		if id == nil && locked == nil {
			id, locked = identity(ctx, o)
		}
		value, err := []byte(nil), locked
		if err == nil {
			if value, err = decrypt(item.Sealed, id); err != nil {
				err = &spec.Error{Err: errors.New(unopened(err)), Hint: item.Again}
			}
		}
		a.Items[i].Value, a.Items[i].Error = value, wireError(err)
	}
	return a, nil
}

func unopened(err error) string {
	if _, other := errors.AsType[*age.NoIdentityMatchError](err); other {
		return "it is sealed for another key than that of the secrets"
	}
	return "its sealed value is corrupted"
}

func wireError(err error) *spec.WireError {
	if err == nil {
		return nil
	}
	return spec.ToWire(err)
}

func encrypt(plain []byte, r age.Recipient) (string, error) {
	var out bytes.Buffer
	text := armor.NewWriter(&out)
	w, err := age.Encrypt(text, r)
	if err != nil {
		return "", err
	}
	_, err = w.Write(plain)
	err = errors.Join(err, w.Close(), text.Close())
	return out.String(), err
}

func decrypt(text string, id age.Identity) ([]byte, error) {
	r, err := age.Decrypt(armor.NewReader(strings.NewReader(text)), id)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}
