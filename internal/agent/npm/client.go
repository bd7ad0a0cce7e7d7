// Package npm is a client of npm registries, stricter than npm. It resolves a version or
// tag of a package, fetches exactly that tarball, and unpacks it only if its SHA-512 is the
// one the registry names. It never runs anything of a package.
//
// It follows the host's configuration of npm, see Config.
package npm

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/bothy-dev/bothy/internal/hostproxy/transport"
	"github.com/bothy-dev/bothy/internal/slowread"
	"github.com/bothy-dev/bothy/spec"
)

// Client asks registries. It may be used by several goroutines.
type Client struct {
	// Stall is how long a connection may be silent.
	Stall time.Duration
	// MaxTarball bounds a tarball in bytes.
	MaxTarball int64

	config *Config
	http   *http.Client
}

// ErrUnreachable is in the chain of errors that say nothing about the package: the registry
// could not be asked.
var ErrUnreachable = errors.New("the registry cannot be reached")

const (
	dialTimeout  = 20 * time.Second
	patience     = time.Minute
	maxRedirects = 5
)

// NewClient makes a client.
func NewClient(c *Config) (*Client, error) {
	roots, err := c.authorities()
	if err != nil {
		return nil, err
	}
	next := &http.Transport{
		DialContext:           (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSClientConfig:       &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:   dialTimeout,
		ResponseHeaderTimeout: patience,
		DisableCompression:    true, // tarballs must arrive unchanged
		ForceAttemptHTTP2:     true,
	}
	transport.Use(next, c.proxies())
	return &Client{Stall: patience, MaxTarball: maxTarball, config: c, http: &http.Client{
		Transport:     authorized{c, next},
		CheckRedirect: checkRedirect,
	}}, nil
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// authorized adds to each request the credential of its own address. This includes requests
// that follow a redirect: no credential is passed on.
type authorized struct {
	config *Config
	next   *http.Transport
}

func (a authorized) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Del("Authorization")
	if h := a.config.authorization(r.URL); h != "" {
		r.Header.Set("Authorization", h)
	}
	return a.next.RoundTrip(r)
}

// CloseIdleConnections is for http.Client.
func (a authorized) CloseIdleConnections() { a.next.CloseIdleConnections() }

func checkRedirect(r *http.Request, via []*http.Request) error {
	switch {
	case len(via) > maxRedirects:
		return fmt.Errorf("it redirects more than %d times", maxRedirects)
	case r.URL.Scheme != "https" && via[0].URL.Scheme == "https":
		return fmt.Errorf("it redirects to %s, which is not encrypted", where(r.URL))
	case r.URL.User != nil:
		return errors.New("it redirects to an address with a password")
	}
	return nil
}

// where is an address as errors show it: without parts that may be secret.
func where(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}

// get requests an address. Reading the body fails if no data comes for too long.
func (c *Client) get(ctx context.Context, u *url.URL, header http.Header) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		cancel(nil)
		return nil, err
	}
	r.Header = header.Clone()
	r.Header.Set("User-Agent", "bothy")
	resp, err := c.http.Do(r)
	if err != nil {
		cancel(nil)
		return nil, unreachable(u, err)
	}
	resp.Body = slowread.Body(ctx, cancel, resp.Body, c.Stall)
	return resp, nil
}

// unreachable reports that a registry could not be asked, and why. The cause's own text may
// quote an address with a password.
func unreachable(u *url.URL, err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	return spec.Errorf(nil, "ask %s: %w: %w", where(u), ErrUnreachable, err).
		WithHint("check the network and npm's settings registry, proxy and cafile; a version that is installed can be used offline")
}

// refused explains an error status.
func refused(u *url.URL, resp *http.Response, what string) error {
	switch code := resp.StatusCode; {
	case code == http.StatusNotFound:
		return spec.Errorf(spec.ErrNotFound, "%s has no %s", u.Host, what).
			WithHint("check the name, and npm's setting registry: %s is asked", where(u))
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		return spec.Errorf(spec.ErrDenied, "%s does not give out %s (%d)", u.Host, what, code).
			WithHint("check npm's credential for it: npm login, or _authToken in ~/.npmrc")
	case code == http.StatusTooManyRequests, code >= http.StatusInternalServerError:
		return unreachable(u, fmt.Errorf("it answers with status %d", code))
	default:
		return spec.Errorf(nil, "ask %s: it answers with status %d", where(u), code)
	}
}
