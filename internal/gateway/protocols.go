package gateway

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/clienthello"
	"github.com/bothy-dev/bothy/internal/gateway/held"
	"github.com/bothy-dev/bothy/internal/gateway/inspect"
	"github.com/bothy-dev/bothy/internal/gateway/inspect/strict"
	"github.com/bothy-dev/bothy/internal/gateway/inspect/upstream"
	"github.com/bothy-dev/bothy/internal/gateway/relay"
)

// protocols finds out which protocol a connection of the inside speaks.
type protocols struct{ held *held.Budget }

// listen finds out which protocol a connection speaks. It returns the bytes it has read.
func (p *protocols) listen(c relay.Conn, h *upstream.Host, asks func(string) error, must bool) (said []byte, http bool, err error) {
	patience := helloTime
	if !must {
		patience = firstWord
	}
	hold := p.held.Hold()
	defer hold.Release()
	if err := hold.Take(maxLine); err != nil {
		return nil, false, err
	}
	_ = c.SetReadDeadline(time.Now().Add(patience))
	defer func() { _ = c.SetReadDeadline(time.Time{}) }()
	buf := make([]byte, 2048)
	n, err := c.Read(buf)
	said = buf[:n]
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded) || isTimeout(err), n == 0 && err == io.EOF && !must:
		return nil, false, nil // it may only want to listen
	case n == 0 && err == io.EOF:
		return nil, false, errDropped
	case n == 0:
		return nil, false, err
	}
	_ = c.SetReadDeadline(time.Now().Add(helloTime))
	if clienthello.Begins(said) != clienthello.No {
		said, http, err = p.listenTLS(c, said, h, asks, must)
		if !errors.Is(err, clienthello.ErrNotTLS) {
			return said, http, err
		}
	}
	if must {
		return said, true, nil
	}
	return readLine(c, said)
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

// readLine reads to the end of the first line that is not empty. It reports whether the line may
// start a request, as the most generous server would read it. It refuses a line that stays
// undecided.
func readLine(c io.Reader, said []byte) ([]byte, bool, error) {
	for {
		text := bytes.TrimLeft(said, "\r\n")
		line, _, whole := bytes.Cut(text, []byte("\n"))
		if whole || bytes.ContainsFunc(line, func(r rune) bool { return r < ' ' && r != '\r' && r != '\t' }) {
			return said, strict.MayBeRequest(line), nil
		}
		if len(said) >= maxLine {
			return nil, false, strict.ErrNoHTTP
		}
		buf := make([]byte, 2048)
		n, err := c.Read(buf)
		said = append(said, buf[:n]...)
		switch {
		case err == io.EOF:
			return said, strict.MayBeRequest(line), nil
		case isTimeout(err):
			return nil, false, strict.ErrNoHTTP
		case err != nil:
			return nil, false, err
		}
	}
}

// listenTLS reads a ClientHello: the name it asks for, and the protocols it offers.
func (p *protocols) listenTLS(c relay.Conn, begun []byte, h *upstream.Host, asks func(string) error, must bool) ([]byte, bool, error) {
	info, said, err := clienthello.Read(begun, c)
	switch {
	case isTimeout(err):
		return nil, false, noHello()
	case err != nil:
		return said, false, err
	}
	h.TLS = true
	if err := asks(info.ServerName); err != nil {
		return nil, false, err
	}
	speaks := len(info.Protocols) == 0 || slices.ContainsFunc(info.Protocols, func(p string) bool {
		return !slices.Contains(otherProtocols, p)
	})
	if !speaks && must {
		return nil, false, inspect.OffersOther(info.Protocols)
	}
	return said, speaks, nil
}

// otherProtocols are the TLS protocols (ALPN) that are not HTTP. The gateway takes all others for
// HTTP: a server might ignore the value.
var otherProtocols = []string{
	"acme-tls/1", "coap", "dot", "ftp", "imap", "irc", "managesieve", "mqtt", "nats", "nntp", "ntske/1", "pop3", "postgresql",
	"radius/1.0", "radius/1.1", "sip/2", "smb", "smtp", "stun.nat-discovery", "stun.turn", "sunrpc", "tds/8.0", "xmpp-client", "xmpp-server",
}
