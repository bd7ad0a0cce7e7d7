// Package learn proposes rules from the refusals in a network log.
package learn

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/policy/gitrepo"
	"github.com/bothy-dev/bothy/internal/policy/rpccall"
	"github.com/bothy-dev/bothy/internal/policy/specialaddr"
	"github.com/bothy-dev/bothy/spec"
)

// Proposal is a rule that would allow a refused request or connection, and nothing else. The user must
// decide whether it should be allowed, because the agent in a sandbox can ask for anything.
type Proposal struct {
	Rule  policy.Rule
	Count int64     // how often it was refused
	Last  time.Time // when last
	Note  string    // the risk to weigh before

	suggestion policy.Suggestion
}

// Command returns the command that would add the rule to a sandbox's own rules.
func (p *Proposal) Command(sandbox string) string { return p.suggestion.Command(sandbox) }

// Learner turns refusals into proposals.
type Learner struct {
	policy *policy.Policy
	now    time.Time
	found  map[string]*Proposal
	inner  bool // a refusal was about the sandbox's own network
}

// New returns a learner that judges refusals by today's rules: a refusal that they allow needs no
// proposal.
func New(p *policy.Policy, now time.Time) *Learner {
	return &Learner{policy: p, now: now, found: map[string]*Proposal{}}
}

// See considers a network record.
func (l *Learner) See(r *spec.NetworkRecord) {
	if r.Verdict != spec.VerdictDeny || r.Direction == spec.DirectionIn || r.Secret != "" || r.IsPacket() {
		return // no rule would let it through, or one must not
	}
	q := l.queryFrom(r)
	d := l.policy.Decide(q)
	if d.Allowed() {
		if d.Inspection == policy.InspectMust || d.Inspection == policy.InspectHTTP {
			l.seeForeign(r, &q)
		}
		return
	}
	l.inner = l.inner || d.Special == &specialaddr.Inner
	s := d.Suggest()
	rule, ok := s.Rule()
	if !ok || len(s.Then) > 0 || d.Cause == policy.CauseRequest && len(rule.HTTP.Paths)+len(rule.HTTP.Git) == 0 {
		return // a proposal for an incomplete path would allow every path
	}
	if d.Cause == policy.CauseSpecial {
		s.Note = "it is " + d.Special.What
	}
	l.propose(&rule, &s, r)
}

// seeForeign proposes to pass a connection through that was refused because it does not
// speak HTTP, if the record suggested that. Other refused traffic that today's rules allow
// needs no proposal.
func (l *Learner) seeForeign(r *spec.NetworkRecord, q *policy.Query) {
	if r.Event != spec.NetworkFlow || r.Suggest == "" {
		return
	}
	s := l.policy.Unseen(*q)
	rule, err := policy.ParseRule(policy.Allow, q.Target())
	if err != nil || s.Command(r.Sandbox) != r.Suggest {
		return
	}
	rule.Passthrough, rule.MaxUpload = true, s.MaxUpload
	s.Note = "it does not speak HTTP, so the gateway cannot see its content or its real recipient"
	l.propose(&rule, &s, r)
}

// propose counts a refusal that a rule would have allowed.
func (l *Learner) propose(rule *policy.Rule, s *policy.Suggestion, r *spec.NetworkRecord) {
	p := l.found[rule.String()]
	if p == nil {
		p = &Proposal{Rule: *rule, Note: s.Note, suggestion: *s}
		l.found[rule.String()] = p
	}
	if s.Note == "" {
		p.Note = "" // the client has connected since it first looked the name up
	}
	p.Count += max(r.Count, 1)
	if r.Time.After(p.Last) {
		p.Last = r.Time
	}
}

// queryFrom turns a record into a question.
func (l *Learner) queryFrom(r *spec.NetworkRecord) policy.Query {
	q := policy.Query{Stage: policy.StageConnect, Name: r.Name, Addr: r.Addr, Port: r.Port, Now: l.now}
	switch {
	case r.Event == spec.NetworkRequest && r.Protocol == spec.ProtocolSSH:
		q.Stage, q.Git = policy.StageGit, &policy.GitRequest{Service: r.Method, Repository: r.Path, User: cmp.Or(r.User, gitrepo.DefaultUser)}
		if r.Name != "" {
			q.Addr = netip.Addr{}
		}
	case r.Event == spec.NetworkRequest:
		q.Stage, q.Request = policy.StageRequest, &policy.Request{Method: r.Method, Host: authority(r), Path: r.Path, Body: r.Body}
		if r.RPC != "" {
			q.Request.RPC, _ = rpccall.ParseText(r.RPC) // an incomplete list of calls cannot be understood
		}
		if r.Name != "" {
			q.Addr = netip.Addr{} // a request does not depend on the address
		}
	case r.Port == 0:
		q.Stage = policy.StageLookup
	case r.Name != "" && r.Addr.IsValid():
		q.Stage = policy.StageDial
	}
	return q
}

// authority returns the Host that a request must have had to reach a rule.
func authority(r *spec.NetworkRecord) string {
	if r.Name == "" {
		return netip.AddrPortFrom(r.Addr, r.Port).String()
	}
	return fmt.Sprintf("%s:%d", r.Name, r.Port)
}

// Inner reports whether a refused record was about the sandbox's own network, such as a port of the
// gateway. No rule is about that.
func (l *Learner) Inner() bool { return l.inner }

// Proposals returns the proposals, the most wanted first.
func (l *Learner) Proposals() []Proposal {
	list := make([]Proposal, 0, len(l.found))
	for _, p := range l.found {
		list = append(list, *p)
	}
	slices.SortFunc(list, func(a, b Proposal) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Rule.String(), b.Rule.String()))
	})
	return list
}
