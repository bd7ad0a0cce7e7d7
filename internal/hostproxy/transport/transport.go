// Package transport makes net/http's Transport use the proxies of package hostproxy, and trust the
// caller's authorities. It is a package of its own because only few packages may speak HTTP.
package transport

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/bothy-dev/bothy/internal/hostproxy"
)

// Use makes a transport reach servers through proxies.
func Use(t *http.Transport, s *hostproxy.Settings) {
	t.Proxy = func(r *http.Request) (*url.URL, error) { return Proxy(s, r.URL) }
	t.OnProxyConnectResponse = func(_ context.Context, _ *url.URL, asked *http.Request, answer *http.Response) error {
		if answer.StatusCode == http.StatusOK {
			return nil
		}
		p, err := findProxy(s, &url.URL{Scheme: "https", Host: asked.URL.Host})
		if err != nil || p == nil {
			return err
		}
		return &hostproxy.Error{Proxy: p, To: asked.URL.Host, Status: answer.StatusCode}
	}
}

// Proxy returns the proxy for an address; nil means a direct connection.
func Proxy(s *hostproxy.Settings, to *url.URL) (*url.URL, error) {
	p, err := findProxy(s, to)
	if p == nil || err != nil {
		return nil, err
	}
	u := &url.URL{Scheme: "http", Host: p.Address()}
	if p.TLS {
		u.Scheme = "https"
	}
	if user, password, ok := p.Login(); ok {
		u.User = url.UserPassword(user, password)
	}
	return u, nil
}

func findProxy(s *hostproxy.Settings, to *url.URL) (*hostproxy.Proxy, error) {
	usual := "80"
	if to.Scheme == "https" {
		usual = "443"
	}
	port, err := strconv.ParseUint(cmp.Or(to.Port(), usual), 10, 16)
	if err != nil {
		return nil, fmt.Errorf("%s has no usable port", to.Host)
	}
	return s.ForScheme(to.Scheme, to.Hostname(), uint16(port))
}

// Roots adds authorities in PEM to those that the host trusts. Nil means only the host's, which are read
// when the first server's certificate is checked.
func Roots(more []byte) (*x509.CertPool, error) {
	if len(more) == 0 {
		return nil, nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("read the host's certificate authorities: %w", err)
	}
	if !pool.AppendCertsFromPEM(more) {
		return nil, errors.New("the caller's certificate authorities cannot be read")
	}
	return pool, nil
}
