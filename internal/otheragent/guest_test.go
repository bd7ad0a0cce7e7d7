package otheragent

import (
	"errors"
	"slices"
	"testing"

	"github.com/bothy-dev/bothy/internal/rulefiles"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/netrules"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/spec"
)

// TestInvite checks that a sandbox for another agent has everything of the first but its agent's own
// files and settings.
func TestInvite(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	e := newEngine(t)
	e.Agents = agent.NewCatalog("")
	first, err := e.Agents.Find("claude")
	must(t, err)
	other, err := e.Agents.Find("codex")
	must(t, err)
	for _, name := range []string{"anthropic", "openai", "mine"} {
		s := stored(name, canary)
		s.Service = name
		if name == "mine" {
			s.Service = ""
		}
		must(t, e.Credentials().SetSecret(here, s))
	}
	of := wish(t.TempDir())
	of.Name, of.Agent, of.WorkspaceMode, of.Checkpoint = "box", first.Name, spec.WorkspaceReview, "hourly"
	of.Env = append(agent.Env(first), "MINE=1")
	of.Ports = make([]spec.Port, 1)
	must(t, e.Create(here, of, netrules.First(policy.Block{Default: policy.Deny, Presets: append([]string{"debian"}, first.Presets...)})))
	for _, name := range []string{"anthropic", "mine"} {
		terms := vault.Terms{}
		if name == "mine" {
			terms.Hosts = []string{"api.example.com"}
		}
		_, err := e.Credentials().Lend(here, of, name, terms)
		must(t, err)
	}
	for name, tt := range map[string]struct{ lent, want []string }{
		"all": {[]string{"mine", "openai"}, []string{"mine", "openai"}},
		"own": {nil, []string{"openai"}},
		"one": {[]string{"mine"}, []string{"mine"}},
	} {
		noted := ""
		sb, err := Invite(here, e, of, Guest{Agent: other, Name: "box-" + name, Lent: tt.lent}, func(sb *spec.Sandbox) error {
			if _, err := e.Find(sb.ID); !errors.Is(err, spec.ErrNotFound) {
				t.Errorf("it is there before it is noted: %v", err)
			}
			noted = sb.ID
			return nil
		})
		must(t, err)
		kept, err := e.Find("box-" + name)
		must(t, err)
		if kept.ID != noted || kept.Agent != other.Name || kept.Mode() != spec.WorkspaceReview || !slices.Equal(kept.Workspaces, of.Workspaces) || kept.Ports != nil || kept.Checkpoint != "" {
			t.Errorf("it is %+v", kept)
		}
		if want := append(agent.Env(other), "MINE=1"); !slices.Equal(kept.Env, want) {
			t.Errorf("it has the variables %v, want %v", kept.Env, want)
		}
		b, err := rulefiles.Read(e.Store.Sandbox(sb.ID).Policy())
		must(t, err)
		if want := append([]string{"debian"}, other.Presets...); !slices.Equal(b.Presets, want) || b.Default != policy.Deny {
			t.Errorf("it may reach %+v, want %v", b.Block, want)
		}
		leases, err := e.Credentials().Leases(sb)
		must(t, err)
		var got []string
		for _, l := range leases {
			got = append(got, l.Secret)
		}
		if slices.Sort(got); !slices.Equal(got, tt.want) {
			t.Errorf("%s: it is lent %v, want %v", name, got, tt.want)
		}
	}
	full := errors.New("the disk is full")
	if _, err := Invite(here, e, of, Guest{Agent: other, Name: "none"}, func(*spec.Sandbox) error { return full }); !errors.Is(err, full) {
		t.Errorf("it is made, and could not be noted: %v", err)
	}
	if _, err := e.Find("none"); !errors.Is(err, spec.ErrNotFound) {
		t.Errorf("it is there: %v", err)
	}
}
