package spec

import (
	"slices"
	"strings"
)

// Place is the place of a secret in a request.
type Place struct {
	Kind PlaceKind `json:"kind"`
	Name string    `json:"name,omitempty"` // name of the header or the parameter
	User string    `json:"user,omitempty"` // of PlaceBasic; empty: any that the client names
}

// PlaceKind is a kind of place.
type PlaceKind string

// Kinds of places.
const (
	PlaceBearer PlaceKind = "bearer" // Authorization: Bearer VALUE
	PlaceBasic  PlaceKind = "basic"  // the password in Authorization: Basic
	PlaceHeader PlaceKind = "header" // a header whose whole value is the secret
	PlaceQuery  PlaceKind = "query"  // a parameter of the query
	// PlaceAuthorization is PlaceBearer and, with any user, PlaceBasic: the server accepts both, and
	// clients use both.
	PlaceAuthorization PlaceKind = "authorization"
	// PlaceAgent is not a place in a request: the value is the socket of the host's SSH agent, which
	// signs.
	PlaceAgent PlaceKind = "agent"
	// PlaceSignature is the same agent, but it may only sign commits and tags of git.
	PlaceSignature PlaceKind = "signature"
)

// notForSecrets are headers, in small letters, that frame the message, that proxies on the way set or
// remove, or that say how to read the rest. A secret there would not arrive, or would change the meaning
// of the request.
var notForSecrets = []string{
	"host", "connection", "content-length", "transfer-encoding", "upgrade", "te", "trailer", "expect", "keep-alive",
	"proxy-connection", "proxy-authorization", "accept-encoding", "content-encoding", "content-type", "date", "range",
	"if-range", "sec-websocket-key", "sec-websocket-extensions", "sec-websocket-version",
}

// IsAgent reports whether the value is the socket of the host's SSH agent.
func (p Place) IsAgent() bool { return p.Kind == PlaceAgent || p.Kind == PlaceSignature }

// Check refuses a place that cannot hold a secret. It is called when a lease is made, and by code
// that exchanges placeholders. Errors are of class [ErrUsage].
func (p Place) Check() error {
	named := p.Kind == PlaceHeader || p.Kind == PlaceQuery
	switch {
	case !slices.Contains([]PlaceKind{PlaceBearer, PlaceBasic, PlaceHeader, PlaceQuery, PlaceAuthorization, PlaceAgent, PlaceSignature}, p.Kind):
		return Errorf(ErrUsage, "%q is not a place for a secret", p.Kind).WithHint("it is bearer, basic, header, query or authorization")
	case !named && p.Name != "":
		return Errorf(ErrUsage, "place %s has a name, %q", p.Kind, p.Name)
	case p.Kind != PlaceBasic && p.User != "":
		return Errorf(ErrUsage, "place %s has a user, %q", p.Kind, p.User)
	case strings.ContainsFunc(p.User, func(r rune) bool { return r <= ' ' || r > '~' || r == ':' }):
		return Errorf(ErrUsage, "%q is not a user name for basic authentication", p.User)
	case p.Kind == PlaceHeader && (!isPlaceName(p.Name) || slices.Contains(notForSecrets, strings.ToLower(p.Name))):
		return Errorf(ErrUsage, "%q is not a header for a secret", p.Name)
	case p.Kind == PlaceQuery && !isPlaceName(p.Name):
		return Errorf(ErrUsage, "%q is not a parameter for a secret", p.Name)
	}
	return nil
}

// isPlaceName reports whether a word is written the same way everywhere: letters, digits, '-', '_' and
// '.'.
func isPlaceName(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r))
	})
}
