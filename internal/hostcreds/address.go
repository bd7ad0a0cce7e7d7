package hostcreds

import (
	"errors"
	"net/url"
	"strings"
)

// address has the used parts of a URL.
type address struct {
	scheme, host string // in small letters; the host with its port unless that is 443
	path         string // as written; the rest of the URL is dropped
	user         string // decoded, from the address itself; may be empty
}

// String writes the address, with the user.
func (a address) String() string {
	user := ""
	if a.user != "" {
		user = escape(a.user) + "@"
	}
	return a.scheme + "://" + user + a.host + a.path
}

func (a address) hostname() string {
	host, _ := cutPort(a.host)
	return strings.Trim(host, "[]")
}

// target is the server as rules of the policy name it.
func (a address) target() string {
	if _, port := cutPort(a.host); port != "" {
		return a.host
	}
	return a.host + ":443"
}

func cutPort(hostport string) (host, port string) {
	i := strings.LastIndexByte(hostport, ':')
	if i < 0 || strings.HasSuffix(hostport, "]") {
		return hostport, ""
	}
	return hostport[:i], hostport[i+1:]
}

// parseAddress reads a URL, with its user and password. more reports whether anything follows
// the path. The error quotes nothing of it.
func parseAddress(s string) (a address, password string, more bool, err error) {
	none := errors.New("it is not the URL of a server")
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok || scheme == "" || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return a, "", false, none
	}
	rest, _, fragment := strings.Cut(rest, "#")
	rest, _, query := strings.Cut(rest, "?")
	authority := rest
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		authority, a.path = rest[:i], rest[i:]
	}
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		user, pass, _ := strings.Cut(authority[:i], ":")
		var err1, err2 error
		a.user, err1 = url.PathUnescape(user)
		password, err2 = url.PathUnescape(pass)
		if err1 != nil || err2 != nil {
			return a, "", false, none
		}
		authority = authority[i+1:]
	}
	a.scheme, a.host = strings.ToLower(scheme), strings.TrimSuffix(strings.ToLower(authority), ":443")
	if a.host == "" || strings.ContainsAny(a.host, "%\\\"'") {
		return a, "", false, none
	}
	return a, password, query || fragment, nil
}

// escape writes all characters but letters, digits and "-._~" as %XX.
func escape(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }
