package spec

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// ModelServer is a model server of the user's own, which the agent of a sandbox asks instead of its
// maker's.
type ModelServer struct {
	// URL is its root URL on the host, without a final slash or /v1.
	URL string `json:"url"`
	// Key is the secret to lend for it; empty: it needs none, or the secret is lent otherwise.
	Key string `json:"key,omitempty"`
	// Model is the server's name for the model. Empty: the agent chooses it, or the user tells it.
	Model string `json:"model,omitempty"`
}

// The names of the host inside. Only single ports of the host can be reached.
const (
	HostName       = "host.bothy"
	DockerHostName = "host.docker.internal" // Docker's name for it
)

// IsHostName reports whether a name is one of the host's. It is in lower case, without a dot at its end.
func IsHostName(name string) bool { return name == HostName || name == DockerHostName }

// NewModelServer parses a user's input.
func NewModelServer(text, key, model string) (*ModelServer, error) {
	fail := func(why string) error {
		return Errorf(ErrUsage, "the model server %q %s", text, why).
			WithHint("write its root, such as http://localhost:11434 or https://llm.example.com/proxy")
	}
	scheme, rest, ok := strings.Cut(text, "://")
	scheme = strings.ToLower(scheme)
	authority, path, _ := strings.Cut(rest, "/")
	switch {
	case !ok || scheme != "http" && scheme != "https":
		return nil, fail("is not a URL that begins with http:// or https://")
	case authority == "":
		return nil, fail("names no host")
	case isEndpoint(path):
		return nil, fail("is where one kind of question goes, and not the root of the server")
	case strings.Contains(authority, "@"):
		return nil, fail("has a password in it, which every program inside could read: --model-key NAME lends a secret")
	case strings.ContainsAny(rest, "?#"):
		return nil, fail("ends with a query or a fragment")
	case strings.ContainsFunc(path, escaped):
		return nil, fail("has a path that would have to be escaped")
	case strings.ContainsFunc(model, escaped):
		return nil, Errorf(ErrUsage, "%q is not the name of a model", model)
	}
	s := &ModelServer{Key: key, Model: model}
	var err error
	if s.URL, err = rootOf(scheme, authority, path); err != nil {
		return nil, fail(err.Error())
	}
	if a, err := netip.ParseAddr(s.host()); err == nil && a.IsUnspecified() || err == nil && a.IsLoopback() && !s.IsLocal() {
		return nil, fail("has an address that is not reached: write localhost")
	}
	if key != "" && scheme == "http" && !s.IsLocal() {
		return nil, Errorf(ErrUsage, "the key %s would go to %s in clear, for everybody on the way to read", key, s.host()).
			WithHint("have the server speak TLS (https://), or reach it at this machine's loopback, as by ssh -L")
	}
	return s, nil
}

// isEndpoint reports whether agents append this path themselves: the user copied a whole address.
func isEndpoint(path string) bool {
	path = "/" + strings.TrimRight(path, "/")
	return slices.ContainsFunc([]string{
		"/chat/completions", "/completions", "/responses", "/messages", "/models", "/embeddings", "/api/chat", "/api/generate",
	}, func(end string) bool { return strings.HasSuffix(path, end) }) || strings.Contains(path, ":generateContent") || strings.Contains(path, ":streamGenerateContent")
}

// escaped reports whether a character would have another meaning in an agent's settings.
func escaped(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`"%\{}`, r) }

// ServerOf returns the host and the port of a URL, and its root: without a user, a query or a fragment.
// The URL may be untrusted.
func ServerOf(text string) (host, port, root string, ok bool) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return "", "", "", false
	}
	scheme = strings.ToLower(scheme)
	if end := strings.IndexAny(rest, "?#"); end >= 0 {
		rest = rest[:end]
	}
	authority, path, _ := strings.Cut(rest, "/")
	host, port, ok = hostPort(authority[strings.LastIndexByte(authority, '@')+1:])
	host = strings.ToLower(host)
	if port == "" {
		port = usualPort(scheme)
	}
	root = strings.TrimRight(scheme+"://"+joined(host, port)+"/"+path, "/")
	return host, port, root, ok && host != "" && port != ""
}

// rootOf returns a URL in the stored form: with the port, without the path that agents append
// themselves.
func rootOf(scheme, authority, path string) (string, error) {
	host, port, ok := hostPort(authority)
	if port == "" && ok {
		port = usualPort(scheme)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", Errorf(ErrUsage, "has no port that there is: %s", authority)
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if host == "" || strings.ContainsFunc(host, func(r rune) bool { return escaped(r) || strings.ContainsRune("[]<>^`|", r) }) {
		return "", Errorf(ErrUsage, "names no host")
	}
	path = strings.TrimRight("/"+path, "/")
	path = strings.TrimRight(strings.TrimSuffix(path, "/v1"), "/")
	return scheme + "://" + joined(host, port) + path, nil
}

// usualPort returns the default port of a scheme; empty if it is neither http nor https.
func usualPort(scheme string) string {
	return map[string]string{"http": "80", "https": "443"}[scheme]
}

// hostPort splits them; the port may be missing. It does not use package net, because every process that
// links this package would pay for that.
func hostPort(authority string) (host, port string, ok bool) {
	if rest, is := strings.CutPrefix(authority, "["); is {
		host, port, ok = strings.Cut(rest, "]")
		a, err := netip.ParseAddr(host)
		if !ok || err != nil || !a.Is6() || a.Zone() != "" {
			return "", "", false
		}
		if port == "" {
			return host, "", true
		}
		port, ok = strings.CutPrefix(port, ":")
		return host, port, ok && port != ""
	}
	host, port, with := strings.Cut(authority, ":")
	return host, port, !with || port != "" && !strings.Contains(port, ":")
}

func joined(host, port string) string {
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + port
}

func (s *ModelServer) splitURL() (scheme, host, port, path string) {
	scheme, rest, _ := strings.Cut(s.URL, "://")
	authority, path, below := strings.Cut(rest, "/")
	if below {
		path = "/" + path
	}
	host, port, _ = hostPort(authority)
	return scheme, host, port, path
}

func (s *ModelServer) host() string { _, host, _, _ := s.splitURL(); return host }

// IsLocal reports whether the server is on the host's own loopback.
func (s *ModelServer) IsLocal() bool { return IsLoopback(s.host()) || IsHostName(s.host()) }

// IsLoopback reports whether a name or an address is a loopback one.
func IsLoopback(host string) bool {
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || host == "127.0.0.1" || host == "::1"
}

// Port returns the server's port.
func (s *ModelServer) Port() uint16 {
	_, _, port, _ := s.splitURL()
	n, _ := strconv.ParseUint(port, 10, 16) // it was checked before
	return uint16(n)
}

// At returns the server's address inside, as HOST:PORT.
func (s *ModelServer) At() string {
	_, host, port, _ := s.splitURL()
	if s.IsLocal() {
		host = HostName
	}
	return joined(host, port)
}

// Target returns the server's name in a rule or a lease.
func (s *ModelServer) Target() string {
	_, host, port, _ := s.splitURL()
	if s.IsLocal() {
		host = "127.0.0.1"
	}
	return joined(host, port)
}

// Named returns the server's name as the host itself uses it.
func (s *ModelServer) Named() string {
	if host := s.host(); !IsHostName(host) {
		return host
	}
	return "localhost"
}

// Inside returns the server's root URL inside.
func (s *ModelServer) Inside() string {
	scheme, _, _, path := s.splitURL()
	return scheme + "://" + s.At() + path
}

// Versioned is Inside for clients that want the version in the URL: it appends /v1 if the URL has none.
func (s *ModelServer) Versioned() string {
	root := s.Inside()
	last := root[strings.LastIndexByte(root, '/')+1:]
	if len(last) > 1 && last[0] == 'v' && last[1] >= '0' && last[1] <= '9' && strings.Count(root, "/") > 2 {
		return root
	}
	return root + "/v1"
}
