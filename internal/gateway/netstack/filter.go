package netstack

import (
	"net/netip"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/checksum"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/nested"
	"gvisor.dev/gvisor/pkg/tcpip/stack"

	"github.com/bothy-dev/bothy/spec"
)

// filter sees every packet of the inside before the stack does. A stack that
// answers for all addresses would answer every ping in the name of whom it was
// meant for; an echo is a way out for data and a false sign of a network. It is
// refused as a router's administrator would.
type filter struct {
	nested.Endpoint
	refused func(protocol string, to netip.AddrPort)
}

func newFilter(link stack.LinkEndpoint, refused func(string, netip.AddrPort)) *filter {
	f := &filter{refused: refused}
	f.Init(link, f)
	return f
}

// DeliverNetworkPacket passes on whole packets of TCP and UDP. Fragments, options
// and extension headers have no use on a link as wide as this one, and are how
// packets look to a filter like something else.
func (f *filter) DeliverNetworkPacket(protocol tcpip.NetworkProtocolNumber, pkt *stack.PacketBuffer) {
	var transport uint8
	switch size := pkt.Data().Size(); protocol {
	case header.IPv4ProtocolNumber:
		h, ok := pkt.Data().PullUp(header.IPv4MinimumSize)
		if !ok {
			return
		}
		ip := header.IPv4(h)
		if !ip.IsValid(size) || ip.HeaderLength() != header.IPv4MinimumSize || ip.More() || ip.FragmentOffset() != 0 {
			return
		}
		if transport = ip.Protocol(); transport == uint8(header.ICMPv4ProtocolNumber) {
			f.refuse4(pkt.Data().AsRange().ToSlice())
		}
	case header.IPv6ProtocolNumber:
		h, ok := pkt.Data().PullUp(header.IPv6MinimumSize)
		if !ok {
			return
		}
		ip := header.IPv6(h)
		if !ip.IsValid(size) {
			return
		}
		if transport = ip.NextHeader(); transport == uint8(header.ICMPv6ProtocolNumber) {
			f.refuse6(pkt.Data().AsRange().ToSlice())
		}
	}
	if transport == uint8(header.TCPProtocolNumber) || transport == uint8(header.UDPProtocolNumber) {
		f.Endpoint.DeliverNetworkPacket(protocol, pkt)
	}
}

// refuse4 answers an echo request with "administratively prohibited". Nothing
// else of ICMP is answered: an error must not be answered with an error.
func (f *filter) refuse4(ip header.IPv4) {
	echo := header.ICMPv4(ip.Payload())
	if len(echo) < header.ICMPv4MinimumSize || echo.Type() != header.ICMPv4Echo {
		return
	}
	quote := []byte(ip)[:min(len(ip), int(ip.HeaderLength())+8)]
	size := header.IPv4MinimumSize + header.ICMPv4MinimumSize + len(quote)
	b := make([]byte, size)
	out := header.IPv4(b)
	out.Encode(&header.IPv4Fields{
		TotalLength: uint16(size), TTL: 64, Protocol: uint8(header.ICMPv4ProtocolNumber),
		SrcAddr: ip.DestinationAddress(), DstAddr: ip.SourceAddress(),
	})
	out.SetChecksum(^out.CalculateChecksum())
	msg := header.ICMPv4(out.Payload())
	msg.SetType(header.ICMPv4DstUnreachable)
	msg.SetCode(header.ICMPv4AdminProhibited)
	copy(msg[header.ICMPv4MinimumSize:], quote)
	msg.SetChecksum(^checksum.Checksum(msg, 0))
	f.send(header.IPv4ProtocolNumber, b)
	f.refused(spec.ProtocolICMP, netip.AddrPortFrom(address(ip.DestinationAddress()), 0))
}

// refuse6 is refuse4 for IPv6.
func (f *filter) refuse6(ip header.IPv6) {
	echo := header.ICMPv6(ip.Payload())
	if len(echo) < header.ICMPv6MinimumSize || echo.Type() != header.ICMPv6EchoRequest {
		return
	}
	quote := []byte(ip)[:min(len(ip), header.IPv6MinimumMTU-header.IPv6MinimumSize-header.ICMPv6DstUnreachableMinimumSize)]
	length := header.ICMPv6DstUnreachableMinimumSize + len(quote)
	b := make([]byte, header.IPv6MinimumSize+length)
	out := header.IPv6(b)
	out.Encode(&header.IPv6Fields{
		PayloadLength: uint16(length), TransportProtocol: header.ICMPv6ProtocolNumber, HopLimit: 64,
		SrcAddr: ip.DestinationAddress(), DstAddr: ip.SourceAddress(),
	})
	msg := header.ICMPv6(out.Payload())
	msg.SetType(header.ICMPv6DstUnreachable)
	msg.SetCode(header.ICMPv6Prohibited)
	copy(msg[header.ICMPv6DstUnreachableMinimumSize:], quote)
	msg.SetChecksum(header.ICMPv6Checksum(header.ICMPv6ChecksumParams{Header: msg, Src: out.SourceAddress(), Dst: out.DestinationAddress()}))
	f.send(header.IPv6ProtocolNumber, b)
	f.refused(spec.ProtocolICMP, netip.AddrPortFrom(address(ip.DestinationAddress()), 0))
}

func (f *filter) send(protocol tcpip.NetworkProtocolNumber, packet []byte) {
	pkt := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithData(packet)})
	defer pkt.DecRef()
	pkt.NetworkProtocolNumber = protocol
	var list stack.PacketBufferList
	list.PushBack(pkt)
	_, _ = f.WritePackets(list)
}
