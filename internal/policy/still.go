package policy

import (
	"net/netip"
	"time"

	"github.com/bothy-dev/bothy/internal/policy/hostname"
)

// Flow describes an active connection, as far as it matters for letting it go on.
type Flow struct {
	Name   string     // the name it was opened to; empty for a literal address
	Addr   netip.Addr // its address; invalid: it is not dialled yet
	Port   uint16
	Asked  string      // the name its TLS client asks for, if it was opened to a literal address
	Seen   bool        // every request on it is judged
	Active *Request    // the active request, if any
	Git    *GitRequest // the active git command, if any
}

// Still decides whether a flow may go on under this policy. It checks whether the flow
// would be let through if it began now. If some of its requests must now be judged, it
// checks that the flow is inspected. Call it for every flow under a new generation, and at
// NextExpiry. A flow that may not go on has to be closed, not drained.
func (p *Policy) Still(f Flow, now time.Time) Decision {
	q := Query{Stage: StageConnect, Name: f.Name, Addr: f.Addr, Port: f.Port, Now: now}
	if f.Name != "" && f.Addr.IsValid() {
		q.Stage, q.Git = StageDial, f.Git
	}
	d := p.Decide(q)
	if !d.Allowed() {
		return d
	}
	if f.Asked != "" {
		if no := p.Asks(f.Asked, f.Port, now); !no.Allowed() {
			return no
		}
	}
	if d.Inspection == InspectMust && !f.Seen {
		return d.denyFor(CauseInspection, nil)
	}
	switch {
	case !f.Seen:
		return d
	case f.Active != nil:
		q.Stage, q.Request = StageRequest, f.Active
	case f.Git != nil:
		q.Stage, q.Git = StageGit, f.Git
	default:
		return d
	}
	if f.Name != "" {
		q.Addr = netip.Addr{}
	}
	return p.Decide(q)
}

// Asks decides whether a TLS client at a literal address, which was let through, may ask
// for a name. Of the rules about names only deny rules count there. A deny rule for some
// requests denies the name, because each request must be for the address. A malformed name
// is let through if no rule denies names.
func (p *Policy) Asks(name string, port uint16, now time.Time) Decision {
	q := Query{Stage: StageConnect, Name: name, Port: port, Now: now}
	d := Decision{Generation: p.generation, query: q} // rules that allow cannot complete a command
	clean, err := hostname.Clean(name)
	s := subject{name: clean, port: port, now: now}
	if err != nil {
		for e := range p.deny.walkNames {
			if e.counts(&s) {
				return d.denyFor(CauseName, nil)
			}
		}
		return d.allowBy(nil)
	}
	for e := range p.deny.rulesAbout(&s) {
		if e.counts(&s) {
			return d.denyFor(CauseRule, e)
		}
	}
	return d.allowBy(nil)
}
