package policy

import (
	"strings"

	"github.com/bothy-dev/bothy/internal/policy/target"
)

// NoLimit stands for a body of any size.
const NoLimit = -1

// grant is the combined effect of the allow rules of a table.
type grant struct {
	by        *entry // the rule that lets most through; nil: no rule
	byWhole   bool   // by lets everything through, whatever the request
	whole     bool   // some rule does that
	limit     int64  // of the body, by that rule
	websocket bool   // a rule lets WebSocket through
	look      bool   // a rule is marked inspect
	pass      bool   // a rule is marked passthrough
	git       bool   // a rule is about git over SSH

	missed *entry // a rule for this host and port whose conditions do not hold
	near   bool   // missed is about the calls of such a request
	unread *entry // a rule that lets it through if its calls do; the body has not been read
	ended  *entry // a rule for this host and port that has ended
}

// grants collects the rules that let a subject through. If guarded is set, rules for everything do not
// reach private names and special addresses; a project's rules do, because they only narrow.
func (t *table) grants(s *subject, guarded bool) grant {
	var g grant
	asked := s.isRequest()
	for e := range t.rulesAbout(s) {
		switch {
		case !e.onPort(s.port), guarded && s.shields(&e.rule.Target):
		case !e.isLive(s.now):
			g.ended = e
		case e.cond == nil:
			g.countRule(e, true, asked, NoLimit)
			g.pass = g.pass || e.rule.Passthrough
		case !asked:
			g.git = g.git || e.cond.git != nil
			g.countRule(e, false, asked, NoLimit) // some request will match, and be judged
		case s.git != nil && e.cond.admitsGit(s):
			g.countRule(e, false, asked, NoLimit)
		case s.git != nil:
			g.missed = e
		case strings.HasPrefix(s.req.path, e.lead) && e.cond.admits(&s.req):
			g.countRule(e, false, asked, e.bodyLimit())
		case e.calls:
			g.missCalls(e, s)
		case !g.near:
			g.missed = e
		}
	}
	return g
}

// isRequest reports whether the question is about a request, or a git command.
func (s *subject) isRequest() bool { return s.req.Request != nil || s.git != nil }

// countRule counts a rule. asked says that the question is about a request: then all rules that let it through
// are equal.
func (g *grant) countRule(e *entry, whole, asked bool, limit int64) {
	g.look = g.look || e.rule.Inspect
	g.websocket = g.websocket || e.rule.HTTP.WebSocket
	if g.by == nil || g.letsMore(e, whole, asked, limit) {
		g.by, g.byWhole, g.limit = e, whole, limit
	}
	g.whole = g.whole || whole
}

// letsMore reports whether a rule lets more through than the best one so far. The budget is
// compared first, then the body limit.
func (g *grant) letsMore(e *entry, whole, asked bool, limit int64) bool {
	if !asked && whole != g.byWhole {
		return whole
	}
	if mine, best := e.budget.roomFor(), g.by.budget.roomFor(); mine != best {
		return mine > best
	}
	if whole != g.byWhole {
		return whole
	}
	return limit != g.limit && smallerLimit(limit, g.limit) == g.limit
}

// byDefault lets everything through that the default allows.
func (g *grant) byDefault() {
	g.whole, g.byWhole, g.limit = true, true, NoLimit
	if g.by != nil && g.by.budget != nil {
		g.by = nil // that rule does not count
	}
}

// bodyLimit returns the body limit of a conditional rule.
func (e *entry) bodyLimit() int64 {
	if e.cond.MaxBody == 0 {
		return NoLimit
	}
	return e.cond.MaxBody
}

// smallerLimit returns the smaller of two limits.
func smallerLimit(a, b int64) int64 {
	if a == NoLimit || b != NoLimit && b < a {
		return b
	}
	return a
}

// shielded reports whether the default does not reach a name or address.
func (s *subject) shielded() bool {
	if s.name != "" {
		return s.guard
	}
	return s.block != nil
}

// shields reports whether a rule is too wide for a private name or a special address.
func (s *subject) shields(t *target.Target) bool {
	if s.name != "" {
		return s.guard && t.MatchesAll()
	}
	return s.block != nil && !s.block.OpenedBy(t.Prefix, s.addr)
}
