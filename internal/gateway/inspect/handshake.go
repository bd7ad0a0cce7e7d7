package inspect

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/ca"
	"github.com/bothy-dev/bothy/internal/gateway/inspect/strict"
	"github.com/bothy-dev/bothy/internal/gateway/netstack"
)

func (i *Inspector) handshake(ctx context.Context, c *conn, s *tls.Conn) error {
	_ = c.SetDeadline(time.Now().Add(headTime))
	err := s.HandshakeContext(ctx)
	c.settled = true
	if _, ours := errors.AsType[*ca.Expired](err); ours {
		return err
	}
	switch {
	case err != nil && i.speaksNone(c.offers):
		return OffersOther(c.offers)
	case err != nil:
		return failed(err, c)
	}
	return c.SetDeadline(time.Time{})
}

// speaksNone reports whether a client has offered protocols without HTTP among them.
func (i *Inspector) speaksNone(offers []string) bool {
	return len(offers) > 0 && !slices.ContainsFunc(offers, func(p string) bool { return slices.Contains(i.tls.NextProtos, p) })
}

// OffersOther is ErrNoHTTP for a TLS client that has offered protocols (ALPN).
func OffersOther(offers []string) error {
	return fmt.Errorf("%w: by TLS it offers %q", strict.ErrNoHTTP, strict.Clip(strings.Join(offers, ", ")))
}

// HandshakeError reports that the client did not agree to a TLS connection with the gateway.
type HandshakeError struct {
	Err error
	// Distrust reports that the client, as far as can be seen, does not trust the sandbox's
	// authority.
	Distrust bool
}

func (e *HandshakeError) Error() string {
	if e.Distrust {
		return "the client does not seem to trust the sandbox's certificate authority: " + e.Err.Error()
	}
	return "TLS with the client failed: " + e.Err.Error()
}

func (e *HandshakeError) Unwrap() error { return e.Err }

var errNoHandshake = errors.New("it hung up when it had seen a certificate")

// failed reports whether a handshake failed for lack of trust: by the client's alert or, if the
// client got a certificate, by its hanging up without an alert, as node does.
func failed(err error, c *conn) error {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "remote error" {
		return &HandshakeError{Err: err, Distrust: slices.ContainsFunc(distrust, func(a tls.AlertError) bool { return op.Err.Error() == a.Error() })}
	}
	if a, ok := plainAlert(c.last); ok {
		return &HandshakeError{Err: fmt.Errorf("remote error: %w", a), Distrust: slices.Contains(distrust, a)}
	}
	if c.shown && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, netstack.ErrCut)) {
		return &HandshakeError{Err: errNoHandshake, Distrust: true}
	}
	return &HandshakeError{Err: err}
}

// distrust are the alerts of a client that rejects a certificate (RFC 8446, 6.2): bad_certificate,
// unsupported_certificate, certificate_revoked, certificate_expired, certificate_unknown,
// unknown_ca.
var distrust = []tls.AlertError{42, 43, 44, 45, 46, 48}

// alertSize is the size of an unencrypted alert.
const alertSize = 7

// plainAlert reads an alert that a client has sent unencrypted, as OpenSSL does when it rejects a
// certificate. Package tls takes it for garbage.
func plainAlert(record []byte) (tls.AlertError, bool) {
	if len(record) != alertSize || !bytes.HasPrefix(record, []byte{21, 3}) || record[3] != 0 || record[4] != 2 {
		return 0, false
	}
	return tls.AlertError(record[6]), true
}
