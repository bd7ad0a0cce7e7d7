package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// NewSecret is what Bothy is told of a secret.
type NewSecret struct {
	Name    string
	Service string // empty: guessed
	Source  vault.Source
	Value   []byte // of SourceStored
	// Passphrase asks for the key of the vault to be locked with one.
	Passphrase bool
}

// Kinds of entries in the log of the vault.
const (
	noteSet    = "set"
	noteRemove = "remove"
	noteLease  = "lease"
	noteRevoke = "revoke"
)

// Secrets lists what there is, by name.
func (e *Engine) Secrets() ([]vault.Secret, error) {
	d, err := e.vault().Read()
	if err != nil {
		return nil, err
	}
	return d.Secrets, nil
}

// SetSecret adds a secret or gives one another source or value, which running
// sandboxes it is lent to use from then on.
func (e *Engine) SetSecret(ctx context.Context, n NewSecret) error {
	err := vault.CheckName(n.Name)
	if err == nil && n.Service != "" && vault.FindService(n.Service) == nil {
		err = spec.Errorf(spec.ErrUsage, "no service named %q", n.Service).WithHint("bothy secret set --help lists them")
	}
	if err == nil && n.Source.Kind == vault.SourceStored {
		n.Value, err = vault.CleanValue(n.Value)
	}
	if err == nil && n.Source.Kind == vault.SourceLogin {
		err = e.completeLogin(&n)
	}
	if err != nil {
		return err
	}
	c, v, unread, err := e.renew(ctx, n)
	if err != nil {
		return err
	}
	defer c.End()
	s := fresh(c, n)
	if s.Source.Kind == vault.SourceStored {
		if err := e.ready(ctx, c, keyWish{protect: n.Passphrase}); err != nil {
			return err
		}
		if s.Sealed, err = e.seal(ctx, c, s.Name, n.Value); err != nil {
			return err
		}
	}
	if err := e.put(c, &s); err != nil {
		return err
	}
	return errors.Join(unread, e.rotate(ctx, s.Name, v))
}

// renew reads the value that sandboxes get instead of the one they have, and
// takes the lock of the vault. It is read before: a source may take its time, and
// leases must be revocable meanwhile. Unread is why there is none, although the
// secret is lent; if it is not, its source is left alone.
func (e *Engine) renew(ctx context.Context, n NewSecret) (c *vault.Change, v got, unread, err error) {
	stored := n.Source.Kind == vault.SourceStored
	for read := false; ; read = true {
		switch {
		case stored:
			v.value = n.Value
		case read:
			d := &vault.Document{Secrets: []vault.Secret{{Name: n.Name, Source: n.Source}}}
			v = e.values(ctx, d, []string{n.Name})[n.Name]
			unread = v.err
		}
		if c, err = e.vault().Begin(); err != nil || stored || read || !e.isLent(n.Name) {
			return c, v, unread, err
		}
		c.End()
	}
}

// isLent tells whether any sandbox has a lease of a secret. Leases that cannot
// be read are another's to tell: here they do not count.
func (e *Engine) isLent(secret string) bool {
	all, err := e.Leases(nil)
	now := time.Now()
	return err == nil && slices.ContainsFunc(all, func(l spec.Lease) bool { return l.Secret == secret && l.Live(now) })
}

// fresh is the secret as it will stand in the document.
func fresh(c *vault.Change, n NewSecret) vault.Secret {
	now := time.Now().UTC().Truncate(time.Second)
	s := vault.Secret{Name: n.Name, Source: n.Source, CreatedAt: now, UpdatedAt: now}
	if old, err := c.Find(n.Name); err == nil {
		s.CreatedAt, s.Service = old.CreatedAt, old.Service
	}
	switch {
	case n.Service != "":
		s.Service = vault.FindService(n.Service).Name
	case s.Service == "":
		s.Service = vault.GuessService(n.Name, n.Source)
	}
	if len(n.Value) > 0 {
		s.Service = vault.SortService(s.Service, n.Value)
	}
	return s
}

// note writes into the log of the vault. What cannot be logged is done all the
// same, but not in silence.
func (e *Engine) note(c *vault.Change, what string, fields map[string]any) {
	if err := c.Note(what, fields); err != nil {
		e.say("the audit log of the secrets is not written: %v", err)
	}
}

// put has a secret stand in the vault, whose lock the caller has.
func (e *Engine) put(c *vault.Change, s *vault.Secret) error {
	c.Put(*s)
	if err := c.Save(); err != nil {
		return err
	}
	e.note(c, noteSet, map[string]any{"secret": s.Name, "service": s.Service, "source": s.Source.Kind})
	return nil
}

// rotate gives a secret's new value to the sandboxes it is lent to. Without one
// they lose the old.
func (e *Engine) rotate(ctx context.Context, name string, v got) error {
	holds := func(l spec.Lease) bool { return l.Secret == name }
	return e.eachSandbox(func(sb *spec.Sandbox) error {
		list, err := vault.ReadLeases(e.Store.Sandbox(sb.ID).Leases())
		if err != nil || !slices.ContainsFunc(list, holds) {
			return err
		}
		list = vault.Live(list, time.Now())
		var put []wire.Loan
		for _, l := range list {
			if holds(l) && v.value != nil {
				put = append(put, v.loan(l))
			}
		}
		if v.value == nil {
			list = slices.DeleteFunc(list, holds)
		}
		return e.announceLoans(ctx, sb, list, put)
	})
}

// RemoveSecret forgets a secret and ends its leases.
func (e *Engine) RemoveSecret(ctx context.Context, name string) error {
	c, err := e.vault().Begin()
	if err != nil {
		return err
	}
	defer c.End()
	if _, err := c.Find(name); err != nil {
		gone, rerr := e.revoke(ctx, c, nil, func(l *spec.Lease) bool { return isCaptured(*l) && l.Secret == name })
		if len(gone) > 0 || rerr != nil {
			return rerr
		}
		return err
	}
	c.Remove(name)
	if err := c.Save(); err != nil {
		return err
	}
	e.note(c, noteRemove, map[string]any{"secret": name})
	_, err = e.revoke(ctx, c, nil, func(l *spec.Lease) bool { return l.Secret == name })
	return err
}

// eachSandbox does something to every sandbox that can be used, to all at
// once: one that does not answer keeps nobody waiting.
func (e *Engine) eachSandbox(do func(*spec.Sandbox) error) error {
	list, err := e.Store.List()
	if err != nil {
		return err
	}
	errs := make([]error, len(list))
	var wg sync.WaitGroup
	for i, sb := range list {
		wg.Go(func() {
			if errs[i] = do(sb); errs[i] != nil && !e.Store.Has(sb.ID) {
				errs[i] = nil // it was removed meanwhile
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// value reads the value of one secret.
func (e *Engine) value(ctx context.Context, d *vault.Document, name string) ([]byte, error) {
	v := e.values(ctx, d, []string{name})[name]
	return v.value, v.err
}

// got is a value, or why there is none.
type got struct {
	value []byte
	login *hostLogin // the value is the token of
	err   error
}

// loan lends it.
func (g got) loan(l spec.Lease) wire.Loan {
	loan := wire.Loan{Lease: l, Value: g.value}
	if g.login != nil {
		g.login.complete(&loan)
	}
	return loan
}

// values reads the values of secrets from their sources, all at once, with more that is to
// be opened: who is asked for a passphrase is asked once.
func (e *Engine) values(ctx context.Context, d *vault.Document, names []string, more ...vault.Item) map[string]got {
	out := map[string]got{}
	var mu sync.Mutex
	keep := func(name string, g got) {
		if g.err == nil {
			g.value, g.err = vault.CleanValue(g.value)
		}
		if g.err != nil {
			g = got{err: fmt.Errorf("secret %s: %w", name, g.err)}
		}
		mu.Lock()
		defer mu.Unlock()
		out[name] = g
	}
	put := func(name string, value []byte, err error) { keep(name, got{value: value, err: err}) }
	ctx, settle := untilSignal(ctx)
	defer settle()
	items := slices.Clone(more)
	var wg sync.WaitGroup
	for _, name := range names {
		s, err := d.Find(name)
		switch {
		case err != nil:
			put(name, nil, err)
		case s.Source.Kind == vault.SourceStored:
			items = append(items, vault.Item{Name: name, Sealed: s.Sealed, Again: "set it again: bothy secret set " + name})
		case s.Source.Kind == vault.SourceKeyring:
			items = append(items, vault.Item{Name: name, Attributes: s.Source.Attributes})
		case s.Source.Kind == vault.SourceLogin:
			keep(name, e.readLogin(s.Source))
		case s.Source.Kind == vault.SourceKey:
			v, err := readKey(s.Source)
			put(name, v, err)
		case s.Source.Kind == vault.SourceTool:
			wg.Go(func() {
				v, err := e.readToken(ctx, s.Source)
				put(name, v, err)
			})
		default:
			wg.Go(func() {
				v, err := e.read(ctx, s.Source)
				put(name, v, err)
			})
		}
	}
	e.open(ctx, d, items, put)
	wg.Wait()
	return out
}

// read reads a source that needs no key.
func (e *Engine) read(ctx context.Context, s vault.Source) ([]byte, error) {
	switch s.Kind {
	case vault.SourceEnvironment:
		v, ok := os.LookupEnv(s.Variable)
		if !ok {
			return nil, spec.Errorf(spec.ErrNotFound, "the variable %s is not set", s.Variable).
				WithHint("set it where you call bothy, or give the secret another source: bothy secret set")
		}
		return []byte(v), nil
	case vault.SourceCommand:
		paths, err := e.Paths()
		if err != nil {
			return nil, err
		}
		return runSource(ctx, paths, s.Command)
	case vault.SourceFile:
		paths, err := e.Paths()
		if err != nil {
			return nil, err
		}
		return paths.ReadFile(s.Path, store.MaxSmall)
	}
	return nil, fmt.Errorf("it has no source")
}

// open has values opened.
func (e *Engine) open(ctx context.Context, d *vault.Document, items []vault.Item, put func(string, []byte, error)) {
	if len(items) == 0 {
		return
	}
	o := vault.Order{Op: vault.OpOpen, Items: items}
	var err error
	if slices.ContainsFunc(items, func(i vault.Item) bool { return i.Sealed != "" }) {
		o, err = e.unlocking(d, o)
	}
	var a vault.Answer
	if err == nil {
		a, err = e.order(ctx, o)
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
