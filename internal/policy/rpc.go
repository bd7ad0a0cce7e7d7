package policy

import (
	"slices"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/policy/ascii"
	"github.com/bothy-dev/bothy/spec"
)

// The JSON-RPC calls in a body are texts, in rules and requests alike: a method (tools/list), a tool
// that MCP's method calls (tools/call search_docs), or RPCAnswer.

// RPCAnswer stands for a client's answer to a server's request. Only the pattern RPCAnswer
// covers it; its content is not judged.
const RPCAnswer = "response"

// callMethod is the HTTP method that sends calls.
const callMethod = "POST"

// RPCTool is the method whose tool is judged, too.
const RPCTool = "tools/call"

// IsCallName reports whether a text is a valid name of a method or a tool. It has no spaces, commas,
// asterisks or letters that look like others, so that lists of calls, in rules, commands and logs, have
// one reading.
func IsCallName(s string) bool {
	for i := range len(s) {
		if !ascii.IsAlphanumeric(s[i]) && strings.IndexByte("_-./:@$+~#!", s[i]) < 0 {
			return false
		}
	}
	return s != "" && len(s) <= maxCallName
}

const maxCallName = 128

// MaxCalls is how many calls a body may have, and how many can be asked about at once.
const MaxCalls = 100

// areCalls reports whether the texts are well-formed calls.
func areCalls(calls []string) bool {
	for _, c := range calls {
		method, tool, named := strings.Cut(c, " ")
		if !IsCallName(method) || named != (method == RPCTool) || named && !IsCallName(tool) {
			return false
		}
	}
	return true
}

// CallText lists the calls of a request, each once, for people and for logs. callsOf reads them from a
// log if none was cut off.
func CallText(calls []string) string {
	const most = 400
	list, n := distinct(calls), 0
	for i, c := range list {
		if n += len(c); n > most {
			return strings.Join(append(list[:i:i], "…"), ", ")
		}
	}
	return strings.Join(list, ", ")
}

// callsOf parses the output of CallText. ok is false if something is missing.
func callsOf(text string) ([]string, bool) {
	calls := strings.Split(text, ", ")
	return calls, areCalls(calls)
}

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
	if len(calls) > MaxCalls {
		return Query{}, spec.Errorf(spec.ErrUsage, "%d calls are asked about, %d can be", len(calls), MaxCalls)
	}
	for _, c := range calls {
		if !areCalls([]string{c}) {
			return Query{}, spec.Errorf(spec.ErrUsage, "%s is no call of JSON-RPC", ascii.Quote(c)).
				WithHint(`write a method, or "%s NAME" with the name of a tool`, RPCTool)
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
	return each("rpc", c.RPC, checkCall)
}

// bodyless reports whether MCP listens, or ends a session, by a method.
func bodyless(method string) bool { return method == "GET" || method == "DELETE" }

// checkCall refuses a malformed pattern.
func checkCall(s string) error {
	method, tool, named := strings.Cut(s, " ")
	switch {
	case named && method != RPCTool:
		return spec.Errorf(spec.ErrUsage, "rpc %s has a space", ascii.Quote(s)).WithHint("only behind %s stands a name, that of a tool", RPCTool)
	case !isCallPattern(method) || named && !isCallPattern(tool):
		return spec.Errorf(spec.ErrUsage, "rpc %s is no method of JSON-RPC", ascii.Quote(s)).
			WithHint(`write a method, or "%s NAME" with the name of a tool; either may end in '*'`, RPCTool)
	}
	return nil
}

func isCallPattern(s string) bool {
	lead, open := strings.CutSuffix(s, "*")
	return open && lead == "" || IsCallName(lead)
}

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
		return !slices.ContainsFunc(k.RPC, func(pattern string) bool { return covers(pattern, call) })
	})
}

// isFor reports whether the rule is about the calls of a request.
func (k *cond) isFor(r *judged) bool {
	return r.Method == callMethod && (len(k.paths) == 0 || r.onPath(k.paths))
}

// missCalls notes a rule about calls that does not let a request through, or not yet. A rule about the
// calls of this very request is the one to report.
func (g *grant) missCalls(e *entry, s *subject) {
	if e.cond.awaits(&s.req) {
		g.unread = e
	}
	if near := e.cond.isFor(&s.req); near || !g.near {
		g.missed, g.near = e, near
	}
}

// needs returns the rule that may let a request through once its body is read. It returns nil if another
// rule lets it through, or none may.
func (g *grant) needs() *entry {
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
		return slices.Contains([]string{"jsonrpc", "method", "params"}, stem(p.name))
	})
}

// stem returns a parameter's name as the most lenient servers read it. PHP drops spaces
// before it, ends it at a zero byte, and takes brackets as an index below it.
func stem(name string) string {
	name = strings.TrimLeft(name, " \t\r\n\v\f")
	if i := strings.IndexAny(name, "[.\x00"); i >= 0 {
		name = name[:i]
	}
	return name
}

// covers reports whether a rule's pattern matches a call.
func covers(pattern, call string) bool {
	if pattern == RPCAnswer || call == RPCAnswer {
		return pattern == call
	}
	want, wantTool, one := strings.Cut(pattern, " ")
	have, tool, _ := strings.Cut(call, " ")
	return begins(want, have) && (!one || begins(wantTool, tool))
}

// begins compares a name with a pattern. The text for a '*' must not lead elsewhere,
// because some servers make paths of names.
func begins(pattern, name string) bool {
	lead, open := strings.CutSuffix(pattern, "*")
	if !open {
		return name == pattern
	}
	return strings.HasPrefix(name, lead) && !strings.Contains(name, "..")
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

// distinct returns the calls, each once.
func distinct(calls []string) (list []string) {
	for _, call := range calls {
		if !slices.Contains(list, call) {
			list = append(list, call)
		}
	}
	return list
}
