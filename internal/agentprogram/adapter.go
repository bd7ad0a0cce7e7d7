package agentprogram

import (
	"context"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/spec"
)

// Adapter returns the installation of the program that speaks with editors for the agent of a sandbox, and
// installs it if it is missing. It is nil if the agent speaks itself. The error is of class
// [spec.ErrUsage] if the agent's description says nothing about editors.
func (s *Programs) Adapter(ctx context.Context, a *spec.Agent, sb *spec.Sandbox, g Ground, progress Progress) (p *spec.Program, notices []string, err error) {
	if err := CheckACP(a); err != nil {
		return nil, nil, err
	}
	d := agent.Adapter(a)
	if d == nil {
		return nil, nil, nil
	}
	if p, notices, err = s.chooseInstalled(ctx, d, g, d.Install.Version, progress); err != nil {
		return nil, nil, err
	}
	p.From = d.Name
	var has *spec.Program
	if sb.Program != nil {
		has = sb.Program.Runtime
	}
	need := d.Install.Needs
	switch {
	case need == nil:
		return p, notices, nil
	case has != nil && (has.From != need.Name || !agent.AtLeast(has.Installation, need.Version)):
		return nil, nil, spec.Errorf(spec.ErrConflict, "%s needs %s %s or newer, and %s runs on %s %s", d.Title, need.Name, need.Version, a.Title, has.From, has.Installation).
			WithHint("install a newer one, then make the sandbox anew: bothy agent install %s", need.Name)
	case has != nil: // both run on it
		return p, notices, nil
	}
	var more []string
	p.Runtime, more, err = s.Runtime(ctx, d, g, progress)
	return p, append(notices, more...), err
}

// CheckACP refuses an agent that cannot speak with editors.
func CheckACP(a *spec.Agent) error {
	if a == nil {
		return spec.Errorf(spec.ErrUsage, "a shell or a program does not speak with editors").WithHint("name an agent: bothy agent ls")
	}
	if a.ACP == nil {
		return spec.Errorf(spec.ErrUsage, "the description of %s does not say how it speaks with editors", a.Title).
			WithHint("add acp to it: see docs/guide/own-agent.md")
	}
	return nil
}
