package policy

import (
	"maps"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/policy/ascii"
	"github.com/bothy-dev/bothy/internal/policy/urlpath"
	"github.com/bothy-dev/bothy/spec"
)

// Conditions restrict a rule to some HTTP requests, or to git over SSH. An empty field asks nothing. A
// list asks for any one of its entries. All fields must hold.
//
// An allow rule is read to the letter. A deny rule is read broadly: it ignores the case of letters,
// parameters after ';' and a slash at the end of a path, and it holds where it cannot be judged.
type Conditions struct {
	Methods []string // exact, in capitals: GET
	Paths   []string // patterns of the normalised path: /repos/acme/**
	// Queries are query strings without the '?'. To allow, the whole query must be one of
	// them, byte for byte. To deny, all parameters of one must be among the request's, in
	// any order and spelling. The empty string means "without a query"; only an allow rule
	// can ask for it.
	Queries []string
	// Headers are values by lower-case name; "*" is any value. To allow, the header must occur once; to
	// deny, one occurrence suffices.
	Headers map[string]string
	// MaxBody bounds the body that an allow rule admits, in bytes; 0 means unlimited.
	MaxBody int64
	// RPC are the JSON-RPC calls that an allow rule admits in the bodies of POST: methods, or RPCTool
	// followed by a tool, each exact or with '*' at its end. Every call of a body must be among them.
	// The rule admits GET and DELETE only if Methods has these, and without a body.
	RPC []string
	// WebSocket lets an allow rule admit an upgrade to WebSocket although the host has HTTP
	// conditions. Traffic after the upgrade is not judged.
	WebSocket bool
	// Git are patterns of repositories: acme/app. An allow rule with it lets git over SSH
	// through, and nothing else: no other SSH, no HTTP. Without Push it fetches.
	Git  []string
	Push bool
	// User is the account that git logs in to at the server; empty means GitUser. On a
	// plain server, the same repository name in another account is another repository.
	User string
}

// IsEmpty reports whether every request meets the conditions.
func (c *Conditions) IsEmpty() bool {
	return len(c.Methods) == 0 && len(c.Paths) == 0 && len(c.Queries) == 0 && len(c.Headers) == 0 && c.MaxBody == 0 && len(c.RPC) == 0 && len(c.Git) == 0
}

// checkFor refuses conditions that could never hold or would hold too often.
func (c *Conditions) checkFor(a Action) error {
	if a == Deny && (c.MaxBody != 0 || c.WebSocket) {
		return spec.Errorf(spec.ErrUsage, "max_body and websocket belong to rules that allow")
	}
	if c.MaxBody < 0 {
		return spec.Errorf(spec.ErrUsage, "max_body is negative")
	}
	if err := c.checkGit(a); err != nil {
		return err
	}
	if err := checkEntries("method", c.Methods, checkMethod); err != nil {
		return err
	}
	if err := checkEntries("path", c.Paths, func(s string) error { _, err := urlpath.Parse(s); return err }); err != nil {
		return err
	}
	if err := checkEntries("query", c.Queries, func(s string) error { return checkQuery(a, s) }); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		if err := checkHeader(name, c.Headers[name]); err != nil {
			return err
		}
	}
	return c.checkRPC(a)
}

// checkEntries checks the entries of a list, and refuses duplicates.
func checkEntries(what string, list []string, check func(string) error) error {
	for i, s := range list {
		if slices.Contains(list[:i], s) {
			return spec.Errorf(spec.ErrUsage, "%s %s stands twice", what, ascii.Quote(s))
		}
		if err := check(s); err != nil {
			return err
		}
	}
	return nil
}

func checkMethod(m string) error {
	switch {
	case !IsToken(m):
		return spec.Errorf(spec.ErrUsage, "%s is not an HTTP method", ascii.Quote(m))
	case m == "ANY":
		return spec.Errorf(spec.ErrUsage, "ANY is not an HTTP method").WithHint("leave the methods out for any method")
	case m == "CONNECT":
		return spec.Errorf(spec.ErrUsage, "CONNECT is never let through: it opens a tunnel")
	case strings.ToUpper(m) != m:
		return spec.Errorf(spec.ErrUsage, "method %s is not in capitals", ascii.Quote(m)).
			WithHint("methods are compared exactly: write %s", strings.ToUpper(m))
	}
	return nil
}

func checkQuery(a Action, q string) error {
	switch {
	case q == "" && a == Deny:
		return spec.Errorf(spec.ErrUsage, "an empty query denies nothing")
	case strings.HasPrefix(q, "?"):
		return spec.Errorf(spec.ErrUsage, "query %s begins with '?'", ascii.Quote(q)).WithHint("write what follows the '?'")
	case !plainQuery(q):
		return spec.Errorf(spec.ErrUsage, "query %s has a character that must be escaped", ascii.Quote(q))
	case a == Deny:
		if _, ok := parseQuery(q); !ok {
			return spec.Errorf(spec.ErrUsage, "query %s cannot be read", ascii.Quote(q))
		}
	}
	return nil
}

// credentials are the headers that authenticate a client.
var credentials = []string{"authorization", "proxy-authorization", "cookie", "x-api-key", "x-goog-api-key"}

func checkHeader(name, value string) error {
	switch {
	case !IsToken(name) || strings.ToLower(name) != name:
		return spec.Errorf(spec.ErrUsage, "header %s is not a lower-case header name", ascii.Quote(name))
	case slices.Contains([]string{"host", "connection", "content-length", "transfer-encoding", "upgrade"}, name):
		return spec.Errorf(spec.ErrUsage, "header %s frames the request and cannot be a condition", name)
	case value == "":
		return spec.Errorf(spec.ErrUsage, "header %s has no value", name).WithHint(`write "*" for any value`)
	case slices.Contains(credentials, name) && value != "*":
		return spec.Errorf(spec.ErrUsage, "header %s holds a secret, and rules are told to the sandbox and in logs", name).WithHint(`write "*" for any value, and lend it with "bothy secret lease"`)
	case strings.TrimSpace(value) != value || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }):
		return spec.Errorf(spec.ErrUsage, "header %s: value %s has a character that cannot be compared", name, ascii.Quote(value))
	}
	return nil
}

// IsToken reports whether a text is a token of RFC 9110, the form of methods and header names.
func IsToken(s string) bool {
	for i := range len(s) {
		if !ascii.IsAlphanumeric(s[i]) && strings.IndexByte("!#$%&'*+-.^_`|~", s[i]) < 0 {
			return false
		}
	}
	return s != ""
}

// cond is Conditions prepared for comparison.
type cond struct {
	Conditions
	paths   []urlpath.Pattern
	queries [][]param // of a deny rule
	git     *gitCond  // nil: the rule is about HTTP
}

// compile returns nil for conditions that every request meets.
func (c Conditions) compile(a Action) *cond {
	k := &cond{Conditions: c, git: c.compileGit()}
	for _, s := range c.Paths {
		p, err := urlpath.Parse(s)
		if err != nil || p.IsEverything() { // checked before, so no error can occur
			k.Conditions.Paths, k.paths = nil, nil
			break
		}
		if a == Deny {
			p = p.Loosened()
		}
		k.paths = append(k.paths, p)
	}
	if k.IsEmpty() {
		return nil
	}
	if len(c.RPC) > 0 && len(c.Methods) == 0 {
		k.Methods = []string{callMethod}
	}
	if a == Deny {
		for _, q := range c.Queries {
			params, _ := parseQuery(q)
			k.queries = append(k.queries, params)
		}
	}
	return k
}

// admits reports whether a request meets the conditions of an allow rule.
func (k *cond) admits(r *judged) bool {
	switch {
	case k.git != nil:
		return false // it lets no HTTP through
	case len(k.Methods) > 0 && (!slices.Contains(k.Methods, r.Method) || r.overridden()):
		return false // an override makes the server see another method
	case len(k.paths) > 0 && !r.onPath(k.paths):
		return false
	case len(k.Queries) > 0 && (r.elsewhere || !slices.Contains(k.Queries, r.Query)):
		return false
	case k.MaxBody > 0 && r.Body > k.MaxBody:
		return false
	case r.websocket && !k.WebSocket:
		return false
	}
	for name, want := range k.Headers {
		if v, n := r.header(name); n != 1 || want != "*" && v != want {
			return false
		}
	}
	return len(k.RPC) == 0 || k.admitsCalls(r)
}

// denies reports whether a request meets the conditions of a deny rule, or may meet them as some server
// reads it.
func (k *cond) denies(r *judged) bool {
	switch {
	case len(k.Methods) > 0 && !containsFold(k.Methods, r.Method) && !r.overridden():
		return false // with an override any method may be meant
	case len(k.paths) > 0 && !r.nearPath(k.paths):
		return false
	case len(k.queries) > 0 && !r.mayAsk(k.queries):
		return false
	}
	for name, want := range k.Headers {
		if !r.hasHeader(name, want) {
			return false
		}
	}
	return true
}

func containsFold(list []string, s string) bool {
	return slices.ContainsFunc(list, func(t string) bool { return strings.EqualFold(s, t) })
}
