package inject

import (
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/spec"
)

// Use is a lent secret in a sent request.
type Use struct {
	Lease  string // its ID
	Secret string
	Place  spec.PlaceKind
}

// Uses are all the uses in a request.
type Uses []Use

// Request turns a request from inside into the one that is sent to a target. It exchanges
// placeholders, removes other credentials where a lease is bound to the target, and has the body
// and its trailers scanned while they are sent. The request must be the one that is sent on, with
// its own header and URL.
//
// The error is a *[Refused], and so may be errors of reading the body. After such an error no part
// of the request may be sent on.
func (s *Set) Request(r *http.Request, to Target, now time.Time) (Uses, error) {
	if s == nil {
		return nil, nil
	}
	list := s.findSwaps(r)
	for _, w := range list {
		if why := w.objection(r, to, now); why != "" {
			return nil, w.refuse(w.placeText(), why)
		}
	}
	why := func(l *loan) string { return l.elsewhere(to, now) }
	if err := s.judgeHead(r, list, why); err != nil {
		return nil, err
	}
	for name := range r.Header {
		if strings.EqualFold(name, "Sec-WebSocket-Extensions") { // compressed messages cannot be inspected
			delete(r.Header, name)
		}
	}
	if s.hasHost(to) {
		stripOwn(r, list)
	}
	s.scanBody(r, why, func(l *loan) bool { return to.Secure && l.isBound(to, now) })
	return exchange(r, list), nil
}

// stripOwn removes all parts that only the client's own credentials can be in.
func stripOwn(r *http.Request, list []swap) {
	stripHeader(r.Header)
	r.URL.RawQuery = rewriteQuery(r.URL.RawQuery, list)
	r.URL.User = nil
	r.Trailer = nil
}

// exchange puts the values into the header.
func exchange(r *http.Request, list []swap) Uses {
	var uses Uses
	for _, w := range list {
		if w.header != "" {
			r.Header[w.header] = []string{w.text}
		}
		uses = append(uses, Use{Lease: w.ID, Secret: w.Secret, Place: w.Place.Kind})
	}
	return uses
}

// objection returns why a placeholder in its place is not exchanged.
func (l *loan) objection(r *http.Request, to Target, now time.Time) string {
	if !to.Secure || !l.isBound(to, now) || !l.isLent(now) {
		return l.elsewhere(to, now)
	}
	if strings.EqualFold(r.Method, http.MethodTrace) {
		return "TRACE would send it back"
	}
	q := to.newQuery(now)
	q.Stage = policy.StageRequest
	called := r.Host
	if to.Local {
		called = netip.AddrPortFrom(to.Addr, to.Port).String()
	}
	q.Request = &policy.Request{
		Method: r.Method, Host: called, Path: r.URL.EscapedPath(), Query: r.URL.RawQuery,
		Header: r.Header, Body: -1, Upgrade: r.Header.Get("Upgrade"),
	}
	if r.URL.Opaque != "" {
		return "its lease is not for such a request"
	}
	switch d := l.rules.Decide(q); {
	case d.Allowed():
		return ""
	case d.Cause == policy.CauseRequest:
		return "its lease is not for this method and path"
	default:
		return d.Reason()
	}
}

// elsewhere returns why a placeholder in a request to a target is not exchanged, except possibly in
// one place.
func (l *loan) elsewhere(to Target, now time.Time) string {
	switch {
	case l.taken && l.login.Is(to):
		return l.whyOver(now)
	case !l.isBound(to, now):
		return "its lease is only for " + l.hosts
	case !to.Secure:
		return "it is exchanged over TLS only"
	case !l.isLent(now):
		return l.whyOver(now)
	}
	return "it belongs, once, into " + l.placeName()
}

// placeName returns the lease's place, for people.
func (l *loan) placeName() string {
	switch l.Place.Kind {
	case spec.PlaceBearer:
		return "Authorization: Bearer"
	case spec.PlaceBasic:
		return "Authorization: Basic, as the password"
	case spec.PlaceAuthorization:
		return "Authorization, as a bearer's token or as the password"
	case spec.PlaceHeader:
		return "the header " + l.Place.Name
	}
	return "the parameter " + l.Place.Name + " of the query"
}

// placeText returns where a swap was found, for people.
func (w *swap) placeText() string {
	if w.header == "" {
		return "query"
	}
	return "header " + w.header
}

// judgeHead refuses placeholders in the head of a request, except where they are exchanged.
func (s *Set) judgeHead(r *http.Request, list []swap, why func(*loan) string) error {
	var t text
	t.addPart("method", r.Method)
	t.addFolded("host", r.Host)
	t.addFolded("host", r.URL.Host)
	t.decoded("path", r.URL.EscapedPath(), r.URL.Path)
	t.addPart("path", r.URL.Opaque)
	t.addPart("URL", r.URL.User.String())
	query := without(r.URL.RawQuery, list)
	t.decoded("query", query, unescape(query))
	for name, values := range r.Header {
		if w := inHeader(list, name); w != nil {
			t.addPart("header "+name, w.rest)
			continue
		}
		t.header("header", name, values)
	}
	return t.judgeText(s, why)
}

// scanBody scans the body while it is sent, and the trailers after it. In a body a placeholder may go
// unchanged to its own host: an agent that has printed its environment sends it to its model with every
// later request.
func (s *Set) scanBody(r *http.Request, why func(*loan) string, fine func(*loan) bool) {
	if r.Body == nil || r.Body == http.NoBody {
		return
	}
	scan := func() *Scanner {
		n := s.scanner("body", why)
		n.fine = fine
		return n
	}
	b := &body{ReadCloser: r.Body, scan: scan(), trailer: func() error {
		var t text
		for name, values := range r.Trailer {
			t.header("trailer", name, values)
		}
		return t.judgeText(s, why)
	}}
	r.Body, r.GetBody = b, nil
	if c := coding(r.Header); c == "gzip" || c == "deflate" {
		r.Body = &inflated{body: b, coding: c, scan: scan()}
	}
}
