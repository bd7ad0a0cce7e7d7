package credential

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// Values reads, seals and finds the values of secrets on the host.
type Values struct {
	Store  *store.Store
	Agents agent.Catalog
	// Passphrase asks the user for the passphrase of the secrets; twice for a fresh one. It is nil
	// if the user cannot be asked.
	Passphrase func(fresh bool) ([]byte, error)
	// OwnProcess says that this process is Bothy's own. While values are read, a signal that ends it ends
	// the commands that print them first, and they may use its terminal. In another process only the
	// context ends them, and they have no terminal.
	OwnProcess bool
	// Say tells the user what cannot be lent, and why. May be nil.
	Say func(format string, args ...any)
}

func (v *Values) tellUser(format string, args ...any) {
	if v.Say != nil {
		v.Say(format, args...)
	}
}

func (v *Values) vault() vault.Vault { return vault.Of(v.Store) }

// Secrets returns the secrets of the vault, by name.
func (v *Values) Secrets() ([]vault.Secret, error) {
	d, err := v.vault().Read()
	if err != nil {
		return nil, err
	}
	return d.Secrets, nil
}

// Secret returns a secret of the vault. For an unknown name the error is of class [spec.ErrNotFound].
func (v *Values) Secret(name string) (*vault.Secret, error) {
	d, err := v.vault().Read()
	if err != nil {
		return nil, err
	}
	return d.Find(name)
}

// secretValue is a value, or why there is none.
type secretValue struct {
	value []byte
	login *hostLogin // whose token the value is; nil for any other value
	err   error
}

func (g secretValue) loan(l spec.Lease) wire.Loan {
	loan := wire.Loan{Lease: l, Value: g.value}
	if g.login != nil {
		g.login.completeLoan(&loan)
	}
	return loan
}

// results collects values that are read at the same time, by the names of their secrets.
type results struct {
	mu sync.Mutex
	of map[string]secretValue
}

func (r *results) addValue(name string, value []byte, err error) {
	r.add(name, secretValue{value: value, err: err})
}

func (r *results) add(name string, g secretValue) {
	if g.err == nil {
		g.value, g.err = vault.CleanValue(g.value)
	}
	if g.err != nil {
		g = secretValue{err: fmt.Errorf("secret %s: %w", name, g.err)}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.of[name] = g
}

// readValues reads the values of secrets from their sources, all at once. It opens further items with
// those of the vault, so that the user is asked for a passphrase only once.
func (v *Values) readValues(ctx context.Context, d *vault.Document, names []string, more ...vault.Item) map[string]secretValue {
	read := results{of: map[string]secretValue{}}
	ctx, settle := v.untilSignal(ctx)
	defer settle()
	items := slices.Clone(more)
	var sources sync.WaitGroup
	for _, name := range names {
		s, err := d.Find(name)
		if err != nil {
			read.addValue(name, nil, err)
			continue
		}
		switch s.Source.Kind {
		case vault.SourceStored:
			items = append(items, vault.Item{Name: name, Sealed: s.Sealed, Again: "set it again: bothy secret set " + name})
		case vault.SourceKeyring:
			items = append(items, vault.Item{Name: name, Attributes: s.Source.Attributes})
		case vault.SourceLogin:
			read.add(name, v.readLogin(s.Source))
		default:
			sources.Go(func() {
				value, err := v.readSource(ctx, s.Source)
				read.addValue(name, value, err)
			})
		}
	}
	v.openItems(ctx, d, items, read.addValue)
	sources.Wait()
	return read.of
}

// readSource reads a source outside of the vault and the keyring.
func (v *Values) readSource(ctx context.Context, s vault.Source) ([]byte, error) {
	switch s.Kind {
	case vault.SourceKey:
		return readKey(s)
	case vault.SourceTool:
		return v.readToken(ctx, s)
	case vault.SourceEnvironment:
		value, ok := os.LookupEnv(s.Variable)
		if !ok {
			return nil, spec.Errorf(spec.ErrNotFound, "the variable %s is not set", s.Variable).
				WithHint("set it where you call bothy, or give the secret another source: bothy secret set")
		}
		return []byte(value), nil
	case vault.SourceCommand, vault.SourceFile:
		paths, err := hostpath.Load(v.Store)
		if err != nil {
			return nil, err
		}
		if s.Kind == vault.SourceFile {
			return paths.ReadFile(s.Path, store.MaxSmall)
		}
		return v.runSource(ctx, paths, s.Command)
	}
	return nil, fmt.Errorf("it has no source")
}

// openItems sends sealed values and items of the keyring to the sealing process, and calls put for
// each.
func (v *Values) openItems(ctx context.Context, d *vault.Document, items []vault.Item, put func(name string, value []byte, err error)) {
	if len(items) == 0 {
		return
	}
	o := vault.Order{Op: vault.OpOpen, Items: items}
	var err error
	if slices.ContainsFunc(items, func(i vault.Item) bool { return i.Sealed != "" }) {
		o, err = v.addKey(d, o)
	}
	var a vault.Answer
	if err == nil {
		a, err = v.askSealer(ctx, o)
	}
	if err == nil && len(a.Items) != len(items) {
		err = errors.New("some values were not opened")
	}
	for i, item := range items {
		switch {
		case err != nil:
			put(item.Name, nil, err)
		case a.Items[i].Error != nil:
			put(item.Name, nil, a.Items[i].Error.Err())
		default:
			put(item.Name, a.Items[i].Value, nil)
		}
	}
}
