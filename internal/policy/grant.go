package policy

import "strings"

// NoLimit stands for a body of any size.
const NoLimit = -1

// grant is what the allow rules of a table let through.
type grant struct {
	by        *entry // the rule that lets most through; nil: none
	whole     bool   // it does so whatever the request
	limit     int64  // of the body
	websocket bool   // a rule lets WebSocket through
	look      bool   // a rule is marked inspect
	pass      bool   // a rule is marked passthrough

	missed *entry // a rule for this host and port whose conditions do not hold
	ended  *entry // a rule for this host and port that has ended
}

// grants collects the rules that let a subject through. Guarded, rules for
// everything do not reach private names and special addresses; a project's do,
// because they only ever narrow.
func (t *table) grants(s *subject, guarded bool) grant {
	var g grant
	for e := range t.about(s) {
		switch {
		case !e.onPort(s.port), guarded && s.shields(&e.rule.Target):
		case !e.live(s.now):
			g.ended = e
		case e.cond == nil:
			g.add(e, true, NoLimit)
			g.pass = g.pass || e.rule.Passthrough
		case s.req.Request == nil:
			g.add(e, false, NoLimit) // some request will hold
		case strings.HasPrefix(s.req.path, e.lead) && e.cond.admits(&s.req):
			g.add(e, false, e.limit())
		default:
			g.missed = e
		}
	}
	return g
}

// add counts a rule in.
func (g *grant) add(e *entry, whole bool, limit int64) {
	g.look = g.look || e.rule.Inspect
	g.websocket = g.websocket || e.rule.HTTP.WebSocket
	wider := limit != g.limit && least(limit, g.limit) == g.limit
	if g.by == nil || whole && !g.whole || whole == g.whole && wider {
		g.by, g.whole, g.limit = e, whole, limit
	}
}

// limit is the body a conditional rule lets through.
func (e *entry) limit() int64 {
	if e.cond.MaxBody == 0 {
		return NoLimit
	}
	return e.cond.MaxBody
}

// least gives the smaller of two limits.
func least(a, b int64) int64 {
	if a == NoLimit || b != NoLimit && b < a {
		return b
	}
	return a
}

// shielded tells names and addresses that nobody reaches by a default.
func (s *subject) shielded() bool {
	if s.name != "" {
		return s.guard
	}
	return s.block != nil
}

// shields tells whether a rule is too wide for a private name or a special
// address.
func (s *subject) shields(t *Target) bool {
	if s.name != "" {
		return s.guard && t.wide()
	}
	return s.block != nil && !s.block.opens(t.prefix, s.addr)
}
