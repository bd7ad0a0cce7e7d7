package provision

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/credential"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/spec"
)

// TestBudgetable checks that a budget that would limit no agent is refused, and that a run relies on the
// agent's claims if the agent makes some.
func TestBudgetable(t *testing.T) {
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
		lent   Metering
		run    bool
		ok     bool
	}{
		"claude":                       {of("claude"), usd, Metering{}, true, true},
		"codex":                        {of("codex"), usd, Metering{}, false, true},
		"gemini":                       {of("gemini"), tokens, Metering{}, false, true},
		"opencode":                     {of("opencode"), tokens, Metering{}, false, true},
		"copilot":                      {of("copilot"), tokens, Metering{}, true, true},
		"cursor":                       {of("cursor"), tokens, Metering{}, false, false},
		"cursor in a run":              {of("cursor"), tokens, Metering{}, true, false},
		"cursor without a budget":      {of("cursor"), spec.Budget{}, Metering{}, false, true},
		"the shell":                    {nil, tokens, Metering{}, false, true},
		"one that says":                {says, tokens, Metering{}, true, true},
		"one that says no money":       {says, usd, Metering{}, true, false},
		"one that says, without a run": {says, tokens, Metering{}, false, false},
		"cursor with a secret":         {of("cursor"), tokens, Metering{Secrets: []string{"openai"}}, true, true},
		"with a secret":                {says, usd, Metering{Secrets: []string{"openai"}}, false, true},
		"one that is played":           {says, usd, Metering{Own: true}, true, true},
	} {
		if _, err := Budgetable(c.of, c.budget, c.lent, c.run); (err == nil) != c.ok || err != nil && !errors.Is(err, spec.ErrUsage) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestMetering checks that the gateway counts requests with a secret for models that it knows, and with
// no other. A missing secret is an error.
func TestMetering(t *testing.T) {
	st, err := store.Open(t.TempDir())
	must(t, err)
	e := &engine.Engine{Store: st, Agents: agent.NewCatalog(t.TempDir())}
	p := &Provisioner{Engine: e}
	for name, service := range map[string]string{"models": "openai", "inference": "huggingface", "code": "github", "own": ""} {
		must(t, e.Credentials().SetSecret(t.Context(), credential.NewSecret{Name: name, Service: service, Source: vault.Source{Kind: vault.SourceEnvironment, Variable: "NOT_SET"}}))
	}
	for flags, want := range map[string][]string{
		"": nil, "models": {"models"}, "models:8h": {"models"}, "code": nil, "own": nil, "code models inference": {"models", "inference"},
	} {
		w, err := p.MeteringOf(&spec.Request{Secrets: strings.Fields(flags)}, nil)
		if err != nil || w.Own || !slices.Equal(w.Secrets, want) {
			t.Errorf("--secret %s: %+v, %v", flags, w, err)
		}
	}
	if _, err := p.MeteringOf(&spec.Request{Secrets: []string{"none"}}, nil); !errors.Is(err, spec.ErrNotFound) {
		t.Errorf("a missing secret: %v", err)
	}
	sb := &spec.Sandbox{ID: store.NewID(), Name: "box", Agent: "cursor"}
	_, err = st.Create(sb)
	must(t, err)
	budget := spec.Budget{Tokens: 1}
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
		if _, err := BudgetableIn(e, sb, budget); (err == nil) != c.ok || err != nil && !errors.Is(err, spec.ErrUsage) {
			t.Errorf("lent is %s: %v", name, err)
		}
		if _, err := BudgetableIn(e, sb, spec.Budget{}); err != nil {
			t.Errorf("lent is %s, and there is to be no budget: %v", name, err)
		}
	}
	sb.Agent = "shell"
	if _, err := BudgetableIn(e, sb, budget); err != nil {
		t.Errorf("a shell: %v", err)
	}
}
