package engine

import (
	"cmp"
	"context"
	"os"
	"slices"
	"time"

	"github.com/bothy-dev/bothy/internal/keeper"
	"github.com/bothy-dev/bothy/internal/oauthfile"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/internal/vault/ask"
	"github.com/bothy-dev/bothy/spec"
)

// loginInside says how a login that is made inside is kept on the host; nil if its agent
// does not say where tokens come from, or there is none.
func (e *Engine) loginInside(sb *spec.Sandbox) (*keeper.LoginInside, error) {
	if sb.Mock != nil {
		return nil, nil
	}
	a, err := e.Agents.In(sb)
	if err != nil || a == nil || a.Login == nil || a.Login.Capture == nil {
		return nil, err
	}
	return &keeper.LoginInside{Agent: sb.Agent, How: unlocked(a.Login), Vault: e.vault().Dir}, nil
}

// unlocked is how an agent keeps its login, for one that was made inside: its file is nobody
// else's.
func unlocked(how *spec.AgentLogin) spec.AgentLogin {
	mine := *how
	mine.Lock = false
	return mine
}

// isCaptured tells the lease of a login that was made inside.
func isCaptured(l spec.Lease) bool { return l.Captured != "" }

// readyForLogin sees to it that a login that is made inside can be sealed.
func (e *Engine) readyForLogin(ctx context.Context, sb *spec.Sandbox, live []spec.Lease) {
	kept, err := e.loginInside(sb)
	if err != nil {
		e.say("a login that is made in sandbox %s is not kept on the host, but in its home: %v", sb.Name, err)
		return
	}
	if kept == nil || slices.ContainsFunc(live, func(l spec.Lease) bool { return l.Renewal != "" && !isCaptured(l) }) {
		return // nobody need log in
	}
	if err := e.firstKey(ctx); err != nil {
		e.say("a login that is made in sandbox %s cannot be kept, for there is nothing to seal it with: %s", sb.Name, spec.Advised(err))
	}
}

// capturedAt is where a login that was made inside lies.
func (e *Engine) capturedAt(sb *spec.Sandbox, l *spec.Lease) (oauthfile.File, error) {
	f := oauthfile.File{Path: e.Store.Sandbox(sb.ID).Login(l.ID), Inside: true, Secret: l.Secret}
	how, err := e.loginOf(l.Captured)
	if err == nil {
		f.How = unlocked(how)
	}
	return f, err
}

// loginKeys are the keys of logins that were made inside, to be opened, by the names of
// their secrets. Of one that has none, readCaptured says why.
func (e *Engine) loginKeys(sb *spec.Sandbox, live []spec.Lease) (items []vault.Item) {
	for _, l := range live {
		if !isCaptured(l) {
			continue
		}
		f, err := e.capturedAt(sb, &l)
		if err != nil {
			continue
		}
		if key, err := f.SealedKey(); err == nil && key != "" {
			items = append(items, vault.Item{Name: l.Secret, Sealed: key, Again: f.Again()})
		}
	}
	return items
}

// readCaptured reads a login that was made inside, for which the key was opened. One that
// an earlier Bothy left in clear is sealed first.
func (e *Engine) readCaptured(ctx context.Context, d *vault.Document, sb *spec.Sandbox, l *spec.Lease, key got) got {
	if key.err != nil {
		return key
	}
	f, err := e.capturedAt(sb, l)
	if err != nil {
		return got{err: err}
	}
	sealed, err := f.SealedKey()
	if err != nil {
		return got{err: err}
	}
	if sealed == "" {
		f.Seal, err = ask.LoginKey(ctx, ask.Self, d)
	} else {
		f.Seal, err = ask.OpenedLoginKey(key.value, sealed)
	}
	if err != nil {
		return got{err: &spec.Error{Op: "open " + l.Secret, Err: err, Hint: cmp.Or(spec.Hint(err), f.Again())}}
	}
	var doc *oauthfile.Document
	if sealed == "" {
		doc, err = f.SealClear(ctx)
	} else {
		doc, err = f.Read()
	}
	if err != nil {
		return got{err: err}
	}
	return got{value: []byte(doc.Access), login: &hostLogin{at: f, Document: doc}}
}

// forgetLogins removes the tokens of all leases but those on a list.
func (e *Engine) forgetLogins(sb *spec.Sandbox, left []spec.Lease) {
	if err := oauthfile.Sweep(e.Store.Sandbox(sb.ID), left); err != nil {
		e.say("tokens of logins that were made in sandbox %s are left in %s: %v", sb.Name, e.Store.Sandbox(sb.ID).Logins(), err)
	}
}

// Captured are the logins that were made inside, as secrets: they are in no vault, and
// each is lent to its sandbox alone.
func (e *Engine) Captured(leases []spec.Lease) []vault.Secret {
	var out []vault.Secret
	for _, l := range leases {
		if !isCaptured(l) {
			continue
		}
		s := vault.Secret{Name: l.Secret, Source: vault.Source{Kind: vault.SourceInside, Agent: l.Captured, Path: e.Store.Sandbox(l.Sandbox).Login(l.ID)}}
		if how, err := e.loginOf(l.Captured); err == nil {
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
