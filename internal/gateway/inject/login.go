package inject

import (
	"encoding/json"
	"mime"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// Endpoint is the place where a server gives tokens: for a login, and to renew one.
type Endpoint struct {
	name string
	port uint16
	path string
}

// NewEndpoint reads a URL. A URL that no server can have gives an empty endpoint.
func NewEndpoint(text string) *Endpoint {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" {
		return &Endpoint{} // no request goes there, and a renewal reports the reason
	}
	e := &Endpoint{name: strings.ToLower(u.Hostname()), port: 443, path: u.EscapedPath()}
	if n, err := strconv.ParseUint(u.Port(), 10, 16); err == nil {
		e.port = uint16(n)
	}
	return e
}

// Is reports whether a target is the endpoint's server.
func (e *Endpoint) Is(to Target) bool {
	return e != nil && e.name != "" && to.Port == e.port && strings.EqualFold(to.Name, e.name)
}

// Answers reports whether a request goes to a place that gives tokens, however its path is spelled.
// It errs on the side of true.
func (e *Endpoint) Answers(r *http.Request, to Target) bool {
	return e.Is(to) && to.Secure && strings.EqualFold(path.Clean("/"+r.URL.Path), path.Clean("/"+e.path))
}

// LendsLogin reports whether a login of the host is lent that is renewed at a server.
func (s *Set) LendsLogin(to Target, now time.Time) bool {
	return s != nil && slices.ContainsFunc(s.loans, func(l *loan) bool { return l.login.Is(to) && l.Captured == "" && l.isLent(now) })
}

// Logins returns the leases of logins whose placeholders will be exchanged in a request: their
// values have to be good.
func (s *Set) Logins(r *http.Request, to Target, now time.Time) (leases []string) {
	if s == nil {
		return nil
	}
	for _, l := range s.loans {
		if l.login == nil {
			continue
		}
		if w, ok := l.findPlaceholder(r); ok && w.objection(r, to, now) == "" {
			leases = append(leases, l.ID)
		}
	}
	return leases
}

// LoginValue returns the value of a lease, if the lease is of a login.
func (s *Set) LoginValue(lease string) wire.Value {
	if l := s.loanOf(lease); l != nil && l.login != nil {
		return wire.Value(l.value)
	}
	return nil
}

// loanOf returns the loan of a lease, or nil.
func (s *Set) loanOf(lease string) *loan {
	for _, l := range s.loans {
		if l.ID == lease {
			return l
		}
	}
	return nil
}

// Renews reports whether a request goes to a place where a lent login is renewed.
func (s *Set) Renews(r *http.Request, to Target, now time.Time) bool {
	if s == nil || r.Method != http.MethodPost || !to.Secure {
		return false
	}
	for _, l := range s.loans {
		if l.login.Is(to) && l.isLent(now) && r.URL.EscapedPath() == l.login.path {
			return true
		}
	}
	return false
}

// Renewal returns the lease for which the body of a renewal request asks for a new token.
func (s *Set) Renewal(contentType string, body []byte, to Target, now time.Time) (*spec.Lease, bool) {
	token := refreshToken(contentType, body)
	if token == "" {
		return nil, false
	}
	for _, l := range s.loans {
		if l.login.Is(to) && l.isLent(now) && l.Renewal == token {
			return &l.Lease, true
		}
	}
	return nil, false
}

// refreshToken reads the token from a form or from JSON.
func refreshToken(contentType string, body []byte) string {
	kind, _, _ := mime.ParseMediaType(contentType)
	if kind == "application/x-www-form-urlencoded" {
		form, err := url.ParseQuery(string(body))
		if err != nil {
			return ""
		}
		return form.Get("refresh_token")
	}
	var object struct {
		Token string `json:"refresh_token"`
	}
	if json.Unmarshal(body, &object) != nil {
		return ""
	}
	return object.Token
}

// SecretOf returns the name of a lease's secret, for people.
func (s *Set) SecretOf(lease string) string {
	if l := s.loanOf(lease); l != nil {
		return l.Secret
	}
	return ""
}
