package policy

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/bothy-dev/bothy/internal/policy/ascii"
	"github.com/bothy-dev/bothy/internal/policy/hostname"
	"github.com/bothy-dev/bothy/internal/policy/override"
	"github.com/bothy-dev/bothy/internal/policy/rpccall"
	"github.com/bothy-dev/bothy/internal/policy/urlpath"
)

// Request is the head of an HTTP request as it came from inside. The caller has parsed it strictly;
// nothing in it needs to be normalised.
type Request struct {
	Method string
	Host   string // authority: the Host header, or :authority
	Path   string // raw, without the query
	Query  string // raw, without the '?'
	// Header has the other fields, names in any case.
	Header map[string][]string
	// Body is the length of the body, -1 if it is unknown. In either case a decision's MaxBody must be
	// enforced while the body streams.
	Body int64
	// RPC are all calls of JSON-RPC in the body, if the caller has read the whole body. Nil
	// means that the body has not been read. The caller must send exactly the judged calls.
	RPC []string
	// MethodInBody says that the caller has read the body and found that it asks for another method, as
	// forms do.
	MethodInBody bool
	// Upgrade is the protocol that the request wants to switch to. A WebSocket over HTTP/2
	// (extended CONNECT, RFC 8441) must be passed as GET with "websocket".
	Upgrade string
}

// judged is a request that has passed the checks that no rule can change.
type judged struct {
	*Request
	path      string // normalised
	ambiguous *urlpath.Error
	elsewhere bool   // some servers take it for another path
	loose     string // loosePath(path), made when first needed
	override  overrideState
	websocket bool
}

// overrideState caches whether some servers take a request for another method.
type overrideState uint8

const (
	unseen overrideState = iota
	absent
	present
)

// overridden reports whether some servers take it for another method.
func (r *judged) overridden() bool {
	if r.override == unseen {
		r.override = absent
		if override.Method(r.Header, r.Query, r.MethodInBody) != "" {
			r.override = present
		}
	}
	return r.override == present
}

// readRequest refuses malformed requests and requests for another host.
func (s *subject) readRequest(r *Request) Cause {
	j := &s.req
	j.Request, j.websocket = r, strings.EqualFold(r.Upgrade, "websocket")
	switch {
	case !IsToken(r.Method) || strings.EqualFold(r.Method, "CONNECT"):
		return CauseMethod
	case !s.isAuthority(r.Host):
		return CauseAuthority
	case r.Upgrade != "" && !j.websocket:
		return CauseUpgrade
	case !plainQuery(r.Query):
		return CauseQueryString
	case !rpccall.AreValid(r.RPC):
		return CauseQuestion
	}
	var fault *urlpath.Error
	j.path, fault = r.normalPath()
	if fault != nil && !fault.Ambiguous {
		return CausePath
	}
	j.ambiguous, j.elsewhere = fault, override.Path(r.Header) != ""
	return CauseNone
}

// wholeMethod is the one method for "*".
const wholeMethod = "OPTIONS"

// normalPath returns the request's path in the form that rules are compared with. "OPTIONS *" is about
// the whole server, and so about all paths.
func (r *Request) normalPath() (string, *urlpath.Error) {
	if r.Path == "*" && r.Method == wholeMethod {
		return "", &urlpath.Error{Path: r.Path, Why: "is the server as a whole", Ambiguous: true}
	}
	return urlpath.Normalize(r.Path)
}

// isAuthority reports whether the request is for the host that the flow was opened to. A request for
// another host would reach a server that was never judged (domain fronting).
func (s *subject) isAuthority(host string) bool {
	if host == s.name && host != "" {
		return true
	}
	if rest, ok := strings.CutPrefix(host, "["); ok {
		inner, rest, ok := strings.Cut(rest, "]")
		a, err := netip.ParseAddr(inner)
		return ok && err == nil && s.name == "" && a == s.addr && a.Is6() && s.isPort(rest)
	}
	port := ""
	if i := strings.IndexByte(host, ':'); i >= 0 {
		host, port = host[:i], host[i:]
	}
	if !s.isPort(port) {
		return false
	}
	if s.name == "" {
		a, err := netip.ParseAddr(host)
		return err == nil && a == s.addr
	}
	name, err := hostname.Clean(host)
	return err == nil && name == s.name
}

// isPort reports whether the text after a host is empty or the flow's port.
func (s *subject) isPort(text string) bool {
	return text == "" || text[0] == ':' && text[1:] == strconv.Itoa(int(s.port))
}

// onPath compares to the letter. An ambiguous path matches none, nor does a path that the server may
// replace by another.
func (r *judged) onPath(list []urlpath.Pattern) bool {
	if r.ambiguous != nil || r.elsewhere {
		return false
	}
	for i := range list {
		if list[i].Matches(r.path) {
			return true
		}
	}
	return false
}

// nearPath compares broadly. Such a path matches all.
func (r *judged) nearPath(list []urlpath.Pattern) bool {
	if r.ambiguous != nil || r.elsewhere {
		return true
	}
	if r.loose == "" {
		r.loose = urlpath.Loosen(r.path)
	}
	for i := range list {
		if list[i].MatchesLoosely(r.loose) {
			return true
		}
	}
	return false
}

// mayAsk reports whether all parameters of one of the queries are in the request. A query that cannot be
// read may ask anything, and so may a query that another one replaces.
func (r *judged) mayAsk(queries [][]param) bool {
	have, ok := parseQuery(r.Query)
	if !ok || r.elsewhere {
		return true
	}
	return slices.ContainsFunc(queries, func(want []param) bool {
		for _, p := range want {
			if !slices.Contains(have, p) {
				return false
			}
		}
		return true
	})
}

// header returns the last value of a header and how often it occurs.
func (r *judged) header(name string) (value string, n int) {
	for k, values := range r.Header {
		if strings.EqualFold(k, name) {
			for _, v := range values {
				value, n = v, n+1
			}
		}
	}
	return value, n
}

// hasHeader compares broadly: any occurrence, any element of a list, any case.
func (r *judged) hasHeader(name, want string) bool {
	for k, values := range r.Header {
		if !strings.EqualFold(k, name) {
			continue
		}
		for _, v := range values {
			if want == "*" || strings.Contains(ascii.Fold(v), ascii.Fold(want)) {
				return true
			}
		}
	}
	return false
}

// param is one parameter of a query, decoded, in lower case.
type param struct{ name, value string }

// parseQuery reads a query as the most lenient server would. ok is false if servers would
// disagree; the readable part is returned anyway.
func parseQuery(q string) (list []param, ok bool) {
	ok = true
	for part := range strings.FieldsFuncSeq(q, func(r rune) bool { return r == '&' || r == ';' }) {
		name, value, _ := strings.Cut(part, "=")
		n, ok1 := unescapeQuery(name)
		v, ok2 := unescapeQuery(value)
		ok = ok && ok1 && ok2
		list = append(list, param{n, v})
	}
	return list, ok
}

func unescapeQuery(s string) (string, bool) {
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch c {
		case '+':
			c = ' '
		case '%':
			v, ok := ascii.HexByte(s[i+1:])
			if !ok {
				return "", false
			}
			c, i = v, i+2
		}
		b = append(b, c)
	}
	return ascii.Fold(string(b)), true
}

// plainQuery reports whether a query has no bytes that would end the request line.
func plainQuery(q string) bool {
	for i := range len(q) {
		if q[i] <= ' ' || q[i] > '~' || q[i] == '#' {
			return false
		}
	}
	return true
}
