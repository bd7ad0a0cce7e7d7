// Package npm is a client of npm registries, stricter than npm. It resolves a version or tag of a
// package, fetches exactly that tarball, and unpacks it only if its SHA-512 is the one that the registry
// names. It never runs anything of a package.
//
// It follows the host's configuration of npm, see Config.
package npm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/fetch"
	"github.com/bothy-dev/bothy/internal/hostproxy/transport"
	"github.com/bothy-dev/bothy/spec"
)

// Client sends requests to registries. Several goroutines may use it.
type Client struct {
	// Stall is how long a connection may be silent.
	Stall time.Duration
	// MaxTarball bounds a tarball in bytes.
	MaxTarball int64

	config *Config
	http   *http.Client
}

// ErrUnreachable is in the chain of errors that do not concern the package: the registry could not be
// asked.
var ErrUnreachable = errors.New("the registry cannot be reached")

// NewClient makes a client.
func NewClient(c *Config) (*Client, error) {
	roots, err := c.authorities()
	if err != nil {
		return nil, err
	}
	next := fetch.Transport(roots, (&net.Dialer{Timeout: fetch.DialTimeout}).DialContext)
	transport.Use(next, c.proxies())
	return &Client{Stall: fetch.Patience, MaxTarball: maxTarball, config: c, http: &http.Client{
		Transport:     authorized{c, next},
		CheckRedirect: checkRedirect,
	}}, nil
}

// checkRedirect rejects, beyond [fetch.CheckRedirect], a redirect in clear to another host: a registry in
// the own network may be asked in clear, but must not send the client elsewhere so.
func checkRedirect(r *http.Request, via []*http.Request) error {
	if err := fetch.CheckRedirect(r, via); err != nil {
		return err
	}
	if r.URL.Scheme != "https" && r.URL.Host != via[0].URL.Host {
		return spec.Errorf(spec.ErrDenied, "it redirects to another host, %s, in clear", r.URL.Host)
	}
	return nil
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// authorized adds to each request the credential for its own address. After a redirect to another host it
// adds none: that host's own credential is not for the addresses that a registry chooses.
type authorized struct {
	config *Config
	next   *http.Transport
}

func (a authorized) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Del("Authorization")
	if h := a.config.authorization(r.URL); h != "" && !isElsewhere(r) {
		r.Header.Set("Authorization", h)
	}
	return a.next.RoundTrip(r)
}

// isElsewhere reports whether redirects led a request to another host. A step up to HTTPS on the same host, at
// the usual ports, does not.
func isElsewhere(r *http.Request) bool {
	for at := r; at.Response != nil && at.Response.Request != nil; {
		at = at.Response.Request
		if (at.URL.Scheme != r.URL.Scheme || at.URL.Host != r.URL.Host) && !isUpgrade(at.URL, r.URL) {
			return true
		}
	}
	return false
}

func isUpgrade(from, to *url.URL) bool {
	return from.Scheme == "http" && to.Scheme == "https" && strings.EqualFold(from.Hostname(), to.Hostname()) &&
		(from.Port() == "" || from.Port() == "80") && (to.Port() == "" || to.Port() == "443")
}

// CloseIdleConnections is for http.Client.
func (a authorized) CloseIdleConnections() { a.next.CloseIdleConnections() }

// shownAddress returns an address as errors show it: without parts that may be secret.
func shownAddress(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}

// request requests an address. Reading the body fails if no data comes for too long.
func (c *Client) request(ctx context.Context, u *url.URL, header http.Header) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	r.Header = header.Clone()
	r.Header.Set("User-Agent", "bothy")
	resp, err := fetch.Do(c.http, r, c.Stall)
	if err != nil {
		return nil, unreachable(u, err)
	}
	return resp, nil
}

// unreachable reports that a registry could not be asked, and why.
func unreachable(u *url.URL, err error) error {
	return spec.Errorf(nil, "ask %s: %w: %w", shownAddress(u), ErrUnreachable, err).
		WithHint("check the network and npm's settings registry, proxy and cafile; a version that is installed can be used offline")
}

// refused explains an error status.
func refused(u *url.URL, resp *http.Response, what string) error {
	switch code := resp.StatusCode; {
	case code == http.StatusNotFound:
		return spec.Errorf(spec.ErrNotFound, "%s has no %s", u.Host, what).
			WithHint("check the name, and npm's setting registry: %s is asked", shownAddress(u))
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		return spec.Errorf(spec.ErrDenied, "%s does not give out %s (%d)", u.Host, what, code).
			WithHint("check npm's credential for it: npm login, or _authToken in ~/.npmrc")
	case code == http.StatusTooManyRequests, code >= http.StatusInternalServerError:
		return unreachable(u, fmt.Errorf("it answers with status %d", code))
	default:
		return spec.Errorf(nil, "ask %s: it answers with status %d", shownAddress(u), code)
	}
}
