package provision

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/reconfigure"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/spec"
)

// Metering says why the gateway can count the requests to models in a sandbox, whatever the description
// of its agent says.
type Metering struct {
	// Own means that no model is asked, or one at a server of the user's own.
	Own bool
	// Secrets are for models that the gateway knows.
	Secrets []string
}

// MeteringOf returns the metering of a sandbox that a request makes for an agent.
func (p *Provisioner) MeteringOf(req *spec.Request, of *spec.Agent) (Metering, error) {
	server, err := p.modelServer(req, of)
	if err != nil {
		return Metering{}, err
	}
	return p.metering(req, server)
}

func (p *Provisioner) metering(req *spec.Request, server *spec.ModelServer) (m Metering, err error) {
	m.Own = req.Mock != "" || server != nil
	list, err := parseSecrets(req.Secrets)
	for _, l := range list {
		s, err := p.Engine.Credentials().Values.Secret(l.secret)
		if err != nil {
			return m, err
		}
		if slices.ContainsFunc(vault.HostsOf(s, vault.Terms{}), vault.IsModelHost) { // others are not for models
			m.Secrets = append(m.Secrets, l.secret)
		}
	}
	return m, err
}

// MeteringIn returns the metering of an existing sandbox.
func MeteringIn(e *engine.Engine, sb *spec.Sandbox) (m Metering, err error) {
	m.Own = sb.Mock != nil || sb.ModelServer != nil
	list, err := e.Credentials().Leases(sb)
	for i := range list {
		if l := &list[i]; l.Live(time.Now()) && slices.ContainsFunc(l.Hosts, vault.IsModelHost) && !slices.Contains(m.Secrets, l.Secret) {
			m.Secrets = append(m.Secrets, l.Secret)
		}
	}
	return m, err
}

// isMetered reports whether the description of an agent says that the gateway sees its requests to
// models: the agent logs in to models that the gateway knows.
func isMetered(a *spec.Agent) bool {
	return slices.ContainsFunc(a.Credentials, func(name string) bool {
		s := vault.FindService(name)
		return s != nil && (s.Model || len(s.Counted) > 0)
	})
}

// checkBudget refuses a budget that would not limit the agent of a new sandbox.
func (p *Provisioner) checkBudget(pl *Plan) error {
	if pl.Request.Budget == (spec.Budget{}) || !pl.makesSandbox() {
		return nil
	}
	m, err := p.metering(&pl.Request, pl.server)
	if err != nil {
		return err
	}
	note, err := Budgetable(pl.Agent.Spec, pl.Request.Budget, m, false)
	pl.addNote(note)
	return err
}

func (pl *Plan) addNote(note string) {
	if note != "" {
		pl.Notes = append(pl.Notes, note)
	}
}

// Budgetable refuses a budget that would not limit an agent. The gateway enforces a budget where it sees
// the requests to models. Elsewhere a run can rely on the agent's claims; the note says so. An agent
// that claims nothing is refused.
func Budgetable(of *spec.Agent, b spec.Budget, m Metering, isRun bool) (note string, err error) {
	if b == (spec.Budget{}) || of == nil || m.Own || isMetered(of) {
		return "", nil
	}
	if len(m.Secrets) > 0 {
		otherwise := ""
		if isRun {
			otherwise = ", except for the usage that it claims"
		}
		return fmt.Sprintf("the budget limits %s where it uses %s; the gateway may not see requests to models with other credentials, and does not count them%s", of.Title, strings.Join(m.Secrets, ", "), otherwise), nil
	}
	refused := spec.Errorf(spec.ErrUsage, "a budget would not limit %s: it logs in to no model that the gateway knows", of.Title)
	if !isRun {
		return "", refused.WithHint("leave %s and %s out, lend it a secret for models (%s), or name its service in its description, under credentials (docs/guide/own-agent.md)",
			spec.Option("max-tokens"), spec.Option("max-cost"), spec.Option("secret"))
	}
	tokens, usd := claims(of)
	if b.Tokens > 0 && !tokens || b.USD > 0 && !usd {
		refused = spec.Errorf(spec.ErrUsage, "a budget would not limit %s: it logs in to no model that the gateway knows, and does not report its usage", of.Title)
		return "", refused.WithHint("leave %s and %s out, or have its description name its service, under credentials, or where it reports its usage, under headless (docs/guide/own-agent.md)",
			spec.Option("max-tokens"), spec.Option("max-cost"))
	}
	return fmt.Sprintf("the gateway does not see the requests of %s to models: the budget counts the usage that it claims after its work", of.Title), nil
}

// BudgetableIn is [Budgetable] for the agent of an existing sandbox. It accepts any budget for a shell,
// and for an agent whose description is gone: Bothy does not know what asks models there.
func BudgetableIn(e *engine.Engine, sb *spec.Sandbox, b spec.Budget) (note string, err error) {
	of, err := e.Agents.Called(sb.Agent)
	if errors.Is(err, spec.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	m, err := MeteringIn(e, sb)
	if err != nil {
		return "", err
	}
	return Budgetable(of, b, m, false)
}

// claims reports whether an agent without a terminal says how many tokens, and how much money, it used.
func claims(of *spec.Agent) (tokens, usd bool) {
	if of.Headless == nil || of.Headless.Events == nil {
		return false, false
	}
	return claimsIn(of.Headless.Events.Rules)
}

func claimsIn(rules []spec.AgentRule) (tokens, usd bool) {
	for _, r := range rules {
		t, u := claimsIn(r.Rules)
		if r.Usage != nil {
			t, u = t || slices.Concat(r.Usage.Input, r.Usage.Output) != nil, u || r.Usage.USD != nil
		}
		tokens, usd = tokens || t, usd || u
	}
	return tokens, usd
}

// BudgetChange has the limits of a budget to change. A nil limit stays; 0 means no limit.
type BudgetChange struct {
	Tokens *int64   `json:"max_tokens,omitempty"`
	USD    *float64 `json:"max_cost,omitempty"`
}

// ChangeBudget limits the use of models by an existing sandbox. It refuses a budget that would not limit the
// sandbox's agent. The note says what the budget does not count; it may be empty.
func ChangeBudget(ctx context.Context, e *engine.Engine, sb *spec.Sandbox, change BudgetChange) (note string, err error) {
	asked, b := spec.Budget{}, sb.Budget
	if change.Tokens != nil {
		asked.Tokens, b.Tokens = *change.Tokens, *change.Tokens
	}
	if change.USD != nil {
		asked.USD, b.USD = *change.USD, *change.USD
	}
	if err := asked.Check(); err != nil {
		return "", err
	}
	if note, err = BudgetableIn(e, sb, asked); err != nil {
		return "", err
	}
	return note, reconfigure.Budget(ctx, e, sb, b)
}
