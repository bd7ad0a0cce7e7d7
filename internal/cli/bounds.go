package cli

import (
	"slices"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/spec"
)

// boundable sees that a budget would hold an agent. The gateway holds it where it sees what
// models are asked; where it does not, a run can go by what the agent claims, which is said.
// An agent that nobody can tell anything of is refused.
func (a *app) boundable(of *spec.Agent, b spec.Budget, f *createFlags, isRun bool) error {
	if b == (spec.Budget{}) || of == nil || f.mock != "" || len(f.secrets) > 0 || engine.Metered(of) {
		return nil
	}
	err := spec.Errorf(spec.ErrUsage, "a budget would not hold %s: what it logs in with is for no model that the gateway knows", of.Title)
	if !isRun {
		return err.WithHint("leave --max-tokens and --max-cost out, or name its service in its description, under credentials (docs/agents.md)")
	}
	tokens, usd := claims(of)
	if b.Tokens > 0 && !tokens || b.USD > 0 && !usd {
		err = spec.Errorf(spec.ErrUsage, "a budget would not hold %s: what it logs in with is for no model that the gateway knows, and it does not say what it used", of.Title)
		return err.WithHint("leave --max-tokens and --max-cost out, or have its description name its service, under credentials, or what it says that it used, under headless (docs/agents.md)")
	}
	a.note("the gateway does not see what %s asks models: the budget goes by what it claims, when it has worked", of.Title)
	return nil
}

// claims tells whether an agent says how many tokens it used, and how much money, where it works
// without a terminal.
func claims(of *spec.Agent) (tokens, usd bool) {
	if of.Headless == nil || of.Headless.Events == nil {
		return false, false
	}
	return claimed(of.Headless.Events.Rules)
}

func claimed(rules []spec.AgentRule) (tokens, usd bool) {
	for _, r := range rules {
		t, u := claimed(r.Rules)
		if r.Usage != nil {
			t, u = t || slices.Concat(r.Usage.Input, r.Usage.Output) != nil, u || r.Usage.USD != nil
		}
		tokens, usd = tokens || t, usd || u
	}
	return tokens, usd
}
