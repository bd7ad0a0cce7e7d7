package engine

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/credential"
	"github.com/bothy-dev/bothy/internal/credential/credentialtest"
	"github.com/bothy-dev/bothy/internal/netrules"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/spec"
)

const ofAcme = `version: 1
name: mine
title: Mine
program: mine
allow: [api.acme.example:443, "*.files.acme.example:443"]
presets: [npm]
credentials: [acme, anthropic]
reach: {acme: [github-read]}
services: {acme: {hosts: ["api.acme.example:443"], place: {kind: header, name: x-acme-key}, env: [ACME_API_KEY]}}
home: [{path: .mine.json, lent: [acme], text: '{"key":"{placeholder:acme}"}'}]
`

// TestOwnService checks that the credential of a user-defined agent is found, lent only to the hosts
// that its description names, and replaced by its placeholder in the agent's files.
func TestOwnService(t *testing.T) {
	const value = "acme-CANARYCANARYCANARY0123456789"
	for _, from := range []string{"variable", "secret"} {
		t.Run(from, func(t *testing.T) {
			e, _, _ := signedIn(t)
			dir := t.TempDir()
			must(t, os.WriteFile(filepath.Join(dir, "mine.yaml"), []byte(ofAcme), 0o600))
			e.Agents = agent.NewCatalog(dir)
			a, err := e.Agents.Find("mine")
			must(t, err)
			if c, err := e.Credentials().Values.Find(a); err != nil || c.Secret != "" {
				t.Fatalf("%+v, %v", c, err)
			}
			t.Setenv("ACME_API_KEY", "")
			if from == "variable" {
				t.Setenv("ACME_API_KEY", value)
			} else {
				must(t, e.Credentials().SetSecret(here, credential.NewSecret{Name: "acme", Source: vault.Source{Kind: vault.SourceStored}, Value: []byte(value)}))
			}
			hosts, err := netrules.PresetHosts(e.Credentials().Values, a)
			if err != nil || hosts[0] != "api.acme.example:443" || !slices.Contains(hosts, "registry.npmjs.org:443") || !slices.Contains(hosts, "api.github.com:443") {
				t.Errorf("%q, %v", hosts, err)
			}
			secret, err := e.Credentials().SecretFor(here, a)
			if err != nil || secret != "acme" {
				t.Fatalf("%q, %v", secret, err)
			}
			sb := wish(t.TempDir())
			sb.Agent = "mine"
			must(t, e.Create(t.Context(), sb))
			l, err := e.Credentials().LendCredential(here, sb, a, secret, vault.Terms{})
			must(t, err)
			if !slices.Equal(l.Hosts, []string{"api.acme.example:443"}) || l.Place != (spec.Place{Kind: spec.PlaceHeader, Name: "x-acme-key"}) || !slices.Equal(l.Env, []string{"ACME_API_KEY"}) {
				t.Errorf("%+v", l)
			}
			if n := e.Credentials().ForStart(here, sb); len(n.Loans) != 1 || string(n.Loans[0].Value) != value {
				t.Errorf("%+v", n)
			}
			must(t, e.Homes().Furnish(sb))
			text, err := os.ReadFile(filepath.Join(e.Store.Sandbox(sb.ID).Home(), ".mine.json"))
			if err != nil || l.Placeholder == "" || string(text) != `{"key":"`+l.Placeholder+`"}` {
				t.Errorf("%s, %v", text, err)
			}
			credentialtest.NowhereIn(t, e.Store.Path(), "CANARY")
			other := wish(t.TempDir())
			must(t, e.Create(here, other))
			if _, err := e.Credentials().LendCredential(here, other, claude(t, e), secret, vault.Terms{}); err == nil || !strings.Contains(err.Error(), "not known where") {
				t.Errorf("as another agent's: %v", err)
			}
		})
	}
}
