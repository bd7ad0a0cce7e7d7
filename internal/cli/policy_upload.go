package cli

import (
	"slices"

	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/spec"
)

// uploads is what a sandbox has sent by rules that bound it; nil: it is about no sandbox,
// or none does.
type uploads []spec.Upload

// sentBy asks for it, if a rule bounds it. The sandbox may be nil.
func sentBy(e *engine.Engine, sb *spec.Sandbox, p *policy.Policy) (uploads, error) {
	if sb == nil || !slices.ContainsFunc(p.Rules(), func(r policy.Rule) bool { return r.MaxUpload > 0 }) {
		return nil, nil
	}
	list, err := e.Uploads(sb)
	if err == nil && list == nil {
		list = uploads{}
	}
	return list, err
}

// by is what went by rules with a target.
func (u uploads) by(target string) int64 {
	i := slices.IndexFunc(u, func(o spec.Upload) bool { return o.Target == target })
	if i < 0 {
		return 0
	}
	return u[i].Bytes
}

// of is by for a rule; nil if it bounds nothing.
func (u uploads) of(r *policy.Rule) *int64 {
	if u == nil || r.MaxUpload == 0 {
		return nil
	}
	n := u.by(r.Target.String())
	return &n
}

// explain tells an explanation, with what became of the budget.
func (u uploads) explain(x *policy.Explanation, sandbox string) string {
	b := x.Decision.Budget
	if u == nil || b == nil {
		return x.Text(sandbox)
	}
	n := u.by(b.Target)
	if n >= b.Limit {
		x.Decision = x.Decision.UsedUp(n)
	}
	return x.Text(sandbox) + "  so far it let out " + console.FormatSize(n) + "\n"
}

// sentText is what stands behind a rule.
func sentText(n *int64) string {
	if n == nil {
		return ""
	}
	return " (" + console.FormatSize(*n) + " so far)"
}
