package records

import (
	"strings"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/agent/transcript"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Sessions returns the sessions that a sandbox's agent keeps in its home. The sandbox need not run: its
// home is plain files. The caller closes them.
func Sessions(st *store.Store, agents agent.Catalog, sb *spec.Sandbox) (*transcript.Sessions, error) {
	a, err := findTalker(agents, sb)
	if err != nil {
		return nil, err
	}
	if a.Transcript == nil {
		err := spec.Errorf(spec.ErrNotFound, "the description of %s does not say where its sessions are kept, or that they can be read", a.Title)
		if a.Headless != nil && a.Headless.Events != nil {
			return nil, err.WithHint("its output in the background can be read: bothy logs --agent --source output %s", sb.Name)
		}
		return nil, err.WithHint("bothy agent show %s prints it; it lacks transcript, see docs/guide/own-agent.md", a.Name)
	}
	return transcript.Open(st.Sandbox(sb.ID).Home(), a.Transcript)
}

// OutputRules returns the rules to read the output of a sandbox's agent without a terminal.
func OutputRules(agents agent.Catalog, sb *spec.Sandbox) (*transcript.Rules, error) {
	a, err := findTalker(agents, sb)
	if err != nil {
		return nil, err
	}
	if a.Headless == nil || a.Headless.Events == nil {
		return nil, spec.Errorf(spec.ErrNotFound, "the description of %s does not say how to read its output", a.Title).
			WithHint("bothy agent show %s prints it; it lacks headless and events, see docs/guide/own-agent.md", a.Name)
	}
	return transcript.ForOutput(a.Headless)
}

// findTalker returns the agent of a sandbox.
func findTalker(agents agent.Catalog, sb *spec.Sandbox) (*spec.Agent, error) {
	if sb.Agent == agent.Shell || len(sb.Command) > 0 {
		what := agent.Shell
		if len(sb.Command) > 0 {
			what = strings.Join(sb.Command, " ")
		}
		return nil, spec.Errorf(spec.ErrUsage, "sandbox %s has no agent: it was made for %s", sb.Name, what).
			WithHint("bothy logs %s shows its output", sb.Name)
	}
	return agents.In(sb)
}
