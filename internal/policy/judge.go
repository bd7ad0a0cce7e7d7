package policy

import (
	"cmp"
	"net/netip"

	"github.com/bothy-dev/bothy/internal/policy/specialaddr"
	"github.com/bothy-dev/bothy/internal/policy/target"
)

// judgeSubject decides about a connection or a request: deny beats allow beats default, and then the project
// narrows.
func (p *Policy) judgeSubject(s *subject, d Decision) Decision {
	denied, maybe := p.denied(s)
	if denied != nil {
		return d.denyFor(CauseRule, denied)
	}
	g := p.allow.grants(s, true)
	if p.open && !s.shielded() {
		g.byDefault() // whatever conditions rules have
	}
	if g.by == nil && !g.whole && g.unread == nil {
		return d.refuse(s, &g)
	}
	if _, b := p.inside(s); b != nil && s.name == "" { // a name's address is judged when it is dialled
		return d.blocked(b)
	}
	h := grant{whole: true, limit: NoLimit}
	if p.narrow != nil {
		if h = p.narrow.grants(s, false); h.by == nil && h.unread == nil {
			return d.denyFor(CauseProject, nil)
		}
	}
	if e := cmp.Or(g.unreadRule(), h.unreadRule()); e != nil {
		return d.unread(e)
	}
	must := maybe || !g.whole || !h.whole
	if s.req.websocket && must && !g.websocket {
		return d.denyFor(CauseWebSocket, nil)
	}
	d = d.allowBy(g.by)
	if g.by != nil && (g.byWhole || s.isRequest()) { // otherwise each request has its own rule
		d.Budget = g.by.budget
	}
	d.MaxBody = smallerLimit(g.limit, h.limit)
	d.Inspection, d.Git = p.inspection(must, &g, &h), g.git || h.git
	return d
}

// denied finds a deny rule that applies. maybe says that some requests are denied, so that the
// connection must be inspected.
func (p *Policy) denied(s *subject) (by *entry, maybe bool) {
	for e := range p.deny.rulesAbout(s) {
		switch {
		case !e.counts(s):
		case e.cond == nil, s.req.Request != nil && e.cond.denies(&s.req):
			return e, false
		case s.git != nil: // conditions of HTTP hold where they cannot be judged
			return e, false
		default:
			maybe = true
		}
	}
	if s.name == "" {
		by = p.deniedAddr(s, false)
	}
	return by, maybe
}

// deniedAddr finds a rule that denies an IPv4 address inside the subject's address or, if
// itself is set, that address itself. A deny rule with conditions counts as a match,
// because this stage has no request to judge.
func (p *Policy) deniedAddr(s *subject, itself bool) *entry {
	if itself {
		for e := range p.deny.aboutAddr(s.addr) {
			if e.counts(s) {
				return e
			}
		}
	}
	list, n := specialaddr.EmbeddedPair(s.addr)
	for _, v4 := range list[:n] {
		for e := range p.deny.aboutAddr(v4) {
			if e.counts(s) {
				return e
			}
		}
	}
	return nil
}

// judgeAddress decides about the resolved address of a name. The name must be allowed. The address must not be
// denied, and a special address must be opened by its own rule.
func (p *Policy) judgeAddress(s *subject, d Decision) Decision {
	if d = p.judgeSubject(s, d); !d.Allowed() {
		return d
	}
	if e := p.deniedAddr(s, true); e != nil {
		return d.denyFor(CauseRule, e)
	}
	if s.block != nil && !p.opensBlock(s.block, s.addr, s) {
		return d.blocked(s.block)
	}
	if _, b := p.inside(s); b != nil {
		return d.blocked(b)
	}
	return d
}

// inside finds a special IPv4 address inside an IPv6 address that no rule opens: a translator on the way
// would lead there.
func (p *Policy) inside(s *subject) (netip.Addr, *specialaddr.Range) {
	list, n := specialaddr.EmbeddedPair(s.addr)
	for _, v4 := range list[:n] {
		if b := specialaddr.Find(v4); b != nil && !p.opensBlock(b, v4, s) {
			return v4, b
		}
	}
	return netip.Addr{}, nil
}

// opensBlock reports whether a rule without conditions is within the block and covers the address. If a name
// is dialled for a git command, a rule that lets the command through counts, too.
func (p *Policy) opensBlock(b *specialaddr.Range, a netip.Addr, s *subject) bool {
	for e := range p.allow.aboutAddr(a) {
		if (e.cond == nil || s.git != nil && s.name != "" && e.cond.admitsGit(s)) && e.counts(s) && b.OpenedBy(e.rule.Target.Prefix, a) {
			return true
		}
	}
	return false
}

// lookup decides about a name alone: whether it may be reached at any port. A rule that spells it out
// comes first: such names are not counted.
func (p *Policy) lookup(s *subject, d Decision) Decision {
	for e := range p.deny.rulesAbout(s) {
		if e.cond == nil && e.port == 0 && e.isLive(s.now) {
			return d.denyFor(CauseRule, e)
		}
	}
	no := d.denyFor(CauseNoRule, nil)
	open := p.open && !s.shielded()
	for e := range p.allow.rulesAbout(s) {
		switch {
		case s.shields(&e.rule.Target):
		case open && e.rule.Target.Kind != target.Exact: // the default also allows the lookup
		case !e.isLive(s.now):
			no.ended = e.rule
		default:
			if no = p.somePort(s, d, e); no.Allowed() {
				return no
			}
		}
	}
	if open {
		return p.somePort(s, d, nil)
	}
	return no
}

// somePort looks for a port of an allow rule (nil is the default) that the project lists too and that no
// rule denies.
func (p *Policy) somePort(s *subject, d Decision, e *entry) Decision {
	port := uint16(0)
	if e != nil {
		port = e.port
	}
	if p.narrow == nil {
		return p.atPort(s, d, e, port)
	}
	no := d.denyFor(CauseProject, nil)
	for n := range p.narrow.rulesAbout(s) {
		if !n.isLive(s.now) || port != 0 && !n.onPort(port) {
			continue
		}
		if no = p.atPort(s, d, e, max(port, n.port)); no.Allowed() {
			return no
		}
	}
	return no
}

// atPort decides whether a deny rule denies the port. "Any port" stays possible if only single ports are
// denied.
func (p *Policy) atPort(s *subject, d Decision, e *entry, port uint16) Decision {
	if port != 0 {
		at := *s
		at.port = port
		if by, _ := p.denied(&at); by != nil {
			return d.denyFor(CauseRule, by)
		}
	}
	return d.allowBy(e)
}

// inspection returns how far a connection must be inspected. Conditions win over passthrough: an unseen
// request cannot be denied.
func (p *Policy) inspection(must bool, g, h *grant) Inspection {
	switch {
	case must:
		return InspectMust
	case g.pass:
		return InspectNever
	case g.look || h.look:
		return InspectMust
	case p.inspectAll:
		return InspectHTTP
	}
	return InspectNo
}
