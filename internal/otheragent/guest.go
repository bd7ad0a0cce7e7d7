package otheragent

import (
	"context"
	"slices"
	"time"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/netrules"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/spec"
)

// Guest is an agent that works on the same task as the agent of another sandbox, in a sandbox of its
// own.
type Guest struct {
	Agent   *spec.Agent
	Program *spec.Program // nil means that of the template
	Name    string        // of its sandbox
	// Lent names the secrets to lend: some that the other sandbox is lent, and the guest's own login.
	// Nil means only its own login.
	Lent []string
}

// Invite makes a sandbox for a guest like another sandbox. The guest's program, variables and presets
// replace those of the other agent. Invite calls noted before the sandbox exists, and makes none if
// noted fails.
func Invite(ctx context.Context, e *engine.Engine, of *spec.Sandbox, g Guest, noted func(*spec.Sandbox) error) (*spec.Sandbox, error) {
	sb, err := invite(ctx, e, of, g, noted)
	if err != nil {
		return nil, &spec.Error{Op: "make a sandbox like " + of.Name + " for " + g.Agent.Title, Err: err}
	}
	return sb, nil
}

func invite(ctx context.Context, e *engine.Engine, of *spec.Sandbox, g Guest, noted func(*spec.Sandbox) error) (*spec.Sandbox, error) {
	as, err := ReplaceAgent(e, of, g.Agent, g.Program)
	if err != nil {
		return nil, err
	}
	sb := *of
	sb.ID, sb.Name, sb.CreatedAt = store.NewID(), g.Name, time.Now().UTC()
	sb.Ports, sb.Checkpoint, sb.Remove = nil, "", false
	as.Describe(&sb)
	sb.Config = of.Config && (len(g.Agent.Config) > 0 || g.Agent.Servers != nil)
	if err := noted(&sb); err != nil {
		return nil, err
	}
	from := e.Store.Sandbox(of.ID)
	script := func(d store.Sandbox) error { return store.CopyFile(from.Mock(), d.Mock()) }
	sent := func(d store.Sandbox) error { return store.CopyFile(from.Uploads(), d.Uploads()) }
	if err := e.Create(ctx, &sb, netrules.First(as.rules), script, sent, e.MarkUnfinished(&sb)); err != nil {
		return nil, err
	}
	if err := e.EndCreation(&sb, lendGuest(ctx, e, of, &sb, g)); err != nil {
		return nil, err
	}
	return &sb, nil
}

// lendGuest lends a guest its secrets. Its login is its own, not the other agent's.
func lendGuest(ctx context.Context, e *engine.Engine, of, sb *spec.Sandbox, g Guest) error {
	lend := e.Credentials()
	if sb.ModelServer != nil { // each agent has the server's key in its own variables
		key := sb.ModelServer.Key
		lend.LendSome(ctx, of, sb, false, func(l *spec.Lease) bool { return l.Secret != key && slices.Contains(g.Lent, l.Secret) })
		return lend.LogIn(ctx, sb, g.Agent)
	}
	lend.LendSome(ctx, of, sb, false, func(l *spec.Lease) bool { return slices.Contains(g.Lent, l.Secret) })
	if sb.Mock != nil {
		return nil
	}
	own, err := lend.SecretFor(ctx, g.Agent)
	if err != nil || own == "" || g.Lent != nil && !slices.Contains(g.Lent, own) {
		return err
	}
	_, err = lend.LendCredential(ctx, sb, g.Agent, own, vault.Terms{})
	return err
}
