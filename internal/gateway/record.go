package gateway

import (
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/spec"
)

// log completes a record and passes it on.
func (g *Gateway) log(r spec.NetworkRecord) {
	r.Sandbox = g.conf.Sandbox
	if r.Generation == 0 { // no rule was asked
		r.Generation = g.policy.Load().Generation()
	}
	g.refusals.note(r)
	g.conf.Log(r)
}

// decided copies what a decision says into a record.
func (g *Gateway) decided(r spec.NetworkRecord, d *policy.Decision) spec.NetworkRecord {
	r.Generation, r.Verdict, r.Reason = d.Generation, spec.VerdictAllow, d.Reason()
	if d.Rule != nil {
		r.Rule, r.Source = d.Rule.String(), d.Rule.Source.String()
	}
	if !d.Allowed() {
		r.Verdict = spec.VerdictDeny
		g.advise(&r, d.Suggest())
	}
	return r
}

// advise writes into a record the command that would allow the recorded event.
func (g *Gateway) advise(r *spec.NetworkRecord, s policy.Suggestion) {
	r.Suggest, r.Guessed = s.Command(g.conf.Sandbox), s.Guessed()
}
