package credential

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// NewSecret describes a secret to set.
type NewSecret struct {
	Name    string
	Service string // empty: guessed
	Source  vault.Source
	Value   []byte // of SourceStored
	// Passphrase protects the key of the vault with a passphrase.
	Passphrase bool
}

// Kinds of entries in the log of the vault.
const (
	noteSet    = "set"
	noteRemove = "remove"
	noteLease  = "lease"
	noteRevoke = "revoke"
)

// SetSecret adds a secret, or gives an existing one another source or value. Running sandboxes with a
// lease of it use the new value from then on.
func (b *Broker) SetSecret(ctx context.Context, n NewSecret) error {
	err := vault.CheckName(n.Name)
	if err == nil && n.Service != "" && vault.FindService(n.Service) == nil {
		err = spec.Errorf(spec.ErrUsage, "no service named %q", n.Service).WithHint("bothy secret set --help lists them")
	}
	if err == nil && n.Source.Kind == vault.SourceStored {
		n.Value, err = vault.CleanValue(n.Value)
	}
	if err == nil && n.Source.Kind == vault.SourceLogin {
		err = b.Values.completeLogin(&n)
	}
	if err != nil {
		return err
	}
	c, v, unread, err := b.readNewValue(ctx, n)
	if err != nil {
		return err
	}
	defer c.End()
	s := newSecret(c, n)
	if s.Source.Kind == vault.SourceStored {
		if err := b.Values.ensureKey(ctx, c, keyWish{protect: n.Passphrase}); err != nil {
			return err
		}
		if s.Sealed, err = b.Values.sealValue(ctx, c, s.Name, n.Value); err != nil {
			return err
		}
	}
	if err := b.Values.putSecret(c, &s); err != nil {
		return err
	}
	return errors.Join(unread, b.rotateValue(ctx, s.Name, v))
}

// readNewValue reads the value that sandboxes get in place of the old one, and takes the lock of the
// vault. A source may be slow, and leases must be revocable meanwhile, so it reads before it takes the
// lock. It does not read the source of a secret that is not lent. unread is why the value of a lent
// secret could not be read.
func (b *Broker) readNewValue(ctx context.Context, n NewSecret) (c *vault.Change, v secretValue, unread, err error) {
	stored := n.Source.Kind == vault.SourceStored
	for read := false; ; read = true {
		switch {
		case stored:
			v.value = n.Value
		case read:
			d := &vault.Document{Secrets: []vault.Secret{{Name: n.Name, Source: n.Source}}}
			v = b.Values.readValues(ctx, d, []string{n.Name})[n.Name]
			unread = v.err
		}
		if c, err = b.Values.vault().Begin(); err != nil || stored || read || !b.isLent(n.Name) {
			return c, v, unread, err
		}
		c.End()
	}
}

// isLent reports whether any sandbox has a lease of a secret. Leases that cannot be read do not count;
// another command reports them.
func (b *Broker) isLent(secret string) bool {
	all, err := b.Leases(nil)
	now := time.Now()
	return err == nil && slices.ContainsFunc(all, func(l spec.Lease) bool { return l.Secret == secret && l.Live(now) })
}

// newSecret returns the secret as the document will hold it.
func newSecret(c *vault.Change, n NewSecret) vault.Secret {
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

// noteChange writes into the log of the vault. A change that cannot be logged is made all the same, and
// the user is told.
func (v *Values) noteChange(c *vault.Change, what string, fields map[string]any) {
	if err := c.Note(what, fields); err != nil {
		v.tellUser("the audit log of the secrets is not written: %v", err)
	}
}

// putSecret saves a secret in the vault. The caller holds the vault's lock.
func (v *Values) putSecret(c *vault.Change, s *vault.Secret) error {
	c.Put(*s)
	if err := c.Save(); err != nil {
		return err
	}
	v.noteChange(c, noteSet, map[string]any{"secret": s.Name, "service": s.Service, "source": s.Source.Kind})
	return nil
}

// rotateValue tells the sandboxes with a lease of a secret its new value. If there is none, they lose
// the old one.
func (b *Broker) rotateValue(ctx context.Context, name string, v secretValue) error {
	holds := func(l spec.Lease) bool { return l.Secret == name }
	return b.eachSandbox(func(sb *spec.Sandbox) error {
		list, err := vault.ReadLeases(b.Values.Store.Sandbox(sb.ID).Leases())
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
		return b.announceLoans(ctx, sb, list, put)
	})
}

// RemoveSecret removes a secret, and ends its leases.
func (b *Broker) RemoveSecret(ctx context.Context, name string) error {
	c, err := b.Values.vault().Begin()
	if err != nil {
		return err
	}
	defer c.End()
	if _, err := c.Find(name); err != nil {
		gone, rerr := b.revokeLeases(ctx, c, nil, func(l *spec.Lease) bool { return isCaptured(*l) && l.Secret == name })
		if len(gone) > 0 || rerr != nil {
			return rerr
		}
		return err
	}
	c.Remove(name)
	if err := c.Save(); err != nil {
		return err
	}
	b.Values.noteChange(c, noteRemove, map[string]any{"secret": name})
	_, err = b.revokeLeases(ctx, c, nil, func(l *spec.Lease) bool { return l.Secret == name })
	return err
}

// eachSandbox calls do for all sandboxes at once: a sandbox that does not answer delays no other.
func (b *Broker) eachSandbox(do func(*spec.Sandbox) error) error {
	list, err := b.Values.Store.List()
	if err != nil {
		return err
	}
	errs := make([]error, len(list))
	var wg sync.WaitGroup
	for i, sb := range list {
		wg.Go(func() {
			if errs[i] = do(sb); errs[i] != nil && !b.Values.Store.Has(sb.ID) {
				errs[i] = nil // it was removed meanwhile
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
