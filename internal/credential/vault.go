package credential

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/internal/vault/ask"
	"github.com/bothy-dev/bothy/spec"
)

// busVariables lead to the desktop's keyring. The process that holds keys gets no other variable.
var busVariables = []string{"DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR"}

func (v *Values) askSealer(ctx context.Context, o vault.Order) (vault.Answer, error) {
	var env []string
	for _, name := range busVariables {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return ask.Do(ctx, ask.Self, o, env...)
}

// addKey adds the data to an order that leads to the key.
func (v *Values) addKey(d *vault.Document, o vault.Order) (vault.Order, error) {
	o.Guard, o.Recipient = d.Guard, d.Recipient
	if d.Guard == vault.GuardKeyring {
		return o, nil
	}
	text, err := store.ReadSmall(v.vault().Identity())
	if errors.Is(err, fs.ErrNotExist) {
		return o, spec.Errorf(nil, "the key of the secrets is gone: %w", err).
			WithHint("bring %s back from a copy, or remove the stored secrets and set them again", v.vault().Identity())
	}
	if err != nil {
		return o, err
	}
	o.Identity = string(text)
	if d.Guard == vault.GuardPassphrase {
		o.Passphrase, err = v.askPassphrase(false)
	}
	return o, err
}

// passphraseVar names a file with the passphrase, for hosts where no user can be asked.
const passphraseVar = "BOTHY_VAULT_PASSPHRASE_FILE"

// askPassphrase reads the passphrase from the file, or else asks the user. It returns nothing if there
// is neither.
func (v *Values) askPassphrase(fresh bool) ([]byte, error) {
	if path := os.Getenv(passphraseVar); path != "" {
		text, err := readPassphrase(path)
		if err != nil {
			return nil, &spec.Error{Op: fmt.Sprintf("read the passphrase of the secrets (%s)", passphraseVar), Err: err}
		}
		return text, nil
	}
	if v.Passphrase == nil {
		return nil, nil
	}
	return v.Passphrase(fresh)
}

func readPassphrase(path string) ([]byte, error) {
	f, err := store.OpenRegular(path, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := store.ReadAll(f, store.MaxSmall)
	if err != nil {
		return nil, spec.Errorf(spec.ErrUsage, "%s: %w", path, err)
	}
	if text = bytes.TrimRight(text, "\r\n"); len(text) == 0 {
		return nil, spec.Errorf(spec.ErrUsage, "%s is empty", path)
	}
	return text, nil
}

// keyWish says how a key is to be made.
type keyWish struct {
	protect bool // with a passphrase
	quiet   bool // without a question by the desktop's keyring
}

// ensureKey makes the key of the vault, if it has none yet. It writes the file with the key before
// anything is sealed for it.
func (v *Values) ensureKey(ctx context.Context, c *vault.Change, wish keyWish) error {
	if c.Recipient != "" {
		if wish.protect && c.Guard != vault.GuardPassphrase {
			return spec.Errorf(spec.ErrConflict, "the secrets have a key without a passphrase already").
				WithHint("remove the stored secrets and %s, then set them again with --passphrase", v.vault().Identity())
		}
		return nil
	}
	o := vault.Order{Op: vault.OpMake, Quiet: wish.quiet}
	text, err := store.ReadSmall(v.vault().Identity())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	o.Identity = string(text)
	if wish.protect || os.Getenv(passphraseVar) != "" || strings.HasPrefix(o.Identity, "-----BEGIN") {
		if o.Passphrase, err = v.askPassphrase(o.Identity == ""); err != nil {
			return err
		}
		if len(o.Passphrase) == 0 {
			return spec.Errorf(spec.ErrUsage, "the passphrase is missing, and this process cannot ask for it").
				WithHint("set %s to a file with it", passphraseVar)
		}
	}
	a, err := v.askSealer(ctx, o)
	if err != nil {
		return &spec.Error{Op: "make a key for the secrets", Err: err}
	}
	if a.Identity != "" && a.Identity != o.Identity {
		if err := store.WriteFile(v.vault().Identity(), []byte(a.Identity)); err != nil {
			return err
		}
	}
	c.Guard, c.Recipient = a.Guard, a.Recipient
	return nil
}

// vaultTime is how long a start waits for another process that changes the vault, which may be asking
// the user a question.
var vaultTime = 10 * time.Second

// makeFirstKey makes the key of the vault before it has a value: a login that is made inside needs the
// key at a time when no command runs that could make it. Making the key has no time limit: with a
// passphrase it is slow on purpose.
func (v *Values) makeFirstKey(ctx context.Context) error {
	d, err := v.vault().Read()
	if err != nil || d.Recipient != "" {
		return err
	}
	waits, cancel := context.WithTimeoutCause(ctx, vaultTime, fmt.Errorf("it took longer than %v", vaultTime))
	defer cancel()
	c, err := v.vault().TryBegin(waits)
	if err != nil {
		return err
	}
	defer c.End()
	if c.Document, err = v.vault().Read(); err != nil || c.Recipient != "" {
		return err
	}
	if err := v.ensureKey(ctx, c, keyWish{quiet: true}); err != nil {
		return err
	}
	return c.Save()
}

func (v *Values) sealValue(ctx context.Context, c *vault.Change, name string, value []byte) (string, error) {
	return ask.Seal(ctx, ask.Self, c.Recipient, "secret "+name, value)
}

// ForgetKey removes the key from the desktop's keyring.
func (v *Values) ForgetKey(ctx context.Context) error {
	d, err := v.vault().Read()
	if err != nil || d.Guard != vault.GuardKeyring {
		return nil // a corrupted document does not say which key
	}
	_, err = v.askSealer(ctx, vault.Order{Op: vault.OpForget, Recipient: d.Recipient})
	return err
}

// Seal encrypts a value that is kept outside of the vault, and makes the key of the vault if it has
// none yet. name tells sealed values apart.
func (v *Values) Seal(ctx context.Context, name string, value []byte) (sealed string, err error) {
	c, err := v.vault().Begin()
	if err != nil {
		return "", err
	}
	defer c.End()
	fresh := c.Recipient == ""
	if err := v.ensureKey(ctx, c, keyWish{}); err != nil {
		return "", err
	}
	if sealed, err = v.sealValue(ctx, c, name, value); err != nil || !fresh {
		return sealed, err
	}
	return sealed, c.Save()
}

// Open decrypts a value that Seal encrypted.
func (v *Values) Open(ctx context.Context, name, sealed string) (value []byte, err error) {
	d, err := v.vault().Read()
	if err != nil {
		return nil, err
	}
	v.openItems(ctx, d, []vault.Item{{Name: name, Sealed: sealed}}, func(_ string, opened []byte, failed error) {
		value, err = opened, failed
	})
	return value, err
}
