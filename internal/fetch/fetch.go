// Package fetch sends requests to registries over HTTP. It gives up on a connection that transfers no
// data, or next to none, follows redirects only to equally safe addresses, and resumes downloads.
package fetch

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

const (
	// DialTimeout bounds how long it takes to connect.
	DialTimeout = 20 * time.Second
	// Patience is how long a connection may be silent.
	Patience = time.Minute

	maxRedirects = 10
	attempts     = 20 // of a download whose connection broke
)

// Transport connects with dial, and trusts roots; nil means the host's. It does not decompress answers:
// contents are compared with hashes.
func Transport(roots *x509.CertPool, dial func(ctx context.Context, network, address string) (net.Conn, error)) *http.Transport {
	return &http.Transport{
		DialContext:           dial,
		TLSClientConfig:       &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:   DialTimeout,
		ResponseHeaderTimeout: Patience,
		DisableCompression:    true,
		ForceAttemptHTTP2:     true,
	}
}

// CheckRedirect rejects redirects that leave TLS or carry a password, and too many of them. It is for an
// [http.Client].
func CheckRedirect(r *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return fmt.Errorf("it redirects more than %d times", maxRedirects)
	}
	if r.URL.User != nil {
		return errors.New("it redirects to an address with a password")
	}
	for _, v := range via {
		if r.URL.Scheme != "https" && v.URL.Scheme == "https" {
			return spec.Errorf(spec.ErrDenied, "it redirects from https to %s, in clear", r.URL.Host)
		}
	}
	return nil
}

// Do sends a request, and gives up if its body or the answer's makes no progress for that long. GetBody
// opens the body. The error does not quote the address.
func Do(c *http.Client, r *http.Request, patience time.Duration) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	r = r.WithContext(ctx)
	var resp *http.Response
	err := openBody(r, cancel, patience)
	if err == nil {
		resp, err = c.Do(r)
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		cancel(nil)
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err
		}
		return nil, err
	}
	resp.Body = &download{ReadCloser: resp.Body, ctx: ctx, cancel: cancel, patience: patience}
	return resp, nil
}

// openBody opens the body of a request that is not sent yet.
func openBody(r *http.Request, cancel context.CancelCauseFunc, patience time.Duration) (err error) {
	open := r.GetBody
	if open == nil {
		return nil
	}
	r.GetBody = func() (io.ReadCloser, error) {
		body, err := open()
		if err != nil {
			return nil, err
		}
		return newUpload(cancel, body, patience), nil
	}
	r.Body, err = r.GetBody()
	return err
}

// Resume calls more until it succeeds, as long as each call makes progress: done returns the number of
// bytes so far. It stops after an error that again does not accept.
func Resume(ctx context.Context, done func() int64, again func(error) bool, more func(context.Context) error) (err error) {
	for range attempts {
		before := done()
		err = more(ctx)
		if err == nil || !again(err) || errors.Is(err, ErrSlow) || ctx.Err() != nil || done() <= before {
			break
		}
	}
	return err
}

// AskFrom requests all bytes but the first.
func AskFrom(h http.Header, first int64) {
	if first > 0 {
		h.Set("Range", fmt.Sprintf("bytes=%d-", first))
	}
}

// IsFrom reports whether a partial answer starts where AskFrom asked it to.
func IsFrom(resp *http.Response, first int64) bool {
	return strings.HasPrefix(resp.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", first))
}
