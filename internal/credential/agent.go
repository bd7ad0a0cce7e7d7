package credential

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/policy/policyfile"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/spec"
)

// SecretFor returns the secret that an agent can log in with, as [Values.Find] finds it. If the
// credential is not a secret yet, SecretFor adds it to the vault. It returns the empty string if the
// host has nothing to lend.
func (b *Broker) SecretFor(ctx context.Context, a *spec.Agent) (secret string, err error) {
	found, err := b.Values.Find(a)
	if err != nil {
		return "", err
	}
	if found.Unfit != "" {
		b.Values.tellUser("%s is not lent: %s", found.Where, found.Unfit)
	}
	if err := b.Values.tryToken(ctx, a, found); err != nil {
		b.Values.tellUser("%s is not lent: %s", found.Where, spec.Advised(err))
		return "", nil
	}
	if found.add != nil {
		if err := b.SetSecret(ctx, *found.add); err != nil {
			return "", err
		}
	}
	if found.say != "" {
		b.Values.tellUser("%s", found.say)
	}
	return found.Secret, nil
}

// LendCredential lends a sandbox the secret that its agent logs in with, and opens the hosts that
// belong to it. a may be nil. If the sandbox has a lease of the secret, the returned lease is nil.
func (b *Broker) LendCredential(ctx context.Context, sb *spec.Sandbox, a *spec.Agent, secret string, t vault.Terms) (*spec.Lease, error) {
	return b.lendCredentialUnless(ctx, sb, a, secret, t, hasLive(secret))
}

// LendFirst is LendCredential for a sandbox that was never lent a credential. If it was meanwhile,
// the returned lease is nil.
func (b *Broker) LendFirst(ctx context.Context, sb *spec.Sandbox, a *spec.Agent, secret string) (*spec.Lease, error) {
	return b.lendCredentialUnless(ctx, sb, a, secret, vault.Terms{}, func(list []spec.Lease) bool {
		return !neverLent(b.Values.Store.Sandbox(sb.ID), list)
	})
}

// lendCredentialUnless is LendCredential unless has is true of the sandbox's leases. It opens the
// hosts first: a sandbox with the lease counts as one that needs nothing more.
func (b *Broker) lendCredentialUnless(ctx context.Context, sb *spec.Sandbox, a *spec.Agent, secret string, t vault.Terms, has func([]spec.Lease) bool) (*spec.Lease, error) {
	list, err := b.Leases(sb)
	if err != nil || has(list) {
		return nil, err
	}
	if a != nil && sb.Mock == nil {
		if err := b.openReach(ctx, sb, a, secret); err != nil {
			return nil, err
		}
	}
	if a != nil {
		if err := b.Values.completeTerms(a, secret, &t); err != nil {
			return nil, err
		}
	}
	return b.lendUnless(ctx, sb, secret, t, has)
}

// completeTerms adds to terms the facts of an agent's description about the service of a secret.
func (v *Values) completeTerms(a *spec.Agent, secret string, t *vault.Terms) error {
	own, ok := agent.Terms(a, secret)
	if !ok && len(a.Tokens) == 0 && len(a.Keys) == 0 {
		return nil
	}
	s, err := v.Secret(secret)
	if errors.Is(err, spec.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	narrowTerms(a, s, t)
	if ok && servesAgent(a, s, secret) {
		t.Hosts, t.Place, t.Env = own.Hosts, own.Place, own.Env
	}
	return nil
}

// ReachOf returns the presets that an agent needs with a credential.
func (v *Values) ReachOf(a *spec.Agent, c Found) ([]string, error) {
	if c.add != nil { // it is not a secret yet
		return a.Reach[cmp.Or(c.add.Service, c.add.Name)], nil
	}
	s, err := v.Secret(c.Secret)
	if errors.Is(err, spec.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return a.Reach[cmp.Or(s.Service, s.Name)], nil
}

// openReach adds those presets to the rules of a sandbox, unless its rules refuse presets.
func (b *Broker) openReach(ctx context.Context, sb *spec.Sandbox, a *spec.Agent, secret string) error {
	presets, err := b.Values.ReachOf(a, Found{Secret: secret})
	if err != nil || len(presets) == 0 {
		return err
	}
	return b.sandboxes.EditPolicy(ctx, sb, func(f *policyfile.File) error {
		if slices.Contains(f.Presets, "none") {
			return nil
		}
		for _, name := range presets {
			if err := f.AddPreset(name); err != nil {
				return err
			}
		}
		return nil
	})
}

// LogIn lends a sandbox the credential of an agent: the key of the sandbox's model server, or else the
// credential that the host has for the agent. Without either it lends nothing.
func (b *Broker) LogIn(ctx context.Context, sb *spec.Sandbox, a *spec.Agent) error {
	if sb.ModelServer != nil {
		return b.logInAtServer(ctx, sb, a)
	}
	secret, err := b.SecretFor(ctx, a)
	if err != nil || secret == "" {
		return err
	}
	_, err = b.LendCredential(ctx, sb, a, secret, vault.Terms{})
	return err
}

// logInAtServer lends an agent the key of a sandbox's model server. If the key is gone, it tells the
// user.
func (b *Broker) logInAtServer(ctx context.Context, sb *spec.Sandbox, a *spec.Agent) error {
	if err := agent.ForServer(a, sb.ModelServer); err != nil {
		return err
	}
	_, err := b.LendServerKey(ctx, sb, a)
	if errors.Is(err, spec.ErrNotFound) {
		b.Values.tellUser("the key %s is not lent: %s", sb.ModelServer.Key, spec.Advised(err))
		return nil
	}
	return err
}

// LendServerKey lends a sandbox the key of its model server. It lends nothing if the server has no
// key, or the sandbox has a lease of it. An agent's description names the variable for the key; for
// a nil agent it is the secret's usual one.
func (b *Broker) LendServerKey(ctx context.Context, sb *spec.Sandbox, a *spec.Agent) (*spec.Lease, error) {
	s := sb.ModelServer
	if s == nil || s.Key == "" {
		return nil, nil
	}
	t := vault.Terms{Hosts: []string{s.Target()}}
	if a != nil && a.Server != nil {
		place := a.Server.Place
		t.Place, t.Env = &place, slices.Clone(a.Server.Key)
	}
	return b.lendUnless(ctx, sb, s.Key, t, hasLive(s.Key))
}
