package provision

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/netrules"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/policy/lint"
	"github.com/bothy-dev/bothy/internal/policy/target"
	"github.com/bothy-dev/bothy/spec"
)

// ParseRules returns the network rules of a request. Contradictory rules are an error, because one would
// cancel another silently.
func ParseRules(req *spec.Request) (policy.Block, error) {
	b := policy.Block{Presets: req.Presets}
	for _, list := range []struct {
		action policy.Action
		into   *[]policy.Rule
		texts  []string
	}{{policy.Allow, &b.Allow, req.Allow}, {policy.Deny, &b.Deny, req.Deny}} {
		for _, text := range list.texts {
			r, err := policy.ParseRule(list.action, text)
			if err != nil {
				return b, err
			}
			*list.into = append(*list.into, r)
		}
	}
	found, err := lint.Contradictions(time.Now(), policy.Input{Layer: policy.LayerSandbox, Block: b})
	if err == nil && len(found) > 0 {
		err = contradiction(found[0])
	}
	if err != nil { // an unknown preset, too, is a mistake in the request
		err = &spec.Error{Class: spec.ErrUsage, Err: err, Hint: spec.Hint(err)}
	}
	return b, err
}

func contradiction(c lint.Contradiction) error {
	return spec.Errorf(spec.ErrUsage, "%s", c.String()).WithHint("a rule that denies wins over any that allows; leave one of them out")
}

// IneffectiveRules says which of the new rules of a sandbox have no effect, or remove the effect of
// others.
func IneffectiveRules(e *engine.Engine, sb *spec.Sandbox, rules []policy.Rule) (notes []string) {
	if len(rules) == 0 {
		return nil
	}
	inputs, err := e.Rules().Layers(sb)
	if err != nil {
		return []string{"the rules cannot be judged together with the others: " + err.Error()}
	}
	found, err := lint.Contradictions(time.Now(), inputs...)
	if err != nil {
		return nil // each rule was checked before
	}
	for _, c := range found {
		isNew := func(r policy.Rule) bool { return r.ID() == c.Allow.ID() || r.ID() == c.Deny.ID() }
		if slices.ContainsFunc(rules, isNew) {
			notes = append(notes, c.String())
		}
	}
	for _, r := range rules {
		if r.Action == policy.Allow && r.Target.Kind == target.Range && r.Target.Prefix.Addr().IsLoopback() {
			notes = append(notes, fmt.Sprintf("inside, %s is the sandbox itself: rule %q counts only for names that lead to the host's own; a port of the host is reached as host.bothy, after: bothy ports %s --allow-host-port PORT", r.Target.Prefix.Addr(), r.String(), nameOf(sb)))
		}
	}
	return notes
}

// nameOf returns the name of a sandbox for a command; SANDBOX if there is none.
func nameOf(sb *spec.Sandbox) string {
	if sb == nil {
		return "SANDBOX"
	}
	return sb.Name
}

// SetPorts adds published ports, and ports of the host, to a sandbox. The notes name ports that other
// machines can reach.
func SetPorts(sb *spec.Sandbox, publish, hostPorts []string) (notes []string, err error) {
	for _, text := range publish {
		p, err := spec.ParsePort(text)
		if err != nil {
			return nil, notForAgent(text, err)
		}
		if err := netrules.Publish(sb, p); err != nil {
			return nil, err
		}
		if p.Exposed() {
			notes = append(notes, fmt.Sprintf("warning: port %d of the sandbox is published at %s, for every machine that can reach this one there", p.Port, p.HostIP))
		}
	}
	return notes, EachPort(hostPorts, func(n uint16) error { return netrules.OpenHostPort(sb, n) })
}

// notForAgent adds a hint for a user who meant -p for the agent.
func notForAgent(text string, err error) error {
	if strings.ContainsAny(text, "0123456789") {
		return err
	}
	return spec.Errorf(spec.ErrUsage, "%w", err).WithHint("%s; options for an agent follow --: -- -p TEXT", spec.Hint(err))
}

// EachPort calls do for each port of the host that the texts name.
func EachPort(texts []string, do func(uint16) error) error {
	for _, text := range texts {
		n, err := spec.ParseHostPort(text)
		if err == nil {
			err = do(n)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
