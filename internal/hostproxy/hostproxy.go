// Package hostproxy reads the proxies in the caller's environment, decides which of them connects to a
// server, and asks it to with CONNECT.
//
// The variables have the same meaning as in curl and in Go programs: HTTPS_PROXY, HTTP_PROXY and
// NO_PROXY, in upper or lower case, and ALL_PROXY if the other one is not set. Nothing that this package
// prints contains a proxy's password.
package hostproxy

import (
	"cmp"
	"encoding/base64"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/bothy-dev/bothy/spec"
)

// variables are the variables that are read. Upper case comes first, as in Go.
var variables = []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy"}

// Environment returns the entries of an environment that Read looks at. They may contain a
// password.
func Environment(environ []string) (list []string) {
	for _, kv := range environ {
		if name, value, ok := strings.Cut(kv, "="); ok && value != "" && slices.Contains(variables, name) {
			list = append(list, kv)
		}
	}
	return list
}

// Settings decide which proxy connects to a server. Nil settings have no proxies.
type Settings struct {
	tls, plain choice // for port 443 and all others; for port 80
	except     exceptions
}

// choice is the proxy that a variable names.
type choice struct {
	proxy *Proxy // nil means a direct connection
	err   error  // the variable's proxy cannot be used
}

// Read reads the settings of an environment.
func Read(environ []string) *Settings {
	get := func(name string) (string, string) {
		for _, name := range []string{name, strings.ToLower(name)} {
			for _, kv := range slices.Backward(environ) { // the last one counts
				if value, ok := strings.CutPrefix(kv, name+"="); ok && value != "" {
					return name, value
				}
			}
		}
		return "", ""
	}
	choose := func(name string) choice {
		found, value := get(name)
		if value == "" {
			found, value = get("ALL_PROXY")
		}
		return choose(found, value)
	}
	_, except := get("NO_PROXY")
	return &Settings{tls: choose("HTTPS_PROXY"), plain: choose("HTTP_PROXY"), except: parseExceptions(except)}
}

// New makes settings from the addresses of proxies for port 443 and for port 80, either of which may be
// empty, and from a list in the format of NO_PROXY. where is their origin for errors.
func New(where, forTLS, plain, except string) *Settings {
	return &Settings{tls: choose(where, forTLS), plain: choose(where, plain), except: parseExceptions(except)}
}

func choose(where, address string) choice {
	if address == "" {
		return choice{}
	}
	p, why := parseProxy(address)
	if why != "" {
		return choice{err: spec.Errorf(spec.ErrUsage, "%s %s", where, why).
			WithHint("write it as http://HOST:PORT or https://HOST:PORT, a password before it as USER:PASSWORD@")}
	}
	p.from = where
	return choice{proxy: p}
}

// For returns the proxy that connects to a port of a server, which is a name or an address. It
// returns nil for a direct connection.
func (s *Settings) For(host string, port uint16) (*Proxy, error) {
	if s == nil || s.except.isExempt(host, port) {
		return nil, nil
	}
	if port == 80 {
		return s.plain.proxy, s.plain.err
	}
	return s.tls.proxy, s.tls.err
}

// ForScheme is For if the scheme of an address selects the variable.
func (s *Settings) ForScheme(scheme, host string, port uint16) (*Proxy, error) {
	if s.except.isExempt(host, port) {
		return nil, nil
	}
	if scheme != "https" {
		return s.plain.proxy, s.plain.err
	}
	return s.tls.proxy, s.tls.err
}

// All returns all proxies, each once, and an error for a variable whose proxy cannot be used.
func (s *Settings) All() (list []*Proxy, err error) {
	for _, c := range []choice{s.tls, s.plain} {
		err = cmp.Or(err, c.err)
		if c.proxy != nil && !slices.ContainsFunc(list, func(p *Proxy) bool { return p.String() == c.proxy.String() }) {
			list = append(list, c.proxy)
		}
	}
	return list, err
}

// Proxy is a proxy that connects to servers with CONNECT.
type Proxy struct {
	Host string // a name, or an address without brackets
	Port uint16
	TLS  bool // the connection to it uses TLS

	from           string // the setting that named it
	user, password string
	named          bool // has a user, perhaps with an empty name
}

// Address returns the proxy's address, HOST:PORT.
func (p *Proxy) Address() string { return net.JoinHostPort(p.Host, strconv.Itoa(int(p.Port))) }

// String returns the proxy's URL without its password.
func (p *Proxy) String() string {
	if p.TLS {
		return "https://" + p.Address()
	}
	return "http://" + p.Address()
}

// GoString also keeps the password from being printed.
func (p *Proxy) GoString() string { return p.String() }

// From returns the setting that named the proxy: a variable, or npm's settings.
func (p *Proxy) From() string { return p.from }

// Login returns the user and password for the proxy, if it has any.
func (p *Proxy) Login() (user, password string, ok bool) { return p.user, p.password, p.named }

// Authorization returns the value of Proxy-Authorization, or "" without a user.
func (p *Proxy) Authorization() string {
	if !p.named {
		return ""
	}
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(p.user+":"+p.password))
}

// parseProxy reads the address of a proxy. why describes an error without quoting the address. People
// write passwords unescaped: the host follows the last @.
func parseProxy(address string) (_ *Proxy, why string) {
	scheme, rest, ok := strings.Cut(strings.TrimSpace(address), "://")
	if !ok {
		scheme, rest = "http", strings.TrimSpace(address)
	}
	p := &Proxy{Port: 80}
	switch scheme = strings.ToLower(scheme); scheme {
	case "http":
	case "https":
		p.Port, p.TLS = 443, true
	case "socks", "socks4", "socks4a", "socks5", "socks5h":
		return nil, "names a proxy that speaks SOCKS, which Bothy does not"
	default:
		return nil, "names a proxy of an unknown kind"
	}
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		user, password, _ := strings.Cut(rest[:i], ":")
		p.user, p.password, p.named = unescape(user), unescape(password), true
		rest = rest[i+1:]
	}
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		rest = rest[:i]
	}
	host, port, err := net.SplitHostPort(rest)
	if err != nil {
		host, port = strings.TrimSuffix(strings.TrimPrefix(rest, "["), "]"), ""
	}
	if port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return nil, "names a proxy without a usable port"
		}
		p.Port = uint16(n)
	}
	if p.Host = strings.ToLower(host); host == "" || strings.ContainsAny(host, " \t\r\n[]@\\") {
		return nil, "names a proxy without a usable host"
	}
	return p, ""
}

// unescape decodes URL escapes. Text without escapes stays as it is.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(n))
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
