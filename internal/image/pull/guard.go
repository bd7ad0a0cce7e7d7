package pull

import (
	"context"
	"crypto/x509"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"syscall"

	"github.com/bothy-dev/bothy/internal/fetch"
	"github.com/bothy-dev/bothy/internal/hostproxy"
	hosttransport "github.com/bothy-dev/bothy/internal/hostproxy/transport"
	"github.com/bothy-dev/bothy/internal/policy/specialaddr"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// guard contacts a registry and the hosts that it refers to: by redirects for blobs, by a
// challenge for tokens. The user named the registry, so it may be anywhere. Other hosts are
// contacted only over TLS if the registry is. They may be on this machine or in a private
// network only if the registry is there itself: a registry on the internet must not reach
// this machine or its network.
type guard struct {
	host   string // and port, if it has one
	scheme string // "" until it is known
	// foreign: the user did not name the registry; see [checkForeign].
	foreign bool
	proxies *hostproxy.Settings
	direct  *http.Transport
	others  *http.Transport

	mu sync.Mutex
	at netip.Addr // the registry's address; zero until it is known
}

// newGuard trusts roots; nil means the host's.
func newGuard(host string, roots *x509.CertPool) *guard {
	g := &guard{host: host, proxies: hostproxy.Read(os.Environ())}
	g.direct = fetch.Transport(roots, func(ctx context.Context, network, address string) (net.Conn, error) {
		d := &net.Dialer{Timeout: fetch.DialTimeout}
		if g.foreign && g.isRegistry(address) {
			d.Control = func(_, at string, _ syscall.RawConn) error { return judgeForeign(g.host, at) }
		}
		conn, err := d.DialContext(ctx, network, address)
		if err == nil {
			g.reached(address, conn.RemoteAddr())
		}
		return conn, err
	})
	hosttransport.Use(g.direct, g.proxies)
	g.others = fetch.Transport(roots, (&net.Dialer{Timeout: fetch.DialTimeout, Control: g.control}).DialContext)
	return g
}

// callersRoots returns the authorities that the caller trusts in addition to the host's: those of
// NODE_EXTRA_CA_CERTS.
func callersRoots() (*x509.CertPool, error) {
	const variable = "NODE_EXTRA_CA_CERTS"
	file := os.Getenv(variable)
	if file == "" {
		return nil, nil
	}
	text, err := store.ReadFile(file, 0, maxAuthorities)
	var roots *x509.CertPool
	if err == nil {
		roots, err = hosttransport.Roots(text)
	}
	if err != nil {
		return nil, &spec.Error{Class: spec.ErrUsage, Op: "read the authorities of " + variable, Err: err, Hint: "name a file of certificates in PEM by its whole path, or unset it"}
	}
	return roots, nil
}

// reached records the registry's address, unless a proxy was dialled.
func (g *guard) reached(address string, at net.Addr) {
	if !g.isRegistry(address) {
		return
	}
	if a, err := netip.ParseAddrPort(at.String()); err == nil {
		g.mu.Lock()
		g.at = a.Addr().Unmap()
		g.mu.Unlock()
	}
}

// hostname returns a host without its port, and without the brackets of an address.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	if n := len(host); n > 2 && host[0] == '[' && host[n-1] == ']' {
		return host[1 : n-1]
	}
	return host
}

func (g *guard) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" && (g.scheme == "https" || !loopback(r.URL.Hostname())) {
		return nil, spec.Errorf(spec.ErrDenied, "%s is not asked in clear", r.URL.Host)
	}
	if r.URL.Host == g.host {
		return g.direct.RoundTrip(r)
	}
	proxy, err := hosttransport.Proxy(g.proxies, r.URL)
	if err != nil {
		return nil, err
	}
	if proxy == nil {
		return g.others.RoundTrip(r)
	}
	// The proxy resolves the name, and may refuse it.
	if a, err := netip.ParseAddr(r.URL.Hostname()); err == nil {
		if err := g.judgeAddress(a); err != nil {
			return nil, err
		}
	}
	return g.direct.RoundTrip(r)
}

// CloseIdleConnections closes connections that are not in use.
func (g *guard) CloseIdleConnections() {
	g.direct.CloseIdleConnections()
	g.others.CloseIdleConnections()
}

// control checks an address that is about to be dialled.
func (g *guard) control(_, address string, _ syscall.RawConn) error {
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	return g.judgeAddress(a.Addr())
}

// judgeAddress rejects addresses that the registry may not refer to.
func (g *guard) judgeAddress(to netip.Addr) error {
	what, credentials := specialaddr.Describe(to)
	if what == "" {
		return nil
	}
	g.mu.Lock()
	from := g.at
	g.mu.Unlock()
	if !credentials && refers(from, to.WithZone("").Unmap()) {
		return nil
	}
	return spec.Errorf(spec.ErrDenied, "%s refers to %s, %s, where it is not itself", g.host, to, what).
		WithHint("if that is meant, use the registry by an address in the same network")
}

// refers reports whether a registry at one address may refer to another address that is not public.
func refers(from, to netip.Addr) bool {
	switch {
	case !from.IsValid():
		return false
	case to.IsLoopback():
		return from.IsLoopback()
	case private(to):
		return from.IsLoopback() || private(from)
	}
	return false
}

func private(a netip.Addr) bool {
	shared := netip.PrefixFrom(netip.AddrFrom4([4]byte{100, 64}), 10) // shared by a provider's customers
	return a.IsPrivate() || shared.Contains(a)
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// A reference from a project's file may come from anybody. It must not make this machine
// contact a server that only this machine and its network can reach. So it may not use an
// address that is not public, a name for this machine, or a name that resolves to such an
// address. A name in a private network is allowed, because companies run registries there;
// it is contacted only over TLS. If the user is logged in to a registry, the user has named
// it, and none of this applies.

func checkForeign(registry string) error {
	name := strings.TrimSuffix(hostname(registry), ".")
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return notForeign(registry, "this machine")
	}
	if a, err := netip.ParseAddr(name); err == nil {
		if what, _ := specialaddr.Describe(a); what != "" {
			return notForeign(registry, what)
		}
	}
	return nil
}

// judgeForeign rejects an address that a registry's name resolved to.
func judgeForeign(registry, address string) error {
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	what, credentials := specialaddr.Describe(a.Addr())
	if what == "" || !credentials && private(a.Addr().WithZone("").Unmap()) {
		return nil
	}
	return notForeign(registry, what)
}

func notForeign(registry, what string) error {
	return spec.Errorf(spec.ErrDenied, "the registry %s is %s: it is not asked because a file says so", registry, what).
		WithHint("if you trust it, log in (docker login %s); or fetch an image yourself: bothy template pull IMAGE", registry)
}

// isRegistry reports whether the dialled address is the registry itself, and not a proxy.
func (g *guard) isRegistry(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && host == hostname(g.host)
}
