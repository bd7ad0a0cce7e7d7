package engine

import (
	"context"
	"slices"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/checkpoint"
	"github.com/bothy-dev/bothy/internal/keeper/grants"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Reviewer is an agent that judges what another one did.
type Reviewer struct {
	Agent   *spec.Agent
	Program *spec.Program // nil: that of the template
	Budget  spec.Budget   // what models may take for it
}

// Review makes a proof in which a reviewer lives: with its program, its variables, what
// its presets let it reach in the place of those of the agent whose work is judged, and,
// unless models are played, its login. All of it goes with the proof.
func (e *Engine) Review(ctx context.Context, of *spec.Sandbox, p checkpoint.Point, r Reviewer) (*spec.Sandbox, error) {
	e.sweep()
	sb, err := e.review(ctx, of, p, r)
	if err != nil {
		return nil, &spec.Error{Op: "make a copy of " + of.Name + " to have it reviewed", Err: err}
	}
	return sb, nil
}

func (e *Engine) review(ctx context.Context, of *spec.Sandbox, p checkpoint.Point, r Reviewer) (*spec.Sandbox, error) {
	worker, err := e.Agents.Find(of.Agent)
	if err != nil {
		return nil, err // what was opened for it could not be told from what the user wants
	}
	played, err := playedBy(of, r.Agent)
	if err != nil {
		return nil, err
	}
	rules, err := e.rulesFor(of, worker, r.Agent)
	if err != nil {
		return nil, err
	}
	settle := func(sb *spec.Sandbox) {
		inhabit(sb, worker, r.Agent, r.Program, played)
		sb.Budget = r.Budget
	}
	sb, err := e.proof(ctx, of, p, settle, func(d store.Sandbox) error {
		return store.WriteFile(d.Policy(), (&policy.File{Block: rules}).Encode())
	})
	if err != nil || played != nil {
		return sb, err
	}
	if err := e.Credentials().LogIn(ctx, sb, r.Agent); err != nil {
		_ = e.Remove(context.WithoutCancel(ctx), sb, true)
		return nil, err
	}
	return sb, nil
}

// rulesFor are a sandbox's own rules for another agent than the one it was made for.
func (e *Engine) rulesFor(sb *spec.Sandbox, worker, other *spec.Agent) (policy.Block, error) {
	own, err := grants.ReadPolicy(e.Store.Sandbox(sb.ID).Policy())
	if err != nil {
		return policy.Block{}, err
	}
	b := own.Block
	b.Presets = without(b.Presets, worker.Presets)
	for _, presets := range worker.Reach {
		b.Presets = without(b.Presets, presets)
	}
	was, err := agent.Allowed(worker)
	if err != nil {
		return policy.Block{}, err
	}
	b.Allow = withoutRules(b.Allow, was)
	if slices.Contains(b.Presets, "none") || sb.ModelServer != nil { // which is all that it asks
		return b, nil
	}
	its, err := agent.Allowed(other)
	if err != nil {
		return policy.Block{}, err
	}
	b.Presets = append(b.Presets, without(other.Presets, b.Presets)...)
	b.Allow = append(b.Allow, withoutRules(its, b.Allow)...)
	return b, nil
}

// withoutRules is without for rules.
func withoutRules(list, other []policy.Rule) []policy.Rule {
	return slices.DeleteFunc(slices.Clone(list), func(r policy.Rule) bool { return policy.HasRule(other, &r) })
}

// ofAgent are the variables that a sandbox has for its agent.
func ofAgent(sb *spec.Sandbox, a *spec.Agent) []string {
	env := slices.Concat(agent.Env(a), agent.ServerEnv(a, sb.ModelServer))
	if sb.Mock == nil {
		return env
	}
	return slices.Concat(env, keysOf(sb.Mock), mockEnv(a, sb.Mock.Keys))
}

// without gives those of a list that are not in another.
func without(list, other []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(other, s) })
}
