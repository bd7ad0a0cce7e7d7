package engine

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

// vault is where the secrets are.
func (e *Engine) vault() vault.Vault { return vault.Vault{Dir: e.Store.Secrets()} }

// busVariables lead to the desktop's keyring. The process that holds keys gets
// nothing else of the environment.
var busVariables = []string{"DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR"}

// order has the sealing process do something.
func (e *Engine) order(ctx context.Context, o vault.Order) (vault.Answer, error) {
	return ask.Do(ctx, ask.Self, o, bus()...)
}

func bus() (env []string) {
	for _, name := range busVariables {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// unlocking completes an order with what leads to the key.
func (e *Engine) unlocking(d *vault.Document, o vault.Order) (vault.Order, error) {
	o.Guard, o.Recipient = d.Guard, d.Recipient
	if d.Guard == vault.GuardKeyring {
		return o, nil
	}
	text, err := store.ReadSmall(e.vault().Identity())
	if errors.Is(err, fs.ErrNotExist) {
		return o, spec.Errorf(nil, "the key of the secrets is gone: %w", err).
			WithHint("bring %s back from a copy, or remove the stored secrets and set them again", e.vault().Identity())
	}
	if err != nil {
		return o, err
	}
	o.Identity = string(text)
	if d.Guard == vault.GuardPassphrase {
		o.Passphrase, err = e.passphrase(false)
	}
	return o, err
}

// passphraseVar names a file with the passphrase, for where nobody can be asked.
const passphraseVar = "BOTHY_VAULT_PASSPHRASE_FILE"

// passphrase gets the passphrase: from the file, else from the user. It is
// empty if there is neither.
func (e *Engine) passphrase(fresh bool) ([]byte, error) {
	if path := os.Getenv(passphraseVar); path != "" {
		text, err := readPassphrase(path)
		if err != nil {
			return nil, &spec.Error{Op: fmt.Sprintf("read the passphrase of the secrets (%s)", passphraseVar), Err: err}
		}
		return text, nil
	}
	if e.Passphrase == nil {
		return nil, nil
	}
	return e.Passphrase(fresh)
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

// keyWish is what is wished for a key that is made: a passphrase, and that the desktop's
// keyring asks nobody anything.
type keyWish struct{ protect, quiet bool }

// ready gives the vault a key, if it has none yet. The file with the key is
// there before anything is sealed for it.
func (e *Engine) ready(ctx context.Context, c *vault.Change, wish keyWish) error {
	if c.Recipient != "" {
		if wish.protect && c.Guard != vault.GuardPassphrase {
			return spec.Errorf(spec.ErrConflict, "the secrets have a key without a passphrase already").
				WithHint("remove the stored secrets and %s, then set them again with --passphrase", e.vault().Identity())
		}
		return nil
	}
	o := vault.Order{Op: vault.OpMake, Quiet: wish.quiet}
	text, err := store.ReadSmall(e.vault().Identity())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	o.Identity = string(text)
	if wish.protect || os.Getenv(passphraseVar) != "" || strings.HasPrefix(o.Identity, "-----BEGIN") {
		if o.Passphrase, err = e.passphrase(o.Identity == ""); err != nil {
			return err
		}
		if len(o.Passphrase) == 0 {
			return spec.Errorf(spec.ErrUsage, "there is no passphrase, and nobody to ask for one").
				WithHint("name a file with it in %s", passphraseVar)
		}
	}
	a, err := e.order(ctx, o)
	if err != nil {
		return &spec.Error{Op: "make a key for the secrets", Err: err}
	}
	if a.Identity != "" && a.Identity != o.Identity {
		if err := store.WriteFile(e.vault().Identity(), []byte(a.Identity)); err != nil {
			return err
		}
	}
	c.Guard, c.Recipient = a.Guard, a.Recipient
	return nil
}

// vaultTime is how long a start waits for who changes the vault: that may be asking somebody
// something.
var vaultTime = 10 * time.Second

// firstKey gives the vault a key before there is a value: a login that is made inside needs
// one, at a time when nobody is there who could make it. To make it takes what it takes: with
// a passphrase that is much, on purpose.
func (e *Engine) firstKey(ctx context.Context) error {
	d, err := e.vault().Read()
	if err != nil || d.Recipient != "" {
		return err
	}
	waits, cancel := context.WithTimeoutCause(ctx, vaultTime, fmt.Errorf("it took longer than %v", vaultTime))
	defer cancel()
	c, err := e.vault().TryBegin(waits)
	if err != nil {
		return err
	}
	defer c.End()
	if c.Document, err = e.vault().Read(); err != nil || c.Recipient != "" {
		return err
	}
	if err := e.ready(ctx, c, keyWish{quiet: true}); err != nil {
		return err
	}
	return c.Save()
}

// seal encrypts a value.
func (e *Engine) seal(ctx context.Context, c *vault.Change, name string, value []byte) (string, error) {
	return ask.Seal(ctx, ask.Self, c.Recipient, "secret "+name, value)
}

// forget takes the key out of the desktop's keyring.
func (e *Engine) forget(ctx context.Context) error {
	d, err := e.vault().Read()
	if err != nil || d.Guard != vault.GuardKeyring {
		return nil // corrupted: there is no telling which key
	}
	_, err = e.order(ctx, vault.Order{Op: vault.OpForget, Recipient: d.Recipient})
	return err
}
