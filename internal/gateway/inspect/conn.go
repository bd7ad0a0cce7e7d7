package inspect

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/bothy-dev/bothy/internal/gateway/held"
	"github.com/bothy-dev/bothy/internal/gateway/inject"
	"github.com/bothy-dev/bothy/internal/gateway/inspect/strict"
	"github.com/bothy-dev/bothy/internal/gateway/inspect/upstream"
	"github.com/bothy-dev/bothy/internal/gateway/relay"
	"github.com/bothy-dev/bothy/internal/gateway/uploadlimit"
	"github.com/bothy-dev/bothy/internal/policy"
)

// conn is a connection of the inside.
type conn struct {
	relay.Conn
	host    upstream.Host
	rest    []byte // read before, not yet given out
	counts  *relay.Counts
	track   *Track
	hold    *held.Hold   // bytes, for as long as it lasts
	strict  *strict.Conn // over HTTP/1
	frames  *frames      // over HTTP/2
	offers  []string     // the protocols that the client offers in TLS, if it does
	shown   bool         // the client was sent a certificate
	settled bool         // the TLS handshake is over, or never will be
	last    []byte       // the last bytes read before that
	ended   atomic.Bool  // the client has sent its end, beneath TLS if there is any
	once    sync.Once
	done    chan struct{} // closed with the connection
}

func (c *conn) Read(b []byte) (int, error) {
	if len(c.rest) > 0 {
		n := copy(b, c.rest)
		c.rest = c.rest[n:]
		c.counts.Up.Add(int64(n))
		return n, nil
	}
	n, err := c.Conn.Read(b)
	c.counts.Up.Add(int64(n))
	if err == io.EOF {
		c.ended.Store(true)
	}
	if c.shown && !c.settled && n > 0 {
		c.last = append(c.last[:0], b[max(0, n-alertSize):n]...)
	}
	return n, err
}

func (c *conn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.counts.Down.Add(int64(n))
	return n, err
}

func (c *conn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { close(c.done) })
	return err
}

// Reset cuts the connection so that the inside notices.
func (c *conn) Reset() {
	c.Conn.Reset()
	c.once.Do(func() { close(c.done) })
}

// connKey is the context key under which a request finds its connection.
type connKey struct{}

func connOf(r *http.Request) *conn { return r.Context().Value(connKey{}).(*conn) }

// ownerOf returns our connection for the one that net/http's server has.
func ownerOf(c net.Conn) *conn { return c.(*frames).owner }

// Track knows the active requests of one connection. The zero Track is ready for use.
type Track struct {
	// Passes is called when a request was allowed, before any of it passes. If it returns an error,
	// the request does not pass. It must be safe for concurrent use; nil: no call.
	Passes func() error

	mu  sync.Mutex
	set map[*exchange]struct{}
}

// Review ends the requests that judge no longer allows, with the reason that judge returns. uses
// are the secrets that went out with the request. m counts its bytes; nil: not counted. A request
// that is being judged just now is judged once more.
func (t *Track) Review(judge func(r *policy.Request, uses inject.Uses, m *uploadlimit.Meter) error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for x := range t.set {
		if x.pending {
			x.stale = true
			continue
		}
		if err := judge(&x.request, x.uses, x.trip.Outflow); err != nil {
			x.over = &ended{err}
			x.cancel(x.over)
		}
	}
}

// noteUses notes the secrets in a request that is about to be sent.
func (t *Track) noteUses(x *exchange, uses inject.Uses) {
	t.mu.Lock()
	defer t.mu.Unlock()
	x.uses = uses
}

// asksInBody notes that the body of a request asks to be taken for another method, and judges it as
// that. If it may pass, its bytes count by that decision from here on: no change of rules falls
// between. The returned uses are the secrets in it.
func (t *Track) asksInBody(x *exchange, judge func(*policy.Request) policy.Decision) (d policy.Decision, uses inject.Uses, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	x.request.MethodInBody = true
	r := x.request
	d = judge(&r)
	switch b := d.Budget; {
	case b == nil: // denied, or the budget that it counted for so far has room, too
	case x.trip.Outflow == nil:
		return d, nil, errOtherUncounted
	default:
		x.trip.Outflow.Aim(b.Target, b.Limit)
	}
	return d, x.uses, nil
}

// begins notes that a request was allowed, and which meter counts its bytes. It returns false if
// the rules changed since the request was added, or since the last call: then it has not begun.
func (t *Track) begins(x *exchange, m *uploadlimit.Meter) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if x.stale {
		x.stale = false
		return false
	}
	x.pending, x.trip.Outflow = false, m
	return true
}

// ended is the cause of a request that other rules or leases have ended.
type ended struct{ why error }

func (e *ended) Error() string { return e.why.Error() }

func (e *ended) Unwrap() error { return e.why }

// passes calls Passes before a request passes.
func (t *Track) passes() error {
	if t.Passes == nil {
		return nil
	}
	return t.Passes()
}

func (t *Track) addExchange(ctx context.Context, x *exchange) context.Context {
	ctx, x.cancel = context.WithCancelCause(ctx)
	x.pending = true
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.set == nil {
		t.set = map[*exchange]struct{}{}
	}
	t.set[x] = struct{}{}
	return ctx
}

func (t *Track) remove(x *exchange) {
	t.mu.Lock()
	delete(t.set, x)
	t.mu.Unlock()
	x.cancel(nil)
}
