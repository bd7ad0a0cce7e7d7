package engine

import (
	"errors"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/spec"
)

// AgentIn gives the agent that a sandbox was made for; nil if that was the shell, or a
// program of the user's own. An agent whose description is gone is neither: a command that
// took it for one would hand its prompt to a shell.
func (e *Engine) AgentIn(sb *spec.Sandbox) (*spec.Agent, error) {
	if sb.Agent == agent.Shell || len(sb.Command) > 0 {
		return nil, nil
	}
	a, err := e.Agents.Find(sb.Agent)
	if errors.Is(err, spec.ErrNotFound) {
		return nil, spec.Errorf(spec.ErrConflict, "sandbox %s is one of the agent %s, whose description is gone", sb.Name, sb.Agent).
			WithHint("put %s.yaml back where it was (docs/guide/agents.md, An agent of your own)", sb.Agent)
	}
	return a, err
}
