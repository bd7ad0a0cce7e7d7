package npm

import (
	"cmp"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/bothy-dev/bothy/internal/npmrc"
	"github.com/bothy-dev/bothy/spec"
)

// proxy gives who carries a request: what is configured for npm, else what the
// environment says. net/http knows the environment alone, and the package it does
// that with brings a second copy of large tables into the binary.
func (c *Config) proxy() func(*http.Request) (*url.URL, error) {
	forTLS := cmp.Or(c.setting("https-proxy"), c.setting("proxy"), c.env("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"))
	plain := cmp.Or(c.setting("https-proxy"), c.setting("proxy"), c.env("HTTP_PROXY", "http_proxy"))
	except := strings.Split(strings.ReplaceAll(cmp.Or(c.setting("noproxy"), c.env("NO_PROXY", "no_proxy")), npmrc.ListSeparator, ","), ",")
	return func(r *http.Request) (*url.URL, error) {
		address := plain
		if r.URL.Scheme == "https" {
			address = forTLS
		}
		if address == "" || direct(r.URL, except) {
			return nil, nil
		}
		if !strings.Contains(address, "://") {
			address = "http://" + address
		}
		u, err := url.Parse(address)
		if err != nil || u.Host == "" {
			return nil, spec.Errorf(spec.ErrUsage, "the configured proxy has no usable address")
		}
		return u, nil
	}
}

// direct reports whether an address is asked without a proxy: one on this machine
// always.
func direct(u *url.URL, except []string) bool {
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	ip, err := netip.ParseAddr(host)
	if host == "localhost" || err == nil && ip.IsLoopback() {
		return true
	}
	for _, e := range except {
		e = strings.ToLower(strings.TrimSpace(e))
		if e == "" {
			continue
		}
		if network, bad := netip.ParsePrefix(e); bad == nil && err == nil && network.Contains(ip) {
			return true
		}
		domain := strings.TrimPrefix(strings.TrimPrefix(e, "*"), ".")
		for _, name := range []string{host, u.Host} { // with a port, too
			if e == "*" || domain != "" && (name == domain || strings.HasSuffix(name, "."+domain)) {
				return true
			}
		}
	}
	return false
}
