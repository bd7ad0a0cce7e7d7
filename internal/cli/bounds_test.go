package cli

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/credential"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/spec"
)

// A budget is refused where it would hold nobody, and goes by claims where there are some.
func TestBoundable(t *testing.T) {
	of := func(name string) *spec.Agent {
		t.Helper()
		of, err := agent.NewCatalog(t.TempDir()).Called(name)
		must(t, err)
		return of
	}
	says := &spec.Agent{Title: "Mine", Headless: &spec.AgentHeadless{Events: &spec.AgentReading{Rules: []spec.AgentRule{
		{Each: "list", Rules: []spec.AgentRule{{Kind: spec.TalkUsage, Usage: &spec.AgentUse{Output: spec.AgentPaths{"out"}}}}},
	}}}}
	tokens, usd := spec.Budget{Tokens: 1}, spec.Budget{USD: 1}
	for name, c := range map[string]struct {
		of     *spec.Agent
		budget spec.Budget
		lent   lendings
		run    bool
		ok     bool
	}{
		"claude":                  {of("claude"), usd, lendings{}, true, true},
		"codex":                   {of("codex"), usd, lendings{}, false, true},
		"gemini":                  {of("gemini"), tokens, lendings{}, false, true},
		"opencode":                {of("opencode"), tokens, lendings{}, false, true},
		"copilot":                 {of("copilot"), tokens, lendings{}, true, true},
		"cursor":                  {of("cursor"), tokens, lendings{}, false, false},
		"cursor in a run":         {of("cursor"), tokens, lendings{}, true, false},
		"cursor without a budget": {of("cursor"), spec.Budget{}, lendings{}, false, true},
		"the shell":               {nil, tokens, lendings{}, false, true},
		"one that says":           {says, tokens, lendings{}, true, true},
		"one that says no money":  {says, usd, lendings{}, true, false},
		"whose word nobody hears": {says, tokens, lendings{}, false, false},
		"cursor with a secret":    {of("cursor"), tokens, lendings{secrets: []string{"openai"}}, true, true},
		"with a secret":           {says, usd, lendings{secrets: []string{"openai"}}, false, true},
		"one that is played":      {says, usd, lendings{played: true}, true, true},
	} {
		a := &app{Console: &console.Console{Err: os.Stderr}}
		if err := a.boundable(c.of, c.budget, c.lent, c.run); (err == nil) != c.ok || err != nil && !errors.Is(err, spec.ErrUsage) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What is lent has the gateway see what is asked if it is for models that the gateway knows, and
// not if it is for anything else. A secret that there is not is an error.
func TestLendings(t *testing.T) {
	st, err := store.Open(t.TempDir())
	must(t, err)
	e := &engine.Engine{Store: st, Agents: agent.NewCatalog(t.TempDir())}
	for name, service := range map[string]string{"models": "openai", "inference": "huggingface", "code": "github", "own": ""} {
		must(t, e.Credentials().SetSecret(t.Context(), credential.NewSecret{Name: name, Service: service, Source: vault.Source{Kind: vault.SourceEnvironment, Variable: "NOT_SET"}}))
	}
	for flags, want := range map[string][]string{
		"": nil, "models": {"models"}, "models:8h": {"models"}, "code": nil, "own": nil, "code models inference": {"models", "inference"},
	} {
		f := &createFlags{secrets: strings.Fields(flags)}
		w, err := f.lendings(e)
		if err != nil || w.played || !slices.Equal(w.secrets, want) {
			t.Errorf("--secret %s: %+v, %v", flags, w, err)
		}
	}
	if _, err := (&createFlags{secrets: []string{"none"}}).lendings(e); !errors.Is(err, spec.ErrNotFound) {
		t.Errorf("a secret that there is not: %v", err)
	}
	sb := &spec.Sandbox{ID: store.NewID(), Name: "box", Agent: "cursor"}
	_, err = st.Create(sb)
	must(t, err)
	a, budget := &app{Console: &console.Console{Err: os.Stderr}}, spec.Budget{Tokens: 1}
	for name, c := range map[string]struct {
		lease spec.Lease
		ok    bool
	}{
		"nothing":       {spec.Lease{}, false},
		"something":     {spec.Lease{Hosts: []string{"api.github.com:443", "*.example.com"}}, false},
		"models":        {spec.Lease{Hosts: []string{"API.openai.com:443"}}, true},
		"all models":    {spec.Lease{Hosts: []string{"**.openai.com"}}, true},
		"one that ends": {spec.Lease{Hosts: []string{"api.openai.com"}, Until: time.Now().Add(-time.Hour)}, false},
	} {
		must(t, vault.WriteLeases(st.Sandbox(sb.ID).Leases(), []spec.Lease{c.lease}))
		if err := a.boundableIn(e, sb, budget); (err == nil) != c.ok || err != nil && !errors.Is(err, spec.ErrUsage) {
			t.Errorf("lent is %s: %v", name, err)
		}
		if err := a.boundableIn(e, sb, spec.Budget{}); err != nil {
			t.Errorf("lent is %s, and there is to be no budget: %v", name, err)
		}
	}
	sb.Agent = "shell"
	if err := a.boundableIn(e, sb, budget); err != nil {
		t.Errorf("a shell: %v", err)
	}
}

// What --secret names is not lent to who reviews.
func TestReviewersBoundable(t *testing.T) {
	st, err := store.Open(t.TempDir())
	must(t, err)
	e := &engine.Engine{Store: st, Agents: agent.NewCatalog(t.TempDir())}
	must(t, e.Credentials().SetSecret(t.Context(), credential.NewSecret{Name: "models", Service: "openai", Source: vault.Source{Kind: vault.SourceEnvironment, Variable: "NOT_SET"}}))
	of, err := e.Agents.Called("cursor")
	must(t, err)
	p := &loop.Plan{Limits: loop.Limits{Tokens: 9}}
	w, err := (&createFlags{secrets: []string{"models"}}).lendings(e)
	must(t, err)
	a := &app{Console: &console.Console{Err: os.Stderr}}
	must(t, a.loopBoundable(p, w, []*spec.Agent{of}, nil))
	if err := a.loopBoundable(p, w, []*spec.Agent{of}, []*spec.Agent{of}); !errors.Is(err, spec.ErrUsage) {
		t.Errorf("one that reviews: %v", err)
	}
}
