// Package insidetest is the other end of a sandbox's network card, for tests: a stack like a sandbox's,
// without the sandbox.
package insidetest

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/link/fdbased"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv6"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/icmp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"
)

// Inside is a sandbox's network without the sandbox.
type Inside struct {
	Stack *stack.Stack
	FD    int // its end of the card
	// NameServer answers at port 53.
	NameServer netip.Addr
}

// New starts a stack with these addresses on the sandbox's end of a card. Like a sandbox's stack, it
// neither makes nor checks checksums.
func New(t testing.TB, fd, mtu int, nameServer netip.Addr, addresses ...netip.Addr) *Inside {
	t.Helper()
	return start(t, fd, mtu, true, nameServer, addresses...)
}

// NewSumming is New with a stack that makes and checks checksums, as a kernel does.
func NewSumming(t testing.TB, fd, mtu int, nameServer netip.Addr, addresses ...netip.Addr) *Inside {
	t.Helper()
	return start(t, fd, mtu, false, nameServer, addresses...)
}

func start(t testing.TB, fd, mtu int, unsummed bool, nameServer netip.Addr, addresses ...netip.Addr) *Inside {
	t.Helper()
	link, err := fdbased.New(&fdbased.Options{
		FDs: []int{fd}, MTU: uint32(mtu), PacketDispatchMode: fdbased.RecvMMsg, RXChecksumOffload: unsummed, TXChecksumOffload: unsummed,
		ProcessorsPerChannel: 1, // with more, they outlive the link
	})
	if err != nil {
		t.Fatal(err)
	}
	s := stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol, ipv6.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol, udp.NewProtocol, icmp.NewProtocol4, icmp.NewProtocol6},
	})
	try(t, s.CreateNIC(1, link))
	for _, a := range addresses {
		try(t, s.AddProtocolAddress(1, tcpip.ProtocolAddress{
			Protocol: Protocol(a), AddressWithPrefix: tcpip.AddrFromSlice(a.AsSlice()).WithPrefix(),
		}, stack.AddressProperties{}))
	}
	var routes []tcpip.Route
	for _, length := range []int{4, 16} {
		zeros := make([]byte, length)
		all, err := tcpip.NewSubnet(tcpip.AddrFromSlice(zeros), tcpip.MaskFromBytes(zeros))
		if err != nil {
			t.Fatal(err)
		}
		routes = append(routes, tcpip.Route{Destination: all, NIC: 1})
	}
	s.SetRouteTable(routes)
	t.Cleanup(func() { end(s, link, fd) })
	return &Inside{Stack: s, FD: fd, NameServer: nameServer}
}

// end takes down the stack and everything that it runs. It does not touch the gateway's end of the
// card.
func end(s *stack.Stack, link stack.LinkEndpoint, fd int) {
	s.Close()
	_ = unix.Shutdown(fd, unix.SHUT_RD) // else a gateway that goes on sending would keep the reader
	link.Attach(nil)
	s.RemoveNIC(1)
	s.Wait()
}

func try(t testing.TB, err tcpip.Error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Protocol returns the protocol of an address.
func Protocol(a netip.Addr) tcpip.NetworkProtocolNumber {
	if a.Is4() {
		return ipv4.ProtocolNumber
	}
	return ipv6.ProtocolNumber
}

// Full returns an address in the stack's form.
func Full(a netip.AddrPort) tcpip.FullAddress {
	return tcpip.FullAddress{NIC: 1, Addr: tcpip.AddrFromSlice(a.Addr().AsSlice()), Port: a.Port()}
}

// dialTime is how long connecting may take before it counts as hung.
const dialTime = time.Minute

// Dial connects to an address, as a program inside would.
func (in *Inside) Dial(ctx context.Context, to netip.AddrPort) (*gonet.TCPConn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	return gonet.DialContextTCP(ctx, in.Stack, Full(to), Protocol(to.Addr()))
}

// Listen waits for connections at an address, as a server inside would.
func (in *Inside) Listen(t testing.TB, at netip.AddrPort) *gonet.TCPListener {
	t.Helper()
	l, err := gonet.ListenTCP(in.Stack, Full(at), Protocol(at.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// Resolver asks the name server over datagrams, or over TCP.
func (in *Inside) Resolver(overTCP bool) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		at := netip.AddrPortFrom(in.NameServer, 53)
		if overTCP {
			return in.Dial(ctx, at)
		}
		to := Full(at)
		return gonet.DialUDP(in.Stack, nil, &to, Protocol(in.NameServer))
	}}
}

// DialUDP makes a socket for datagrams to an address.
func (in *Inside) DialUDP(to netip.AddrPort) (*gonet.UDPConn, error) {
	at := Full(to)
	return gonet.DialUDP(in.Stack, nil, &at, Protocol(to.Addr()))
}

// Send sends a datagram, as a program inside would.
func (in *Inside) Send(to netip.AddrPort, b []byte) error {
	c, err := in.DialUDP(to)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	_, err = c.Write(b)
	return err
}

// DialName looks a name up and connects to its first address.
func (in *Inside) DialName(ctx context.Context, name string, port uint16) (*gonet.TCPConn, error) {
	addresses, err := in.Resolver(false).LookupNetIP(ctx, "ip4", name+".")
	if err != nil {
		return nil, err
	}
	return in.Dial(ctx, netip.AddrPortFrom(addresses[0].Unmap(), port))
}
