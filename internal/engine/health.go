package engine

import (
	"slices"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/spec"
)

// PresetHosts are the hosts that an agent and its presets name, and those that come with
// what it would be lent, each with a port, as HOST:PORT. Patterns are no hosts.
func (e *Engine) PresetHosts(a *spec.Agent) ([]string, error) {
	values := e.Credentials().Values
	lent, err := values.Find(a)
	if err != nil {
		return nil, err
	}
	more, err := values.ReachOf(a, lent)
	if err != nil {
		return nil, err
	}
	rules, err := agent.Allowed(a)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Concat(a.Presets, more) {
		p, err := policy.FindPreset(name)
		if err != nil {
			return nil, err
		}
		rules = append(rules, p.Block.Allow...)
	}
	var list []string
	for _, r := range rules {
		if _, exact := r.Target.Name(); exact && r.Target.Port() != 0 && !slices.Contains(list, r.Target.String()) {
			list = append(list, r.Target.String())
		}
	}
	return list, nil
}
