package engine

import (
	"os"
	"time"

	"github.com/bothy-dev/bothy/internal/keeper"
	"github.com/bothy-dev/bothy/internal/login"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/spec"
)

// loginInside says how a login that is made inside is kept on the host; nil if its agent
// does not say where tokens come from.
func (e *Engine) loginInside(sb *spec.Sandbox) *keeper.LoginInside {
	if sb.Mock != nil {
		return nil
	}
	how, err := e.howInside(sb.Agent)
	if err != nil || how.Capture == nil {
		return nil
	}
	return &keeper.LoginInside{Agent: sb.Agent, How: how, Vault: e.vault().Dir}
}

// howInside is how an agent keeps its login, for one that was made inside.
func (e *Engine) howInside(agent string) (spec.AgentLogin, error) {
	how, err := e.loginOf(agent)
	if err != nil {
		return spec.AgentLogin{}, err
	}
	mine := *how
	mine.Lock = false // its file is nobody else's
	return mine, nil
}

// isCaptured tells the lease of a login that was made inside.
func isCaptured(l spec.Lease) bool { return l.Captured != "" }

// readCaptured reads a login that was made inside.
func (e *Engine) readCaptured(sb *spec.Sandbox, l *spec.Lease) got {
	how, err := e.howInside(l.Captured)
	if err != nil {
		return got{err: err}
	}
	f := login.File{Path: e.Store.Sandbox(sb.ID).Login(l.ID), How: how, Inside: true, Secret: l.Secret}
	d, err := f.Read()
	if err != nil {
		return got{err: err}
	}
	return got{value: []byte(d.Access), login: &hostLogin{f, d}}
}

// forgetLogins removes the tokens of all leases but those on a list.
func (e *Engine) forgetLogins(sb *spec.Sandbox, left []spec.Lease) {
	if err := login.Sweep(e.Store.Sandbox(sb.ID), left); err != nil {
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
