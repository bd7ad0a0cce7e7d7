package netstack

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"
)

// Attempt is a connection that the inside wants and that nobody has answered
// yet. It must be accepted or refused, and is refused if its handler returns
// without either.
type Attempt struct {
	From, To netip.AddrPort
	stack    *Stack
	request  *tcp.ForwarderRequest
	once     sync.Once
}

func (s *Stack) attempt(r *tcp.ForwarderRequest) {
	id := r.ID()
	a := &Attempt{
		stack:   s,
		request: r,
		From:    netip.AddrPortFrom(address(id.RemoteAddress), id.RemotePort),
		To:      netip.AddrPortFrom(address(id.LocalAddress), id.LocalPort),
	}
	defer a.Refuse()
	s.opens()
	defer s.ends()
	s.conf.TCP(a)
}

// address keeps an IPv4 address that is written as IPv6 as it is: nothing
// inside has reason to send such packets, and rules for IPv4 do not mean them.
func address(a tcpip.Address) netip.Addr {
	addr, _ := netip.AddrFromSlice(a.AsSlice())
	return addr
}

// Refuse answers with a reset, unless there was an answer already.
func (a *Attempt) Refuse() { a.once.Do(func() { a.request.Complete(true) }) }

// Keep-alive of connections: a peer that vanished is noticed.
const (
	keepAliveAfter = 2 * time.Minute
	keepAliveEvery = 30 * time.Second
	keepAliveCount = 4
)

// Accept completes the handshake.
func (a *Attempt) Accept() (*Conn, error) {
	err := errors.New("the attempt was answered already")
	var conn *Conn
	a.once.Do(func() { conn, err = a.accept() })
	return conn, err
}

func (a *Attempt) accept() (*Conn, error) {
	queue := &waiter.Queue{}
	ep, err := a.request.CreateEndpoint(queue)
	if err != nil {
		a.request.Complete(true)
		if _, ok := err.(*tcpip.ErrConnectionReset); ok {
			return nil, ErrCut
		}
		return nil, fmt.Errorf("the program inside did not complete the connection: %s", err)
	}
	a.request.Complete(false)
	a.stack.fit(ep)
	return newConn(ep, queue), nil
}

// Conn is a connection with the inside.
type Conn struct {
	*gonet.TCPConn
	ep    tcpip.Endpoint
	queue *waiter.Queue
}

var _ net.Conn = (*Conn)(nil)

// ErrCut is what an Accept and a Read fail with that the inside has cut off.
var ErrCut = errors.New("the program inside has cut the connection")

// reset is what the stack calls that. The error's type is lost on the way.
var reset = (&tcpip.ErrConnectionReset{}).String()

// Read tells that the inside has cut the connection from all other ends: a server's reset
// reads the same.
func (c *Conn) Read(b []byte) (int, error) {
	n, err := c.TCPConn.Read(b)
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Err.Error() == reset {
		err = ErrCut
	}
	return n, err
}

// Await returns when there is something to read, or nothing ever will be.
func (c *Conn) Await() {
	const signs = waiter.ReadableEvents | waiter.EventRdHUp | waiter.EventHUp | waiter.EventErr
	entry, ready := waiter.NewChannelEntry(signs)
	c.queue.EventRegister(&entry)
	defer c.queue.EventUnregister(&entry)
	if c.ep.Readiness(signs) == 0 {
		<-ready
	}
}

// askOften is how often a program inside that has said all is asked whether it still listens.
// If it does not, its kernel says so a minute after it has hung up.
var askOften = 15 * time.Second

// AwaitCut waits, on a connection whose program has said all, for it to be cut off, and is
// false if it is told to stop before. That the program has hung up looks the same at first:
// nothing tells before something is sent, or its kernel has forgotten about it.
func (c *Conn) AwaitCut(stop <-chan struct{}) bool {
	const signs = waiter.EventHUp | waiter.EventErr
	entry, cut := waiter.NewChannelEntry(signs)
	c.queue.EventRegister(&entry)
	defer c.queue.EventUnregister(&entry)
	every, idle := tcpip.KeepaliveIntervalOption(askOften), tcpip.KeepaliveIdleOption(askOften)
	_ = c.ep.SetSockOpt(&every)
	_ = c.ep.SetSockOpt(&idle)
	for c.ep.Readiness(signs)&signs == 0 {
		select {
		case <-cut:
		case <-stop:
			return false
		}
	}
	return true
}

// CloseWrite ends what is said to the inside. If it has cut the connection there
// is nothing left to end, and no failure in that.
func (c *Conn) CloseWrite() error {
	switch err := c.ep.Shutdown(tcpip.ShutdownWrite).(type) {
	case nil, *tcpip.ErrNotConnected:
		return nil
	default:
		return fmt.Errorf("end what is said to the inside: %s", err)
	}
}

// Reset ends the connection so that the inside sees it was cut: a download
// that broke off must not look complete.
func (c *Conn) Reset() {
	c.ep.Abort()
	_ = c.Close()
}
