package policy

import (
	"slices"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/policy/ascii"
	"github.com/bothy-dev/bothy/internal/policy/rpccall"
	"github.com/bothy-dev/bothy/spec"
)

// callMethod is the HTTP method that sends calls.
const callMethod = "POST"

// ParseCall is ParseQuery for a request with JSON-RPC calls in its body. The default method is POST.
func ParseCall(s, method string, calls []string, now time.Time) (Query, error) {
	if len(calls) == 0 {
		return ParseQuery(s, method, now)
	}
	if !strings.Contains(s, "://") {
		return Query{}, spec.Errorf(spec.ErrUsage, "a call of JSON-RPC belongs to a URL").WithHint("write https://HOST/PATH")
	}
	if method == "" {
		method = callMethod
	}
	q, err := ParseQuery(s, method, now)
	if err != nil {
		return Query{}, err
	}
	if len(calls) > rpccall.Max {
		return Query{}, spec.Errorf(spec.ErrUsage, "%d calls are asked about, %d can be", len(calls), rpccall.Max)
	}
	for _, c := range calls {
		if !rpccall.AreValid([]string{c}) {
			return Query{}, spec.Errorf(spec.ErrUsage, "%s is not a JSON-RPC call", ascii.Quote(c)).
				WithHint(`write a method, or "%s NAME" with the name of a tool`, rpccall.ToolCall)
		}
	}
	q.Request.RPC = calls
	return q, nil
}

// checkRPC refuses malformed patterns of calls, and conditions that do not fit a rule for
// calls.
func (c *Conditions) checkRPC(a Action) error {
	if len(c.RPC) == 0 {
		return nil
	}
	switch {
	case a == Deny:
		return spec.Errorf(spec.ErrUsage, "rpc belongs to rules that allow").WithHint("allow the calls that are wanted: what no rule allows is denied")
	case c.WebSocket:
		return spec.Errorf(spec.ErrUsage, "rpc and websocket exclude each other").WithHint("nothing on a WebSocket is judged")
	case len(c.Methods) > 0 && !slices.Contains(c.Methods, callMethod):
		return spec.Errorf(spec.ErrUsage, "rpc is about the bodies of POST, which methods leaves out")
	}
	for _, m := range c.Methods {
		if m != callMethod && !bodyless(m) {
			return spec.Errorf(spec.ErrUsage, "rpc does not go with method %s", ascii.Quote(m)).
				WithHint("calls are sent by POST; beside it methods may name GET and DELETE, which then have no body")
		}
	}
	return checkEntries("rpc", c.RPC, rpccall.CheckPattern)
}

// bodyless reports whether MCP listens, or ends a session, by a method.
func bodyless(method string) bool { return method == "GET" || method == "DELETE" }

// admitsCalls reports whether the rule allows all calls of a request. An unread body may
// contain any call.
func (k *cond) admitsCalls(r *judged) bool {
	switch {
	case len(k.Queries) == 0 && r.callsByQuery():
		return false
	case bodyless(r.Method):
		return r.Body == 0 && len(r.RPC) == 0
	}
	return len(r.RPC) > 0 && !slices.ContainsFunc(r.RPC, func(call string) bool {
		return !slices.ContainsFunc(k.RPC, func(pattern string) bool { return rpccall.Covers(pattern, call) })
	})
}

// concernsCalls reports whether the rule is about the calls of a request.
func (k *cond) concernsCalls(r *judged) bool {
	return r.Method == callMethod && (len(k.paths) == 0 || r.onPath(k.paths))
}

// missCalls notes a rule about calls that does not let a request through, or not yet. A rule about the
// calls of this very request is the one to report.
func (g *grant) missCalls(e *entry, s *subject) {
	if e.cond.awaits(&s.req) {
		g.unread = e
	}
	if near := e.cond.concernsCalls(&s.req); near || !g.near {
		g.missed, g.near = e, near
	}
}

// unreadRule returns the rule that may let a request through once its body is read. It returns nil if another
// rule lets it through, or none may.
func (g *grant) unreadRule() *entry {
	if g.by != nil || g.whole {
		return nil
	}
	return g.unread
}

// awaits reports whether a request meets all conditions that do not depend on its calls,
// while its body has not been read.
func (k *cond) awaits(r *judged) bool {
	if len(k.RPC) == 0 || r.Method != callMethod || r.RPC != nil || len(k.Queries) == 0 && r.callsByQuery() {
		return false
	}
	rest := *k
	rest.RPC = nil
	return rest.admits(r)
}

// callsByQuery reports whether some server may take a call from the query of a request, or that cannot
// be ruled out.
func (r *judged) callsByQuery() bool {
	params, ok := parseQuery(r.Query)
	return !ok || slices.ContainsFunc(params, func(p param) bool {
		return slices.Contains([]string{"jsonrpc", "method", "params"}, rpccall.ParamStem(p.name))
	})
}

// byCalls reports whether a request was denied by a rule about the calls of such requests, although its
// calls were not examined.
func (d *Decision) byCalls() bool {
	var s subject
	if d.missed == nil || len(d.missed.HTTP.RPC) == 0 || d.query.understand(&s) != CauseNone {
		return false
	}
	// This is broad: servers differ in which paths they take for the rule's.
	k := d.missed.HTTP.compile(Deny)
	return s.req.Method == callMethod && (len(k.paths) == 0 || s.req.nearPath(k.paths))
}

// maxSuggested is how many calls a suggestion may have.
const maxSuggested = 16
