package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/clienthello"
	"github.com/bothy-dev/bothy/internal/gateway/inspect"
	"github.com/bothy-dev/bothy/internal/gateway/netstack"
	"github.com/bothy-dev/bothy/internal/gateway/relay"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/spec"
)

// errDropped is for a connection that ended before the inside sent anything.
var errDropped = errors.New("it has ended before anything was said")

// noHello is for bytes that may begin a ClientHello but do not go on.
func noHello() error {
	return fmt.Errorf("%w: no ClientHello of TLS has come whole within %s", inspect.ErrNoHTTP, helloTime)
}

// firstWord is how long a connection that may speak any protocol gets to send something. In many
// protocols the server speaks first.
const firstWord = 200 * time.Millisecond

// maxLine bounds the first line of what may be HTTP.
const maxLine = 16 << 10

// look answers a connection in the server's place, and inspects its bytes. A connection that is not
// HTTP is passed on, if the rules allow it.
func (g *Gateway) look(ctx context.Context, a *netstack.Attempt, f *flow, r *spec.NetworkRecord, must bool) error {
	conn, err := a.Accept()
	if err != nil {
		return err
	}
	f.hold(conn)
	var inside relay.Conn = conn
	if must && f.git {
		isSSH := false
		if inside, isSSH, err = beginsSSH(conn); err != nil {
			conn.Reset()
			return err
		}
		if isSSH {
			return g.serveGit(ctx, inside, f, r)
		}
	}
	h := inspect.Host{Name: f.now().Name, Addr: f.now().Addr, Port: f.now().Port}
	said, http, err := g.listen(inside, &h, g.asking(f), must)
	switch {
	case err != nil:
		inside.Reset()
		return err
	case http:
		return g.inspect(ctx, inside, said, h, f, r)
	case must:
		inside.Reset()
		return inspect.ErrNoHTTP
	}
	if err := g.mayBegin(f); err != nil {
		inside.Reset()
		return err
	}
	outside, err := g.reached(ctx, f, r)
	if err != nil {
		inside.Reset()
		return err
	}
	if len(said) == 0 && insideFirst(inside, outside) {
		if said, http, err = g.listen(inside, &h, g.asking(f), false); http {
			outside.Reset() // there will be others, for requests
			return g.inspect(ctx, inside, said, h, f, r)
		}
		if err != nil {
			outside.Reset()
			inside.Reset()
			return err
		}
	}
	return g.relay(inside, outside, said, f, r)
}

// inspect hands over a connection that speaks HTTP.
func (g *Gateway) inspect(ctx context.Context, inside relay.Conn, said []byte, h inspect.Host, f *flow, r *spec.NetworkRecord) error {
	f.seen()
	r.Protocol = "http"
	if h.TLS {
		r.Protocol = "https"
	}
	first := *r
	f.requests.Passes = func() error { return g.opened(f, first) }
	return g.inspector.Serve(ctx, inside, said, h, &f.counts, &f.requests)
}

// insideFirst waits until one of the two sides speaks or ends, and reports whether it was the
// inside.
func insideFirst(inside, outside relay.Conn) bool {
	in, out := make(chan struct{}), make(chan struct{})
	go func() { inside.Await(); close(in) }()
	go func() { outside.Await(); close(out) }()
	select {
	case <-in:
		return true
	case <-out:
		return false
	}
}

// listen finds out which protocol a connection speaks. It returns the bytes it has read.
func (g *Gateway) listen(c relay.Conn, h *inspect.Host, asks func(string) error, must bool) (said []byte, http bool, err error) {
	patience := helloTime
	if !must {
		patience = firstWord
	}
	hold := g.held.Hold()
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
		said, http, err = g.listenTLS(c, said, h, asks, must)
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
			return said, inspect.MayBeRequest(line), nil
		}
		if len(said) >= maxLine {
			return nil, false, inspect.ErrNoHTTP
		}
		buf := make([]byte, 2048)
		n, err := c.Read(buf)
		said = append(said, buf[:n]...)
		switch {
		case err == io.EOF:
			return said, inspect.MayBeRequest(line), nil
		case isTimeout(err):
			return nil, false, inspect.ErrNoHTTP
		case err != nil:
			return nil, false, err
		}
	}
}

// listenTLS reads a ClientHello: the name it asks for, and the protocols it offers.
func (g *Gateway) listenTLS(c relay.Conn, begun []byte, h *inspect.Host, asks func(string) error, must bool) ([]byte, bool, error) {
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

// asking returns the judge of the name that a ClientHello on a flow asks for: it must be the name
// that was looked up or, at a literal address, a name that no rule denies.
func (g *Gateway) asking(f *flow) func(string) error {
	return func(asked string) error {
		s := f.now()
		switch {
		case asked == "" || isName(asked, s.Name) || f.kind == toHost:
			return nil
		case s.Name != "":
			return fmt.Errorf("%w: %q", errOtherName, asked)
		case isAddr(asked, s.Addr): // which was judged
			return nil
		}
		if d := g.mayAsk(f, asked, s.Port); !d.Allowed() {
			return &policy.Denied{Decision: d}
		}
		return nil
	}
}

// isName compares a name that a client asks for with one that was judged. Only letters of ASCII
// are alike in both cases.
func isName(asked, name string) bool {
	clean, err := policy.CleanName(asked)
	return name != "" && err == nil && clean == name
}

// mayAsk judges the name that the client of a literal address asks for. It notes the name first:
// from then on rule changes find it.
func (g *Gateway) mayAsk(f *flow, name string, port uint16) policy.Decision {
	f.askedFor(name)
	return g.policy.Load().Asks(name, port, time.Now())
}

// isAddr reports whether a text is the given address.
func isAddr(text string, addr netip.Addr) bool {
	a, err := netip.ParseAddr(text)
	return err == nil && a.Unmap() == addr.Unmap()
}

// anyName is the placeholder for a name that the gateway could not read.
const anyName = "an unreadable name"

// unreadable returns the judge of an unreadable possible ClientHello. At a literal address it may
// ask for any name or none, or be another protocol: it passes if no rule denies a name.
func (g *Gateway) unreadable(f *flow) func(error) error {
	return func(err error) error {
		s := f.now()
		if s.Name != "" {
			return err
		}
		if d := g.mayAsk(f, anyName, s.Port); !d.Allowed() {
			return err
		}
		return nil
	}
}

// judgeRequest decides about a request on an inspected connection.
func (g *Gateway) judgeRequest(h inspect.Host, r *policy.Request) policy.Decision {
	if isHost(h.Name) {
		return g.judgeHost(h)
	}
	return g.policy.Load().Decide(policy.Query{
		Stage: policy.StageRequest, Name: h.Name, Addr: h.Addr, Port: h.Port, Request: r, Now: time.Now(),
	})
}

// admitRequest is judgeRequest for a new request: it refuses the request if the rule's budget is
// used up.
func (g *Gateway) admitRequest(h inspect.Host, r *policy.Request) policy.Decision {
	d := g.judgeRequest(h, r)
	g.afford(&d)
	return d
}

// reachHost dials for an inspected connection.
func (g *Gateway) reachHost(ctx context.Context, h inspect.Host) (relay.Conn, error) {
	return g.reach(ctx, policy.Flow{Name: h.Name, Addr: h.Addr, Port: h.Port}, !h.TLS)
}

// logRequest completes the record of a request. No decision exists for a request to a played
// server.
func (g *Gateway) logRequest(r spec.NetworkRecord, d *policy.Decision) {
	if r.Mocked {
		if r.Reason == "" {
			r.Reason = mockReason
		}
		g.log(r)
		return
	}
	if isHost(r.Name) { // whom no rule is about
		g.logHostRequest(r)
		return
	}
	full := g.decided(r, d)
	if r.Verdict != "" {
		full.Verdict, full.Reason = r.Verdict, r.Reason
	}
	g.log(full)
}

// mayGoOn judges a connection to a server again.
func (g *Gateway) mayGoOn(h inspect.Host, addr netip.Addr) bool {
	if isHost(h.Name) {
		d := g.judgeHost(h)
		return d.Allowed()
	}
	if !addr.IsValid() && g.mayResolveElsewhere(h.Port) != nil {
		return false
	}
	d := g.policy.Load().Still(policy.Flow{Name: h.Name, Addr: addr, Port: h.Port, Seen: true}, time.Now())
	return d.Allowed()
}
