package gateway

import (
	"context"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/clienthello"
	"github.com/bothy-dev/bothy/internal/gateway/inspect/upstream"
	"github.com/bothy-dev/bothy/internal/gateway/netstack"
	"github.com/bothy-dev/bothy/internal/gateway/relay"
	"github.com/bothy-dev/bothy/spec"
)

// forward carries a connection whose server the host's proxy refuses to CONNECT to. If it
// speaks HTTP in clear, the proxy is sent its requests. Anything else ends as refused.
func (g *Gateway) forward(ctx context.Context, a *netstack.Attempt, f *flow, r *spec.NetworkRecord, refused error) error {
	inside, err := a.Accept()
	if err != nil {
		return err
	}
	f.holdConn(inside)
	said, speaks, err := g.protocols.beginsHTTP(inside)
	if err != nil || !speaks {
		inside.Reset()
		return refused
	}
	s := f.asJudged()
	return g.inspect(ctx, inside, said, upstream.Host{Name: s.Name, Addr: s.Addr, Port: s.Port}, f, r)
}

// beginsHTTP reports whether a client sends a request in clear. It returns the bytes it has read.
func (p *protocols) beginsHTTP(c relay.Conn) (said []byte, speaks bool, err error) {
	hold := p.held.Hold()
	defer hold.Release()
	if err := hold.Take(maxLine); err != nil {
		return nil, false, err
	}
	_ = c.SetReadDeadline(time.Now().Add(helloTime))
	defer func() { _ = c.SetReadDeadline(time.Time{}) }()
	buf := make([]byte, 2048)
	n, err := c.Read(buf)
	if n == 0 || clienthello.Begins(buf[:n]) != clienthello.No {
		return nil, false, err
	}
	return readLine(c, buf[:n])
}
