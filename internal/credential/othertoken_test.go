package credential

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/credential/credentialtest"
	"github.com/bothy-dev/bothy/internal/vault"
)

const ofGitHub = "gho_CANARYCANARYCANARYCANARY012345678901"

// gh installs a gh that runs a script when it is asked for a token of its keyring.
func gh(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "gh"), []byte("#!/bin/sh\n"+script), 0o700))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	credentialtest.PutHome(t, ".config/gh/hosts.yml", "github.com:\n  user: me\n", 0o600)
}

// TestOtherToken checks that a token of another program is found, and lent only for the paths that
// the agent needs, under the agent's own variable.
func TestOtherToken(t *testing.T) {
	for name, c := range map[string]struct {
		set   func(t *testing.T)
		where string
	}{
		"a variable":         {func(t *testing.T) { t.Setenv("GH_TOKEN", ofGitHub) }, "$GH_TOKEN"},
		"the other variable": {func(t *testing.T) { t.Setenv("GITHUB_TOKEN", ofGitHub) }, "$GITHUB_TOKEN"},
		"both variables": {func(t *testing.T) {
			t.Setenv("GH_TOKEN", ofGitHub)
			t.Setenv("GITHUB_TOKEN", "gho_other56789012345678901234567890123456")
		}, "$GH_TOKEN"},
		"gh's file": {func(t *testing.T) {
			credentialtest.PutHome(t, ".config/gh/hosts.yml", "github.com:\n  oauth_token: "+ofGitHub+"\nghe.example:\n  oauth_token: other\n", 0o600)
		}, "~/.config/gh/hosts.yml"},
		"gh's keyring": {func(t *testing.T) { gh(t, "echo "+ofGitHub+"\n") }, "keyring"},
	} {
		t.Run(name, func(t *testing.T) {
			e, _, said := signedIn(t)
			a, err := e.Agents.Find("copilot")
			must(t, err)
			if none, err := e.Find(a); err != nil || none.Secret != "" || none.Unfit != "" {
				t.Fatalf("before there is any: %+v, %v", none, err)
			}
			c.set(t)
			secret, err := e.SecretFor(here, a)
			must(t, err)
			if secret != "copilot-github-token" || len(*said) != 1 || !strings.Contains((*said)[0], c.where) || strings.Contains((*said)[0], "CANARY") {
				t.Fatalf("%q, said %q", secret, *said)
			}
			if again, err := e.SecretFor(here, a); err != nil || again != secret || len(*said) != 1 {
				t.Errorf("once more: %q, %v, said %q", again, err, *said)
			}
			sb := wish(t.TempDir())
			must(t, e.Create(t.Context(), sb))
			l, err := e.LendCredential(here, sb, a, secret, vault.Terms{})
			must(t, err)
			if !slices.Equal(l.Hosts, vault.FindService("copilot").Hosts) || !slices.Equal(l.Paths, a.Tokens[0].Paths) || !slices.Equal(l.Env, []string{"COPILOT_GITHUB_TOKEN"}) || l.Tool != "" {
				t.Errorf("%+v", l)
			}
			if n := e.ForStart(here, sb); len(n.Unlent) != 0 || len(n.Loans) != 1 || string(n.Loans[0].Value) != ofGitHub || strings.Contains(l.Placeholder, "CANARY") {
				t.Errorf("%+v", n)
			}
			credentialtest.NowhereIn(t, e.Store.Path(), "CANARY")
			if e.NeverLent(sb) {
				t.Error("it counts as none")
			}

			// The tool's own, lent beside it, is another secret, with all rights.
			chosen, err := e.ChooseTokens(choices(t, "github"))
			must(t, err)
			all, err := e.LendToken(here, sb, &chosen[0])
			if err != nil || all == nil || all.Secret != "lent-github" || len(all.Paths) != 0 {
				t.Errorf("%+v, %v", all, err)
			}
		})
	}
}

// TestOtherTokenUnfit checks that a token that the agent does not take, or that cannot be read, is
// reported and not lent, and that the agent's own key comes before it.
func TestOtherTokenUnfit(t *testing.T) {
	for name, c := range map[string]struct {
		set func(t *testing.T)
		why string
	}{
		"a classic one":       {func(t *testing.T) { t.Setenv("GH_TOKEN", "ghp_CANARY7890123456789012345678901234567890") }, "does not take"},
		"a classic one of gh": {func(t *testing.T) { gh(t, "echo ghp_CANARY7890123456789012345678901234567890\n") }, "does not take"},
		"none in the keyring": {func(t *testing.T) { gh(t, "echo locked >&2; exit 1\n") }, "locked"},
		"a file for all to edit": {func(t *testing.T) {
			credentialtest.PutHome(t, ".config/gh/hosts.yml", "github.com:\n  oauth_token: "+ofGitHub+"\n", 0o666)
		}, "chmod go-w"},
	} {
		t.Run(name, func(t *testing.T) {
			e, _, said := signedIn(t)
			a, err := e.Agents.Find("copilot")
			must(t, err)
			c.set(t)
			secret, err := e.SecretFor(here, a)
			if err != nil || secret != "" || len(*said) != 1 || !strings.Contains((*said)[0], c.why) || strings.Contains((*said)[0], "CANARY") {
				t.Errorf("%q, %v, said %q", secret, err, *said)
			}
			if have, err := e.Secrets(); err != nil || len(have) != 0 {
				t.Errorf("%+v, %v", have, err)
			}
			credentialtest.PutHome(t, ".copilot/config.json", `{"copilotTokens":{"https://github.com:me":"`+ofGitHub+`"}}`, 0o600)
			secret, err = e.SecretFor(here, a)
			if err != nil || secret != "copilot-copilot-key" {
				t.Fatalf("%q, %v", secret, err)
			}
			sb := wish(t.TempDir())
			must(t, e.Create(t.Context(), sb))
			if l, err := e.LendCredential(here, sb, a, secret, vault.Terms{}); err != nil || len(l.Paths) == 0 || !slices.Equal(l.Paths, a.Tokens[0].Paths) {
				t.Errorf("%+v, %v", l, err)
			}
		})
	}
}

// TestOtherTokenOfNobody checks that an unknown tool is an error.
func TestOtherTokenOfNobody(t *testing.T) {
	e, _, _ := signedIn(t)
	dir := t.TempDir()
	text := "version: 1\nname: mine\ntitle: Mine\nprogram: mine\ncredentials: [copilot]\ntokens: [{tool: hub, server: github.com, service: copilot, paths: [/x]}]\n"
	must(t, os.WriteFile(filepath.Join(dir, "mine.yaml"), []byte(text), 0o600))
	e.Agents = agent.NewCatalog(dir)
	a, err := e.Agents.Find("mine")
	must(t, err)
	if c, err := e.Find(a); err == nil || !strings.Contains(err.Error(), "hub") {
		t.Errorf("%+v, %v", c, err)
	}
}
