package engine

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/spec"
)

// A sandbox that is made anew by its record is what it was asked to be, under its rules, with
// what was taken and sent counted, and lent what it was; by another placeholder.
func TestRecord(t *testing.T) {
	e := newEngine(t)
	must(t, e.SetSecret(here, stored("mine", canary)))
	of := wish(t.TempDir())
	of.Name, of.Env, of.Budget = "box", []string{"MINE=1"}, spec.Budget{Tokens: 9}
	must(t, e.Create(here, of, Rules(policy.Block{Default: policy.Deny, Presets: []string{"debian"}})))
	was, err := e.Lend(here, of, "mine", vault.Terms{Hosts: []string{"api.example.com"}})
	must(t, err)
	d := e.Store.Sandbox(of.ID)
	for _, path := range []string{d.Mock(), d.Uploads(), d.Bill(), d.Home() + "/made"} {
		must(t, store.WriteFile(path, []byte(path)))
	}
	r, err := e.Record(of)
	must(t, err)
	text, err := json.Marshal(r)
	must(t, err)
	must(t, e.Remove(here, of, true))
	var read Record
	must(t, json.Unmarshal(text, &read))
	sb, err := e.Anew(here, read)
	must(t, err)
	if sb.ID != of.ID || sb.Name != "box" || !slices.Equal(sb.Env, of.Env) || sb.Budget != of.Budget || !slices.Equal(sb.Workspaces, of.Workspaces) || !sb.CreatedAt.After(of.CreatedAt) {
		t.Errorf("it is %+v", sb)
	}
	now, err := e.Record(sb)
	must(t, err)
	for name, data := range r.Documents {
		if string(now.Documents[name]) != string(data) {
			t.Errorf("%s is %q, not %q", name, now.Documents[name], data)
		}
	}
	if l := now.Leases; len(r.Documents) < 5 || len(now.Documents) != len(r.Documents) || len(l) != 1 || l[0].Secret != "mine" || !slices.Equal(l[0].Hosts, was.Hosts) || l[0].Placeholder == was.Placeholder {
		t.Errorf("it has %d documents, not %d, and is lent %+v", len(now.Documents), len(r.Documents), l)
	}
	if _, err := e.Anew(here, read); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("there are two of it: %v", err)
	}
}
