package cli

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/spec"
)

// lendings are why the gateway sees what is asked in a sandbox, whatever the description of
// its agent says.
type lendings struct {
	played  bool     // no model is asked, or one at a server that it was made for
	secrets []string // that are for models which the gateway knows
}

// lendings are those of a sandbox that is to be made. A secret that is for something else is none.
func (f *createFlags) lendings(e *engine.Engine) (w lendings, err error) {
	w.played = f.mock != "" || f.server.chosen != nil
	list, err := parseLend(f.secrets)
	for _, l := range list {
		var models bool
		if err == nil {
			models, err = e.MeteredSecret(l.secret)
		}
		if models {
			w.secrets = append(w.secrets, l.secret)
		}
	}
	return w, err
}

// lendingsOf are those of a sandbox that there is.
func lendingsOf(e *engine.Engine, sb *spec.Sandbox) (w lendings, err error) {
	w.played = sb.Mock != nil || sb.ModelServer != nil
	list, err := e.Credentials().Leases(sb)
	for i := range list {
		if l := &list[i]; l.Live(time.Now()) && engine.MeteredLease(l) && !slices.Contains(w.secrets, l.Secret) {
			w.secrets = append(w.secrets, l.Secret)
		}
	}
	return w, err
}

// boundable sees that a budget would hold an agent. The gateway holds it where it sees what
// models are asked; where it does not, a run can go by what the agent claims, which is said.
// An agent that nobody can tell anything of is refused.
func (a *app) boundable(of *spec.Agent, b spec.Budget, w lendings, isRun bool) error {
	if b == (spec.Budget{}) || of == nil || w.played || engine.Metered(of) {
		return nil
	}
	if len(w.secrets) > 0 {
		otherwise := ""
		if isRun {
			otherwise = ", but for what it claims"
		}
		a.Note("the budget holds %s where it uses %s; what it asks models with anything else the gateway may not see, and that is not counted%s", of.Title, strings.Join(w.secrets, ", "), otherwise)
		return nil
	}
	err := spec.Errorf(spec.ErrUsage, "a budget would not hold %s: what it logs in with is for no model that the gateway knows", of.Title)
	if !isRun {
		return err.WithHint("leave --max-tokens and --max-cost out, lend it a secret for models (--secret), or name its service in its description, under credentials (docs/guide/agents.md)")
	}
	tokens, usd := claims(of)
	if b.Tokens > 0 && !tokens || b.USD > 0 && !usd {
		err = spec.Errorf(spec.ErrUsage, "a budget would not hold %s: what it logs in with is for no model that the gateway knows, and it does not say what it used", of.Title)
		return err.WithHint("leave --max-tokens and --max-cost out, or have its description name its service, under credentials, or what it says that it used, under headless (docs/guide/agents.md)")
	}
	a.Note("the gateway does not see what %s asks models: the budget goes by what it claims, when it has worked", of.Title)
	return nil
}

// bounds sees that the budget of a sandbox that is to be made would hold who it is for.
func (a *app) bounds(e *engine.Engine, f *createFlags, l *lodger) error {
	if f.budget.Budget == (spec.Budget{}) {
		return nil
	}
	w, err := f.lendings(e)
	if err != nil {
		return err
	}
	return a.boundable(l.spec, f.budget.Budget, w, false)
}

// boundableIn is boundable for the agent of a sandbox that there is. A shell has none, nor has
// one whose description is gone: what asks models there is known to nobody.
func (a *app) boundableIn(e *engine.Engine, sb *spec.Sandbox, b spec.Budget) error {
	of, err := e.Agents.Called(sb.Agent)
	if errors.Is(err, spec.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	w, err := lendingsOf(e, sb)
	if err != nil {
		return err
	}
	return a.boundable(of, b, w, false)
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
