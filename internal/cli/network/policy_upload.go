package network

import (
	"slices"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/records"
	"github.com/bothy-dev/bothy/spec"
)

// uploads are the bytes that a sandbox has sent under rules with a limit. It is nil without a
// sandbox, or without such a rule.
type uploads []spec.Upload

// sentBy reads the uploads if a rule limits them. sb may be nil.
func sentBy(e *engine.Engine, sb *spec.Sandbox, p *policy.Policy) (uploads, error) {
	if sb == nil || !slices.ContainsFunc(p.Rules(), func(r policy.Rule) bool { return r.MaxUpload > 0 }) {
		return nil, nil
	}
	list, err := records.Uploads(e.Store, sb)
	if err == nil && list == nil {
		list = uploads{}
	}
	return list, err
}

// sentUnder returns the bytes sent under rules with a target.
func (u uploads) sentUnder(target string) int64 {
	i := slices.IndexFunc(u, func(o spec.Upload) bool { return o.Target == target })
	if i < 0 {
		return 0
	}
	return u[i].Bytes
}

// sentByRule is by for a rule, and nil if the rule has no limit.
func (u uploads) sentByRule(r *policy.Rule) *int64 {
	if u == nil || r.MaxUpload == 0 {
		return nil
	}
	n := u.sentUnder(r.Target.String())
	return &n
}

// explain formats an explanation, with the state of the upload limit.
func (u uploads) explain(x *policy.Explanation, sandbox string) string {
	b := x.Decision.Budget
	if u == nil || b == nil {
		return x.Text(sandbox)
	}
	n := u.sentUnder(b.Target)
	if n >= b.Limit {
		x.Decision = x.Decision.UsedUp(n)
	}
	return x.Text(sandbox) + "  so far it let out " + spec.FormatSize(n) + "\n"
}

// sentText formats the bytes sent, to follow a rule.
func sentText(n *int64) string {
	if n == nil {
		return ""
	}
	return " (" + spec.FormatSize(*n) + " so far)"
}
