package netrules

import (
	"slices"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/credential"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/policy/target"
	"github.com/bothy-dev/bothy/spec"
)

// PresetHosts returns the hosts that an agent, its presets and its credentials need, as HOST:PORT. It
// leaves out patterns.
func PresetHosts(values *credential.Values, a *spec.Agent) ([]string, error) {
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
		if r.Target.Kind == target.Exact && r.Target.Port != 0 && !slices.Contains(list, r.Target.String()) {
			list = append(list, r.Target.String())
		}
	}
	return list, nil
}
