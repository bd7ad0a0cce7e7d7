package netstack

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"
)

// Dial connects to a server inside, from one of the gateway's addresses.
func (s *Stack) Dial(ctx context.Context, from netip.Addr, to netip.AddrPort) (*Conn, error) {
	queue := &waiter.Queue{}
	ep, err := s.stack.NewEndpoint(tcp.ProtocolNumber, protocolOf(to.Addr()), queue)
	if err != nil {
		return nil, fmt.Errorf("connect to %s inside: %s", to, err)
	}
	if err := connect(ctx, ep, queue, addressOf(netip.AddrPortFrom(from, 0)), addressOf(to)); err != nil {
		ep.Abort()
		return nil, fmt.Errorf("connect to %s inside: %w", to, err)
	}
	return newConn(ep, queue), nil
}

// connect waits for the answer of the other side.
func connect(ctx context.Context, ep tcpip.Endpoint, queue *waiter.Queue, from, to tcpip.FullAddress) error {
	entry, answered := waiter.NewChannelEntry(waiter.WritableEvents | waiter.EventErr | waiter.EventHUp)
	queue.EventRegister(&entry)
	defer queue.EventUnregister(&entry)
	if err := ep.Bind(from); err != nil {
		return errors.New(err.String())
	}
	err := ep.Connect(to)
	if _, started := err.(*tcpip.ErrConnectStarted); started {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-answered:
		}
		err = ep.LastError()
	}
	if err != nil {
		return errors.New(err.String())
	}
	return nil
}

func addressOf(a netip.AddrPort) tcpip.FullAddress {
	return tcpip.FullAddress{NIC: nic, Addr: tcpip.AddrFromSlice(a.Addr().AsSlice()), Port: a.Port()}
}

// newConn sets up a connection.
func newConn(ep tcpip.Endpoint, queue *waiter.Queue) *Conn {
	options := ep.SocketOptions()
	options.SetKeepAlive(true)
	options.SetDelayOption(false)
	idle, interval := tcpip.KeepaliveIdleOption(keepAliveAfter), tcpip.KeepaliveIntervalOption(keepAliveEvery)
	_ = ep.SetSockOpt(&idle)
	_ = ep.SetSockOpt(&interval)
	_ = ep.SetSockOptInt(tcpip.KeepaliveCountOption, keepAliveCount)
	return &Conn{TCPConn: gonet.NewTCPConn(queue, ep), ep: ep, queue: queue}
}
