package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/inspect/strict"
	"github.com/bothy-dev/bothy/internal/gateway/inspect/upstream"
	"github.com/bothy-dev/bothy/internal/gateway/netstack"
	"github.com/bothy-dev/bothy/internal/gateway/relay"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/spec"
)

// errDropped is for a connection that ended before the inside sent anything.
var errDropped = errors.New("it has ended before anything was said")

// noHello is for bytes that may begin a ClientHello but do not go on.
func noHello() error {
	return fmt.Errorf("%w: no ClientHello of TLS has come whole within %s", strict.ErrNoHTTP, helloTime)
}

// firstWord is how long a connection that may speak any protocol gets to send something. In many
// protocols the server speaks first.
const firstWord = 200 * time.Millisecond

// maxLine bounds the first line of a connection that may be HTTP.
const maxLine = 16 << 10

// lookInto answers a connection in the server's place, and inspects its bytes. A connection that is not
// HTTP is passed on, if the rules allow it.
func (g *Gateway) lookInto(ctx context.Context, a *netstack.Attempt, f *flow, r *spec.NetworkRecord, must bool) error {
	conn, err := a.Accept()
	if err != nil {
		return err
	}
	f.holdConn(conn)
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
	h := upstream.Host{Name: f.asJudged().Name, Addr: f.asJudged().Addr, Port: f.asJudged().Port}
	said, http, err := g.protocols.listen(inside, &h, g.judge.asking(f), must)
	switch {
	case err != nil:
		inside.Reset()
		return err
	case http:
		return g.inspect(ctx, inside, said, h, f, r)
	case must:
		inside.Reset()
		return strict.ErrNoHTTP
	}
	if err := g.uploads.mayBegin(f); err != nil {
		inside.Reset()
		return err
	}
	outside, err := g.outbound.reached(ctx, f, r)
	if err != nil {
		inside.Reset()
		return err
	}
	if len(said) == 0 && insideFirst(inside, outside) {
		if said, http, err = g.protocols.listen(inside, &h, g.judge.asking(f), false); http {
			outside.Reset() // there will be others, for requests
			return g.inspect(ctx, inside, said, h, f, r)
		}
		if err != nil {
			outside.Reset()
			inside.Reset()
			return err
		}
	}
	return g.relayBytes(inside, outside, said, f, r)
}

// inspect hands over a connection that speaks HTTP.
func (g *Gateway) inspect(ctx context.Context, inside relay.Conn, said []byte, h upstream.Host, f *flow, r *spec.NetworkRecord) error {
	f.markSeen()
	r.Protocol = "http"
	if h.TLS {
		r.Protocol = "https"
	}
	first := *r
	f.requests.Passes = func() error { return g.tracks.opened(f, first) }
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

// logRequest completes the record of a request. No decision exists for a request to a played
// server.
func (g *Gateway) logRequest(r spec.NetworkRecord, d *policy.Decision) {
	if r.Mocked {
		if r.Reason == "" {
			r.Reason = mockReason
		}
		g.journal.record(r)
		return
	}
	if spec.IsHostName(r.Name) { // no rule is about the host
		g.logHostRequest(r)
		return
	}
	full := g.journal.decided(r, d)
	if r.Verdict != "" {
		full.Verdict, full.Reason = r.Verdict, r.Reason
	}
	g.journal.record(full)
}
