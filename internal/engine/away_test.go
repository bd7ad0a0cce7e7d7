package engine

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/bothy-dev/bothy/internal/away"
	"github.com/bothy-dev/bothy/internal/netrules"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/spec"
)

// TestAway checks that a sandbox that is made anew has its description, its rules, its usage counts and
// its leases; the placeholder is a new one.
func TestAway(t *testing.T) {
	e := newEngine(t)
	must(t, e.Credentials().SetSecret(here, stored("mine", canary)))
	of := wish(t.TempDir())
	of.Name, of.Env, of.Budget = "box", []string{"MINE=1"}, spec.Budget{Tokens: 9}
	must(t, e.Create(here, of, netrules.First(policy.Block{Default: policy.Deny, Presets: []string{"debian"}})))
	was, err := e.Credentials().Lend(here, of, "mine", vault.Terms{Hosts: []string{"api.example.com"}})
	must(t, err)
	d := e.Store.Sandbox(of.ID)
	for _, path := range []string{d.Mock(), d.Uploads(), d.Bill(), d.Home() + "/made"} {
		must(t, store.WriteFile(path, []byte(path)))
	}
	before, err := away.Documents(d)
	must(t, err)
	must(t, e.PutAway(here, of))
	if _, err := e.Find(of.ID); !errors.Is(err, spec.ErrNotFound) || !e.Away().Has(of.ID) {
		t.Errorf("it is not put away: %v", err)
	}
	sb, err := e.Anew(here, of.ID)
	must(t, err)
	if sb.ID != of.ID || sb.Name != "box" || !slices.Equal(sb.Env, of.Env) || sb.Budget != of.Budget || !slices.Equal(sb.Workspaces, of.Workspaces) || !sb.CreatedAt.After(of.CreatedAt) {
		t.Errorf("it is %+v", sb)
	}
	now, err := away.Documents(d)
	must(t, err)
	for name, data := range before {
		if string(now[name]) != string(data) {
			t.Errorf("%s is %q, not %q", name, now[name], data)
		}
	}
	l, err := e.Credentials().Leases(sb)
	must(t, err)
	if len(before) < 5 || len(now) != len(before) || len(l) != 1 || l[0].Secret != "mine" || !slices.Equal(l[0].Hosts, was.Hosts) || l[0].Placeholder == was.Placeholder {
		t.Errorf("it has %d documents, not %d, and is lent %+v", len(now), len(before), l)
	}
	if _, err := e.Anew(here, of.ID); !errors.Is(err, spec.ErrNotFound) || e.Away().Has(of.ID) {
		t.Errorf("there are two of it: %v", err)
	}
}

// putAway returns a sandbox that is put away and was lent a secret of this name.
func putAway(t *testing.T, e *Engine, secret string) *spec.Sandbox {
	t.Helper()
	of := wish(t.TempDir())
	of.Name = "box"
	must(t, e.Create(here, of))
	_, err := e.Credentials().Lend(here, of, secret, vault.Terms{Hosts: []string{"api.example.com"}})
	must(t, err)
	must(t, e.PutAway(here, of))
	return of
}

// TestAwayRevoked checks that a lease that is revoked while its sandbox is put away is not lent again,
// even if another secret has the name by then.
func TestAwayRevoked(t *testing.T) {
	all := func(*spec.Lease) bool { return true }
	for name, taken := range map[string]func(e *Engine) error{
		"revoked": func(e *Engine) error {
			gone, err := e.Credentials().Revoke(here, nil, all)
			if len(gone) != 1 {
				t.Errorf("%d leases ended", len(gone))
			}
			return err
		},
		"removed": func(e *Engine) error { return e.Credentials().RemoveSecret(here, "mine") },
		"removed, and another set": func(e *Engine) error {
			return errors.Join(e.Credentials().RemoveSecret(here, "mine"), e.Credentials().SetSecret(here, stored("mine", canary)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t)
			must(t, e.Credentials().SetSecret(here, stored("mine", canary)))
			of := putAway(t, e, "mine")
			must(t, taken(e))
			sb, err := e.Anew(here, of.ID)
			must(t, err)
			if l, err := e.Credentials().Leases(sb); err != nil || len(l) != 0 {
				t.Errorf("it is lent %+v, %v", l, err)
			}
		})
	}
}

// TestAwayStays checks that a sandbox stays put away, with its leases, if Anew is interrupted.
func TestAwayStays(t *testing.T) {
	e := newEngine(t)
	must(t, e.Credentials().SetSecret(here, stored("mine", canary)))
	of := putAway(t, e, "mine")
	ctx, cancel := context.WithCancel(here)
	cancel()
	if _, err := e.Anew(ctx, of.ID); err == nil {
		t.Error("who was interrupted is told that it is made")
	}
	if _, err := e.Find(of.ID); !errors.Is(err, spec.ErrNotFound) || !e.Away().Has(of.ID) {
		t.Errorf("it is put away: %t, and there: %v", e.Away().Has(of.ID), err)
	}
	sb, err := e.Anew(here, of.ID)
	must(t, err)
	if l, err := e.Credentials().Leases(sb); err != nil || len(l) != 1 {
		t.Errorf("it is lent %+v, %v", l, err)
	}
}

// TestAwayHolds checks that the program and the image of a sandbox stay in use while it is put away.
func TestAwayHolds(t *testing.T) {
	e := newEngine(t)
	of := wish(t.TempDir())
	of.Name, of.Agent = "box", "mine"
	of.Program = &spec.Program{Installation: "1.0"}
	of.Image = &spec.Image{Digest: "sha256:1"}
	_, err := e.Store.Create(of)
	must(t, err)
	must(t, e.PutAway(here, of))
	if err := e.Programs().CheckUnused("mine", "1.0"); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("its program may be removed: %v", err)
	}
	images, err := e.Images().Users()
	must(t, err)
	if len(images["sha256:1"]) != 1 {
		t.Errorf("used are %v", images)
	}
	must(t, e.Away().Forget(of.ID))
	must(t, e.Programs().CheckUnused("mine", "1.0"))
}
