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

// Attempt is a connection that the inside wants and that was not answered yet. It must be accepted
// or refused, and is refused if its handler returns without either.
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
	s.countOpened()
	defer s.countEnded()
	s.conf.TCP(a)
}

// address keeps an IPv4 address in IPv6 form as it is: programs inside have no reason to send such
// packets, and rules for IPv4 do not apply to them.
func address(a tcpip.Address) netip.Addr {
	addr, _ := netip.AddrFromSlice(a.AsSlice())
	return addr
}

// Refuse answers with a reset, unless the attempt was answered already.
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
	a.stack.fitBuffers(ep)
	return newConn(ep, queue), nil
}

// Conn is a connection with the inside.
type Conn struct {
	*gonet.TCPConn
	ep    tcpip.Endpoint
	queue *waiter.Queue
}

var _ net.Conn = (*Conn)(nil)

// ErrCut is the error of an Accept or a Read if the inside has cut the connection.
var ErrCut = errors.New("the program inside has cut the connection")

// reset is the stack's text for that. The error's type is lost on the way.
var reset = (&tcpip.ErrConnectionReset{}).String()

// Read distinguishes a cut by the inside from all other ends: a server's reset reads the same.
func (c *Conn) Read(b []byte) (int, error) {
	n, err := c.TCPConn.Read(b)
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Err.Error() == reset {
		err = ErrCut
	}
	return n, err
}

// Await returns when bytes have arrived, or none ever will.
func (c *Conn) Await() {
	const signs = waiter.ReadableEvents | waiter.EventRdHUp | waiter.EventHUp | waiter.EventErr
	entry, ready := waiter.NewChannelEntry(signs)
	c.queue.EventRegister(&entry)
	defer c.queue.EventUnregister(&entry)
	if c.ep.Readiness(signs) == 0 {
		<-ready
	}
}

// askOften is how often a program inside that has sent its end is probed. If the program has hung
// up, its kernel answers so a minute later.
var askOften = 15 * time.Second

// AwaitCut waits for a connection to be cut whose program has sent its end. It returns false if it
// is told to stop before. A program that hung up looks the same at first: only bytes sent to it
// show the difference, or its kernel has forgotten the connection.
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

// CloseWrite sends the end to the inside. It returns no error if the inside has cut the connection:
// nothing is left to end.
func (c *Conn) CloseWrite() error {
	switch err := c.ep.Shutdown(tcpip.ShutdownWrite).(type) {
	case nil, *tcpip.ErrNotConnected:
		return nil
	default:
		return fmt.Errorf("end the direction to the inside: %s", err)
	}
}

// Reset ends the connection so that the inside sees a cut: a download that broke off must not look
// complete.
func (c *Conn) Reset() {
	c.ep.Abort()
	_ = c.Close()
}
