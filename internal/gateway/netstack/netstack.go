// Package netstack ends a sandbox's network card in this process: a TCP/IP stack in user space on
// the other end of the card's socket. All packets of the inside, to whatever address, arrive here
// and nowhere else.
//
// It decides nothing. It hands over each attempt to connect before it is answered, and likewise
// datagrams for the name server. It refuses everything else at once, with the answer that makes
// programs try something else.
package netstack

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv6"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/icmp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"

	"github.com/bothy-dev/bothy/spec"
)

// MTU is the MTU of the card. Frames cross a local socket, so a few large ones are cheaper than many
// small ones. The largest size of IPv4 is not a multiple of anything useful; this is.
const MTU = 65520

// Config configures a stack.
type Config struct {
	// FD is a datagram socket that carries IP packets, without a link header.
	// New takes it over.
	FD int
	// Unsummed says that the stack on the other end neither makes nor checks checksums, as
	// that of a sandbox whose card [Card] made: packets stay in this host's memory. Without
	// it both sides sum, as is needed if a kernel is on the other end, or another host.
	Unsummed bool
	// Sources are the prefixes whose packets of TCP and UDP are taken; nil: all packets.
	Sources []netip.Prefix
	// Gateway are the addresses of the name server, at port 53.
	Gateway []netip.Addr
	// TCP is called for each attempt to connect, on its own goroutine. It returns when the connection
	// has ended.
	TCP func(*Attempt)
	// DNS answers a message that came in a datagram; nil for no answer. It is
	// called on goroutines of its own.
	DNS func(query []byte) []byte
	// Refused is called with each packet that was refused. The reader of packets calls it, so it must
	// not wait for anything; nil: no call.
	Refused func(Refusal)
}

// Limits of one stack. They bound memory, not what a program can do.
const (
	maxAttempts  = 1024 // undecided attempts to connect; more are ignored, and come again
	maxQueries   = 256  // unanswered datagrams to the name server
	nic          = tcpip.NICID(1)
	nameServer   = 53
	datagramSize = 4096
)

// timeWait is how long an ended connection waits for late or repeated packets, which a card does
// not have. Its ports take no new connection meanwhile. A program inside may choose the same ports
// again: it would hang, or be refused if it connects in the moment that this ends.
const timeWait = time.Millisecond

// Stack is a running stack.
type Stack struct {
	stack *stack.Stack
	link  stack.LinkEndpoint
	conf  Config
	conns conns
}

// New starts a stack.
func New(conf Config) (*Stack, error) {
	s := &Stack{conf: conf}
	link, err := openLink(conf.FD, conf.Unsummed, func() { s.refused(Refusal{Protocol: spec.ProtocolIP, Form: malformed}) })
	if err != nil {
		return nil, err
	}
	s.link = link
	s.stack = stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol, ipv6.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol, udp.NewProtocol, icmp.NewProtocol4, icmp.NewProtocol6},
	})
	if err := s.configure(link); err != nil {
		s.Close()
		return nil, fmt.Errorf("configure the sandbox's network: %w", err)
	}
	return s, nil
}

// Close ends every connection and the card.
func (s *Stack) Close() {
	s.stack.Close()
	// The reader of packets ends before the stack does. A packet that it delivers just now may wait
	// for the stack, and the stack waits for the reader while it removes the card.
	s.link.Attach(nil)
	_ = unix.Shutdown(s.conf.FD, unix.SHUT_RDWR) // packets sent from now on are not read; other cards are not sockets
	s.stack.RemoveNIC(nic)
	s.stack.Wait()
}

func (s *Stack) configure(link stack.LinkEndpoint) error {
	if err := s.tcpOptions(); err != nil {
		return err
	}
	steps := []func() tcpip.Error{
		func() tcpip.Error { return s.stack.CreateNIC(nic, newFilter(link, s.conf.Sources, s.refused)) },
		func() tcpip.Error { return s.stack.SetPromiscuousMode(nic, true) }, // packets for any address are ours,
		func() tcpip.Error { return s.stack.SetSpoofing(nic, true) },        // and answered in its name
	}
	for _, a := range s.conf.Gateway {
		steps = append(steps, func() tcpip.Error { return s.addAddress(a) })
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return errors.New(err.String())
		}
	}
	s.stack.SetRouteTable([]tcpip.Route{
		{Destination: anywhere(4), NIC: nic}, {Destination: anywhere(16), NIC: nic},
	})
	s.stack.SetTransportProtocolHandler(tcp.ProtocolNumber, tcp.NewForwarder(s.stack, beginBuffer, maxAttempts, s.attempt).HandlePacket)
	s.stack.SetTransportProtocolHandler(udp.ProtocolNumber, s.datagram)
	return s.serveNames()
}

// datagram reports a datagram without a receiver. The stack refuses it.
func (s *Stack) datagram(id stack.TransportEndpointID, _ *stack.PacketBuffer) bool {
	s.refused(Refusal{Protocol: spec.ProtocolUDP, To: netip.AddrPortFrom(address(id.LocalAddress), id.LocalPort)})
	return false
}

func (s *Stack) refused(r Refusal) {
	if s.conf.Refused != nil {
		s.conf.Refused(r)
	}
}

// tcpOptions bounds the memory of a connection, and how long it is held.
func (s *Stack) tcpOptions() error {
	s.conns.last = buffersFor(0)
	if err := s.setBuffers(s.conns.last); err != nil {
		return err
	}
	moderate := tcpip.TCPModerateReceiveBufferOption(true)
	wait := tcpip.TCPTimeWaitTimeoutOption(timeWait)
	for _, o := range []tcpip.SettableTransportProtocolOption{&moderate, &wait} {
		if err := s.stack.SetTransportProtocolOption(tcp.ProtocolNumber, o); err != nil {
			return errors.New(err.String())
		}
	}
	return nil
}

func (s *Stack) addAddress(a netip.Addr) tcpip.Error {
	return s.stack.AddProtocolAddress(nic, tcpip.ProtocolAddress{
		Protocol:          protocolOf(a),
		AddressWithPrefix: tcpip.AddrFromSlice(a.AsSlice()).WithPrefix(),
	}, stack.AddressProperties{})
}

func protocolOf(a netip.Addr) tcpip.NetworkProtocolNumber {
	if a.Is4() {
		return ipv4.ProtocolNumber
	}
	return ipv6.ProtocolNumber
}

// anywhere is the subnet of all addresses of a length.
func anywhere(length int) tcpip.Subnet {
	zeros := make([]byte, length)
	subnet, err := tcpip.NewSubnet(tcpip.AddrFromSlice(zeros), tcpip.MaskFromBytes(zeros))
	if err != nil {
		panic(err) // the lengths are constants
	}
	return subnet
}
