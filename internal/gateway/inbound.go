package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/namepool"
	"github.com/bothy-dev/bothy/internal/gateway/netstack"
	"github.com/bothy-dev/bothy/internal/gateway/relay"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/spec"
)

// maxInbound bounds the connections to the published ports of one sandbox: each takes a file descriptor
// of the host.
const maxInbound = 512

// insideTime is how long a server inside may take to answer a handshake.
const insideTime = 3 * time.Second

// acceptPause is how long a listener waits if the host lacks the resources to accept a connection.
const acceptPause = 100 * time.Millisecond

// Publish carries connections from a listener of the host to a port inside. The returned function closes
// the listener and ends those connections.
func (g *Gateway) Publish(l *net.TCPListener, port uint16) (end func()) {
	p := &published{g: g, port: port, rule: flagOf(l, port), flows: &table{}}
	stop := context.AfterFunc(g.life.ctx, func() { _ = l.Close() })
	g.life.wg.Go(func() { p.accept(l) })
	return func() {
		stop()
		_ = l.Close()
		p.closed.Store(true)
		for _, f := range p.flows.listFlows() {
			f.cutOff(errUnpublished)
		}
	}
}

// errUnpublished ends connections to a port whose publication has ended.
var errUnpublished = errors.New("the port is not published any more")

// flagOf formats a listener as the flag that made it.
func flagOf(l *net.TCPListener, port uint16) string {
	at, err := netip.ParseAddrPort(l.Addr().String())
	if err != nil {
		return ""
	}
	p := spec.Port{HostIP: at.Addr(), HostPort: at.Port(), Port: port, Protocol: spec.ProtocolTCP}
	return "--publish " + p.String()
}

// published is one published port.
type published struct {
	g      *Gateway
	port   uint16
	rule   string
	flows  *table
	closed atomic.Bool
}

func (p *published) accept(l *net.TCPListener) {
	for {
		c, err := l.AcceptTCP()
		switch {
		case err == nil:
			p.g.life.wg.Go(func() { p.carryCaller(relay.TCP{TCPConn: c}) })
		case errors.Is(err, net.ErrClosed) || p.g.life.ctx.Err() != nil:
			return
		default:
			time.Sleep(acceptPause)
		}
	}
}

// carryCaller connects a client on the host to the server inside. The client is connected to us already:
// if no server answers inside, it sees a reset.
func (p *published) carryCaller(outside relay.TCP) {
	defer outside.Reset()
	g := p.g
	from := relay.Remote(outside)
	if !from.IsValid() {
		return
	}
	r := spec.NetworkRecord{
		Event: spec.NetworkFlow, Direction: spec.DirectionIn, Addr: from, Port: p.port, Protocol: "tcp",
		Verdict: spec.VerdictAllow, Rule: p.rule, Source: "sandbox",
	}
	if g.callers.Add(1) > maxInbound {
		g.callers.Add(-1)
		r.Verdict, r.Reason = spec.VerdictDeny, fmt.Sprintf("%d connections to published ports are open already", maxInbound)
		g.journal.record(r)
		return
	}
	defer g.callers.Add(-1)
	f := &flow{kind: inbound, subject: policy.Flow{Addr: r.Addr, Port: p.port}, cancel: func() {}}
	p.flows.addFlow(f)
	defer p.flows.remove(f)
	g.tracks.trackFlow(f, r, func(ctx context.Context, r *spec.NetworkRecord) error {
		f.holdConn(outside)
		if p.closed.Load() { // between Accept and Add
			return net.ErrClosed
		}
		inside, err := g.inside.dialServer(ctx, p.port)
		if err != nil {
			return err
		}
		f.holdConn(inside)
		if err := g.tracks.opened(f, *r); err != nil {
			return err
		}
		return relay.Run(inside, outside, &f.counts, g.copies)
	})
}

// Dial connects to a server inside.
func (g *Gateway) Dial(ctx context.Context, port uint16) (net.Conn, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(g.life.ctx, func() { cancel(errClosed) })()
	c, err := g.inside.dialServer(ctx, port)
	if err != nil {
		return nil, err
	}
	return c, nil
}

var errClosed = errors.New("the sandbox is stopped")

// dialServer tries the inside's own addresses, and then its loopback: many servers listen only there.
func (i *inside) dialServer(ctx context.Context, port uint16) (*netstack.Conn, error) {
	c, err := i.dialCard(ctx, namepool.Gateway4, netip.AddrPortFrom(namepool.Inside4, port))
	if err == nil {
		return c, nil
	}
	if c, err := i.dialCard(ctx, namepool.Gateway6, netip.AddrPortFrom(namepool.Inside6, port)); err == nil {
		return c, nil
	}
	if i.join != nil {
		if c, err := i.meetInit(ctx, port); err == nil {
			return c, nil
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return nil, fmt.Errorf("no server answers at port %d inside: %w", port, err)
}

func (i *inside) dialCard(ctx context.Context, from netip.Addr, to netip.AddrPort) (*netstack.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, insideTime)
	defer cancel()
	return i.stack.Dial(ctx, from, to)
}
