// Package otheragent makes a sandbox for an agent like one that was made for another agent.
package otheragent

import (
	"slices"

	"github.com/bothy-dev/bothy/internal/rulefiles"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/modelmock"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/policy/policyfile"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Replacement is an agent that gets a sandbox like one that was made for another agent.
type Replacement struct {
	rules        policy.Block // those of the other sandbox, with this agent's presets
	first, agent *spec.Agent
	program      *spec.Program
	played       *modelmock.Mock
}

// ReplaceAgent prepares a sandbox like another one for another agent. The program is nil if it is
// that of the template. The error tells why the agent cannot have such a sandbox.
func ReplaceAgent(e *engine.Engine, of *spec.Sandbox, by *spec.Agent, program *spec.Program) (*Replacement, error) {
	first, err := e.Agents.Find(of.Agent)
	if err != nil {
		return nil, err // its rules could not be told from those that the user wants
	}
	played, err := modelmock.Like(of, by)
	if err != nil {
		return nil, err
	}
	rules, err := rulesFor(e, of, first, by)
	if err != nil {
		return nil, err
	}
	return &Replacement{rules, first, by, program, played}, nil
}

// Describe changes the description of a sandbox like the other one: the agent, its program and its
// variables.
func (r *Replacement) Describe(sb *spec.Sandbox) {
	env := without(sb.Env, ofAgent(sb, r.first))
	sb.Agent, sb.Program, sb.Adapter, sb.Command, sb.Config = r.agent.Name, r.program, nil, nil, false
	sb.Env = slices.Concat(agent.Env(r.agent), agent.ServerEnv(r.agent, sb.ModelServer), env)
	r.played.Apply(sb)
}

// WriteRules writes the other sandbox's own rules into the directory of a new sandbox, with the
// presets of this agent in the place of those of the other agent.
func (r *Replacement) WriteRules(d store.Sandbox) error {
	return store.WriteFile(d.Policy(), (&policyfile.File{Block: r.rules}).Encode())
}

// rulesFor returns a sandbox's own rules, changed for another agent than the one it was made for.
func rulesFor(e *engine.Engine, sb *spec.Sandbox, worker, other *spec.Agent) (policy.Block, error) {
	own, err := rulefiles.Read(e.Store.Sandbox(sb.ID).Policy())
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
	if slices.Contains(b.Presets, "none") || sb.ModelServer != nil { // then the rules are complete
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

// ofAgent returns the variables that a sandbox has for its agent.
func ofAgent(sb *spec.Sandbox, a *spec.Agent) []string {
	env := slices.Concat(agent.Env(a), agent.ServerEnv(a, sb.ModelServer))
	if sb.Mock == nil {
		return env
	}
	return slices.Concat(env, modelmock.Env(sb.Mock, a))
}

// without returns the elements of a list that are not in another.
func without(list, other []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(other, s) })
}
