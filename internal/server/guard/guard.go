// Package guard decides whether a request may reach the API at all, before its path means anything. A
// browser on the same machine, a name that suddenly resolves to the loopback, and a page that posts a form
// are turned away here.
package guard

import (
	"errors"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/bothy-dev/bothy/internal/apitoken"
)

// Site is the place at which a listener is reached.
type Site struct {
	// Hosts are the only values of the header Host, in lower case, with the port unless it is the usual one.
	Hosts []string
	// TLS says that the connections are encrypted.
	TLS bool
	// Local says that the connections come over a unix socket, whose peer was checked.
	Local bool
}

// LocalHosts are the hosts that a client of the unix socket may write into its URL.
var LocalHosts = []string{"localhost", "bothy"}

// Refusal is the reason to refuse a request, and the status of the answer.
type Refusal struct {
	Status int
	Code   string
	Why    string
}

func (r *Refusal) Error() string { return r.Why }

func refuse(status int, code, why string) *Refusal { return &Refusal{status, code, why} }

// Check refuses a request that breaks a rule that holds for all paths.
func (s *Site) Check(r *http.Request) *Refusal {
	for _, check := range []func(*http.Request) *Refusal{s.checkHost, s.checkOrigin, checkURL, checkFrame, checkBody} {
		if refusal := check(r); refusal != nil {
			return refusal
		}
	}
	return nil
}

// checkHost accepts only hosts by which this listener is known. A page that binds its own name to this
// machine's address sends its own name.
func (s *Site) checkHost(r *http.Request) *Refusal {
	if slices.Contains(s.Hosts, strings.ToLower(r.Host)) {
		return nil
	}
	return refuse(http.StatusMisdirectedRequest, "host", "this server does not answer for the host of the request: reach it by its address, or start it with --allow-host")
}

// checkOrigin refuses requests that a page of another site makes. A browser adds the headers; other clients
// need none, and are known by their token or their uid.
func (s *Site) checkOrigin(r *http.Request) *Refusal {
	refused := refuse(http.StatusForbidden, "origin", "a page of another site made the request")
	origins := r.Header.Values("Origin")
	if len(origins) > 1 || len(origins) == 1 && !s.isOwnOrigin(origins[0]) {
		return refused
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return nil
	}
	return refused
}

func (s *Site) isOwnOrigin(origin string) bool {
	scheme := "http://"
	if s.TLS {
		scheme = "https://"
	}
	host, ok := strings.CutPrefix(strings.ToLower(origin), scheme)
	return ok && !s.Local && slices.Contains(s.Hosts, host)
}

// tokenNames are query parameters by which other servers take a token.
var tokenNames = []string{"token", "access_token", "auth", "authorization", "api_key", "apikey", "key", "x-api-key", "signature"}

// checkURL refuses paths that two programs could read differently, and tokens in the URL, which proxies and
// histories keep.
func checkURL(r *http.Request) *Refusal {
	bad := func(why string) *Refusal { return refuse(http.StatusBadRequest, "path", why) }
	u := r.URL
	if u.Scheme != "" || u.Host != "" || u.User != nil || !strings.HasPrefix(u.Path, "/") {
		return bad("the request does not name a path of this server")
	}
	if err := checkPath(u.EscapedPath(), u.Path); err != nil {
		return bad(err.Error())
	}
	if apitoken.Contains(r.RequestURI) {
		return refuse(http.StatusBadRequest, "token_in_url", "the URL contains a token, which proxies and histories keep: remove that token, and send the new one in the header Authorization")
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return bad("the query of the URL cannot be read")
	}
	for name := range query {
		if slices.Contains(tokenNames, strings.ToLower(name)) {
			return refuse(http.StatusBadRequest, "token_in_url", "tokens are sent in the header Authorization, not in the URL")
		}
	}
	return nil
}

// checkPath accepts a path that means the same before and after its percent signs are resolved and its dots
// are.
func checkPath(escaped, path string) error {
	low := strings.ToLower(escaped)
	if strings.Contains(low, "%2f") || strings.Contains(low, "%5c") || strings.Contains(low, "%00") || strings.Contains(path, `\`) {
		return errors.New("a segment of the path contains a slash, a backslash or a zero byte")
	}
	if !utf8.ValidString(path) || strings.ContainsFunc(path, func(c rune) bool { return c < ' ' || c == 0x7f }) {
		return errors.New("the path contains control characters, or is not UTF-8")
	}
	for i, segment := range strings.Split(path, "/") {
		if segment == "." || segment == ".." || segment == "" && i > 0 && path != "/" {
			return errors.New("the path has an empty segment, or one of dots")
		}
	}
	return nil
}

// checkFrame refuses requests whose length two programs could read differently.
func checkFrame(r *http.Request) *Refusal {
	if len(r.TransferEncoding) > 0 && (len(r.TransferEncoding) > 1 || r.TransferEncoding[0] != "chunked") {
		return refuse(http.StatusBadRequest, "framing", "the transfer encoding is not chunked")
	}
	if r.Method == http.MethodConnect || r.Method == http.MethodTrace {
		return refuse(http.StatusMethodNotAllowed, "method", "this method is not served")
	}
	return nil
}

// checkBody accepts only bodies that a page of another site cannot send without asking first. Routes for
// bytes accept application/octet-stream and application/x-tar, of which the same is true.
func checkBody(r *http.Request) *Refusal {
	if r.ContentLength == 0 && len(r.TransferEncoding) == 0 {
		return nil
	}
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err == nil && slices.Contains([]string{"application/json", "application/octet-stream", "application/x-tar"}, kind) {
		return nil
	}
	return refuse(http.StatusUnsupportedMediaType, "content_type", "a body needs Content-Type: application/json")
}

// Bearer returns the token of the header Authorization, or "".
func Bearer(r *http.Request) string {
	values := r.Header.Values("Authorization")
	if len(values) != 1 {
		return ""
	}
	scheme, text, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(text)
}

// HostsFor returns the values of Host by which clients reach a TCP address. Names are those that a person
// allows besides.
func HostsFor(addr *net.TCPAddr, names []string) []string {
	port := addr.AddrPort().Port()
	hosts := slices.Clone(names)
	switch ip := addr.IP; {
	case ip.IsLoopback(), ip.IsUnspecified():
		hosts = append(hosts, "127.0.0.1", "localhost", "::1")
	default:
		hosts = append(hosts, ip.String())
	}
	var all []string
	for _, host := range hosts {
		host = strings.ToLower(strings.Trim(host, "[]"))
		all = append(all, joinPort(host, port))
		if port == 443 || port == 80 {
			bare, _ := strings.CutSuffix(joinPort(host, 0), ":0")
			all = append(all, bare)
		}
	}
	return all
}

// joinPort returns HOST:PORT as a browser writes it.
func joinPort(host string, port uint16) string {
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}
