package inject

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"

	"github.com/bothy-dev/bothy/spec"
)

// swap is an exchange that will be made.
type swap struct {
	*loan
	header string // the key in the request's header; empty: the query
	text   string // the new text of the header or the parameter
	index  int    // of the parameter
	rest   string // the other text of the client in this place
}

// findSwaps finds the placeholders that are in their leases' places.
func (s *Set) findSwaps(r *http.Request) []swap {
	var list []swap
	for _, l := range s.loans {
		if w, ok := l.findPlaceholder(r); ok {
			list = append(list, w)
		}
	}
	return list
}

// findPlaceholder looks for the loan's placeholder in its place.
func (l *loan) findPlaceholder(r *http.Request) (swap, bool) {
	if l.Place.Kind == spec.PlaceQuery {
		return l.inQuery(r.URL.RawQuery)
	}
	name := l.Place.Name
	if l.Place.Kind != spec.PlaceHeader {
		name = "Authorization"
	}
	key, value, ok := onlyValue(r.Header, name)
	if !ok {
		return swap{}, false
	}
	w := swap{loan: l, header: key}
	switch l.Place.Kind {
	case spec.PlaceBearer:
		w.text, ok = l.bearer(value)
	case spec.PlaceBasic:
		w.text, w.rest, ok = l.swapBasic(value)
	case spec.PlaceAuthorization:
		if w.text, ok = l.bearer(value); !ok {
			w.text, w.rest, ok = l.swapBasic(value)
		}
	default:
		w.text, ok = l.value, value == l.Placeholder
	}
	return w, ok
}

// onlyValue returns the value of a header that occurs once.
func onlyValue(h http.Header, name string) (key, value string, ok bool) {
	n := 0
	for k, values := range h {
		if strings.EqualFold(k, name) {
			for _, v := range values {
				key, value, n = k, strings.TrimSpace(v), n+1
			}
		}
	}
	return key, value, n == 1
}

// bearer also accepts the scheme that GitHub had before it.
func (l *loan) bearer(value string) (string, bool) {
	scheme, rest, _ := strings.Cut(value, " ")
	known := strings.EqualFold(scheme, "bearer") || strings.EqualFold(scheme, "token")
	return scheme + " " + l.value, known && strings.TrimSpace(rest) == l.Placeholder
}

// swapBasic exchanges the password. If any user will do, it also exchanges a user without a password.
func (l *loan) swapBasic(value string) (text, user string, ok bool) {
	scheme, rest, _ := strings.Cut(value, " ")
	if !strings.EqualFold(scheme, "basic") {
		return "", "", false
	}
	decoded, ok := decodeBasic(strings.TrimSpace(rest))
	user, password, pair := strings.Cut(decoded, ":")
	encode := func(user, password string) string {
		return scheme + " " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
	}
	switch {
	case !ok || !pair:
		return "", "", false
	case l.Place.User != "":
		return encode(l.Place.User, l.value), user, password == l.Placeholder
	case user == l.Placeholder && (password == "" || password == "x-oauth-basic"):
		return encode(l.value, password), "", true
	case user == l.Placeholder:
		return encode(l.value, l.value), "", password == l.Placeholder
	}
	return encode(user, l.value), user, password == l.Placeholder
}

func decodeBasic(s string) (string, bool) {
	s = strings.TrimRight(s, "=")
	for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		if b, err := e.DecodeString(s); err == nil {
			return string(b), true
		}
	}
	return "", false
}

// inQuery requires the parameter exactly once.
func (l *loan) inQuery(query string) (swap, bool) {
	w := swap{loan: l, index: -1}
	for i, part := range strings.Split(query, "&") {
		name, value, _ := strings.Cut(part, "=")
		if unescape(name) != l.Place.Name {
			continue
		}
		if w.index >= 0 || unescape(value) != l.Placeholder {
			return swap{}, false
		}
		w.index, w.text = i, name+"="+url.QueryEscape(l.value)
	}
	return w, w.index >= 0
}

// inQueryAt returns the swap of a parameter.
func inQueryAt(list []swap, index int) *swap {
	for i := range list {
		if list[i].header == "" && list[i].index == index {
			return &list[i]
		}
	}
	return nil
}

// without returns a query without its exchanged parameters.
func without(query string, list []swap) string {
	if len(list) == 0 {
		return query
	}
	var kept []string
	for i, part := range strings.Split(query, "&") {
		if inQueryAt(list, i) == nil {
			kept = append(kept, part)
		}
	}
	return strings.Join(kept, "&")
}

// inHeader returns the swap of a header.
func inHeader(list []swap, key string) *swap {
	for i := range list {
		if list[i].header == key {
			return &list[i]
		}
	}
	return nil
}
