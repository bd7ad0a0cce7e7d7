package credential

import (
	"cmp"
	"context"
	"os"
	"slices"
	"time"

	"github.com/bothy-dev/bothy/internal/oauthfile"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/internal/vault/ask"
	"github.com/bothy-dev/bothy/spec"
)

// LoginInside returns how the host keeps a login that is made inside a sandbox. It returns nil if the
// description of the sandbox's agent does not say where its tokens come from, or the sandbox has no
// agent.
func (b *Broker) LoginInside(sb *spec.Sandbox) (*spec.AgentLogin, error) {
	if sb.Mock != nil {
		return nil, nil
	}
	a, err := b.Values.Agents.In(sb)
	if err != nil || a == nil || a.Login == nil || a.Login.Capture == nil {
		return nil, err
	}
	how := withoutLock(a.Login)
	return &how, nil
}

// withoutLock returns how an agent keeps its login, without the lock of the agent: no other program writes
// the file of a login that was made inside.
func withoutLock(how *spec.AgentLogin) spec.AgentLogin {
	mine := *how
	mine.Lock = false
	return mine
}

// isCaptured reports whether a lease is of a login that was made inside.
func isCaptured(l spec.Lease) bool { return l.Captured != "" }

// readyForLogin makes sure that a login that is made inside can be sealed.
func (b *Broker) readyForLogin(ctx context.Context, sb *spec.Sandbox, live []spec.Lease) {
	kept, err := b.LoginInside(sb)
	if err != nil {
		b.Values.tellUser("a login that is made in sandbox %s is not kept on the host, but in its home: %v", sb.Name, err)
		return
	}
	if kept == nil || slices.ContainsFunc(live, func(l spec.Lease) bool { return l.Renewal != "" && !isCaptured(l) }) {
		return // the sandbox needs no login
	}
	if err := b.Values.makeFirstKey(ctx); err != nil {
		b.Values.tellUser("a login that is made in sandbox %s cannot be kept, for there is nothing to seal it with: %s", sb.Name, spec.Advised(err))
	}
}

func (b *Broker) capturedFile(sb *spec.Sandbox, l *spec.Lease) (oauthfile.File, error) {
	f := oauthfile.File{Path: b.Values.Store.Sandbox(sb.ID).Login(l.ID), Inside: true, Secret: l.Secret}
	how, err := b.Values.loginOf(l.Captured)
	if err == nil {
		f.How = withoutLock(how)
	}
	return f, err
}

// capturedKeys returns the sealed keys of logins that were made inside, by the names of their secrets.
// It leaves out a login without a key; readCaptured says why.
func (b *Broker) capturedKeys(sb *spec.Sandbox, live []spec.Lease) (items []vault.Item) {
	for _, l := range live {
		if !isCaptured(l) {
			continue
		}
		f, err := b.capturedFile(sb, &l)
		if err != nil {
			continue
		}
		if key, err := f.SealedKey(); err == nil && key != "" {
			items = append(items, vault.Item{Name: l.Secret, Sealed: key, Again: f.Again()})
		}
	}
	return items
}

// readCaptured reads a login that was made inside, with its opened key. It first seals one that an
// earlier Bothy left in clear.
func (b *Broker) readCaptured(ctx context.Context, d *vault.Document, sb *spec.Sandbox, l *spec.Lease, key secretValue) secretValue {
	if key.err != nil {
		return key
	}
	f, err := b.capturedFile(sb, l)
	if err != nil {
		return secretValue{err: err}
	}
	sealed, err := f.SealedKey()
	if err != nil {
		return secretValue{err: err}
	}
	if sealed == "" {
		f.Seal, err = ask.LoginKey(ctx, ask.Self, d)
	} else {
		f.Seal, err = ask.OpenedLoginKey(key.value, sealed)
	}
	if err != nil {
		return secretValue{err: &spec.Error{Op: "open " + l.Secret, Err: err, Hint: cmp.Or(spec.Hint(err), f.Again())}}
	}
	var doc *oauthfile.Document
	if sealed == "" {
		doc, err = f.SealClear(ctx)
	} else {
		doc, err = f.Read()
	}
	if err != nil {
		return secretValue{err: err}
	}
	return secretValue{value: []byte(doc.Access), login: &hostLogin{at: f, Document: doc}}
}

// sweepLogins removes the tokens of all leases that are not on a list.
func (b *Broker) sweepLogins(sb *spec.Sandbox, left []spec.Lease) {
	if err := oauthfile.Sweep(b.Values.Store.Sandbox(sb.ID), left); err != nil {
		b.Values.tellUser("tokens of logins that were made in sandbox %s are left in %s: %v", sb.Name, b.Values.Store.Sandbox(sb.ID).Logins(), err)
	}
}

// CapturedSecrets returns the logins of leases that were made inside, as secrets. The vault does not
// have them, and each is lent only to its own sandbox.
func (b *Broker) CapturedSecrets(leases []spec.Lease) []vault.Secret {
	var out []vault.Secret
	for _, l := range leases {
		if !isCaptured(l) {
			continue
		}
		s := vault.Secret{Name: l.Secret, Source: vault.Source{Kind: vault.SourceInside, Agent: l.Captured, Path: b.Values.Store.Sandbox(l.Sandbox).Login(l.ID)}}
		if how, err := b.Values.loginOf(l.Captured); err == nil {
			s.Service = how.Service
		}
		if info, err := os.Lstat(s.Source.Path); err == nil {
			s.UpdatedAt = info.ModTime().UTC().Truncate(time.Second)
			s.CreatedAt = s.UpdatedAt
		}
		out = append(out, s)
	}
	return out
}
