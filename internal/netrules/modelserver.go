package netrules

import (
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/spec"
)

// Serve makes a new sandbox use the user's own model server. If it is on the host, the sandbox reaches
// its port; otherwise a rule allows it.
func Serve(sb *spec.Sandbox, a *spec.Agent, s *spec.ModelServer, rules *policy.Block) error {
	if s == nil {
		return nil
	}
	sb.ModelServer = s
	if a != nil {
		sb.Env = slices.Concat(agent.ServerEnv(a, s), sb.Env)
	}
	if s.IsLocal() {
		if slices.Contains(sb.HostPorts, s.Port()) {
			return nil
		}
		return OpenHostPort(sb, s.Port())
	}
	r, err := policy.ParseRule(policy.Allow, s.Target())
	if err != nil {
		return err
	}
	if !policy.HasRule(rules.Allow, &r) {
		rules.Allow = append(slices.Clip(rules.Allow), r)
	}
	return nil
}

// NamesServer reports whether a variable tells agents which server to ask.
func NamesServer(variable string) bool {
	return strings.HasSuffix(variable, "_BASE_URL") || strings.HasSuffix(variable, "_API_BASE")
}
