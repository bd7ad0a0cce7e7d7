package netstack

import (
	"net/netip"
	"slices"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/checksum"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/nested"
	"gvisor.dev/gvisor/pkg/tcpip/stack"

	"github.com/bothy-dev/bothy/spec"
)

// filter sees every packet of the inside before the stack does. A stack that answers for all
// addresses would answer every ping in its receiver's name. An echo is a way out for data and a
// false sign of a network. The filter refuses it as a router's administrator would.
type filter struct {
	nested.Endpoint
	sources []netip.Prefix // nil: all
	refused func(Refusal)
}

// Refusal is a packet that was refused.
type Refusal struct {
	Protocol string         // udp, icmp or ip
	To       netip.AddrPort // the port is that of a datagram
	Number   uint8          // of ip: the protocol that its header names
	Form     string         // of ip: the error in its form, whatever the protocol
}

// Forms of packets that are refused.
const (
	fragment   = "a fragment"
	options    = "a packet with options"
	extensions = "a packet with extension headers"
	nowhere    = "a connection to an address that no host can have"
	malformed  = "a malformed packet"
	foreign    = "a packet in the name of an address that is not the sandbox's"
	message    = "a message of ICMP"
)

func newFilter(link stack.LinkEndpoint, sources []netip.Prefix, refused func(Refusal)) *filter {
	f := &filter{sources: sources, refused: refused}
	f.Init(link, f)
	return f
}

// DeliverNetworkPacket passes on whole packets of TCP and UDP. Fragments, options and extension
// headers have no use on a link as wide as this one, and can make a packet look different to a
// filter.
func (f *filter) DeliverNetworkPacket(protocol tcpip.NetworkProtocolNumber, pkt *stack.PacketBuffer) {
	passes := false
	switch protocol {
	case header.IPv4ProtocolNumber:
		passes = f.passes4(pkt)
	case header.IPv6ProtocolNumber:
		passes = f.passes6(pkt)
	}
	if passes {
		f.Endpoint.DeliverNetworkPacket(protocol, pkt)
	}
}

func (f *filter) passes4(pkt *stack.PacketBuffer) bool {
	h, ok := pkt.Data().PullUp(header.IPv4MinimumSize)
	if !ok {
		f.refuseMalformed()
		return false
	}
	ip := header.IPv4(h)
	form := ""
	switch {
	case !ip.IsValid(pkt.Data().Size()):
		f.refuseMalformed()
		return false
	case ip.More() || ip.FragmentOffset() != 0:
		form = fragment
	case ip.HeaderLength() != header.IPv4MinimumSize:
		form = options
	case isCarried(ip.Protocol()):
		return f.passes(pkt, ip, header.IPv4MinimumSize)
	case ip.Protocol() == uint8(header.ICMPv4ProtocolNumber):
		f.refuse4(pkt.Data().AsRange().ToSlice())
		return false
	default:
		f.answer4(pkt.Data().AsRange().Capped(quoted4).ToSlice(), header.ICMPv4ProtoUnreachable)
	}
	f.refused(Refusal{Protocol: spec.ProtocolIP, To: destination(ip), Number: ip.Protocol(), Form: form})
	return false
}

func (f *filter) passes6(pkt *stack.PacketBuffer) bool {
	h, ok := pkt.Data().PullUp(header.IPv6MinimumSize)
	if !ok {
		f.refuseMalformed()
		return false
	}
	ip := header.IPv6(h)
	form, next := "", ip.NextHeader()
	switch {
	case !ip.IsValid(pkt.Data().Size()):
		f.refuseMalformed()
		return false
	case isCarried(next):
		return f.passes(pkt, ip, header.IPv6MinimumSize)
	case next == uint8(header.ICMPv6ProtocolNumber):
		f.refuse6(pkt.Data().AsRange().ToSlice())
		return false
	case isGroupReport(pkt, ip):
		return false
	case next == uint8(header.IPv6FragmentExtHdrIdentifier):
		form = fragment
	case isExtension(next): // an error may follow, which must not be answered with one
		form = extensions
	default:
		f.answer6(pkt.Data().AsRange().Capped(quoted6).ToSlice(), header.ICMPv6ParamProblem, header.ICMPv6UnknownHeader, header.IPv6NextHeaderOffset)
	}
	f.refused(Refusal{Protocol: spec.ProtocolIP, To: destination(ip), Number: next, Form: form})
	return false
}

// refuseMalformed reports a packet whose purpose cannot be determined.
func (f *filter) refuseMalformed() { f.refused(Refusal{Protocol: spec.ProtocolIP, Form: malformed}) }

// passes lets a packet of TCP or UDP through to the stack, unless the stack would drop it silently.
// The stack drops packets to a group, to the receiver's loopback and to IPv4 written as IPv6, and
// connections to a broadcast or unspecified address.
func (f *filter) passes(pkt *stack.PacketBuffer, ip header.Network, size int) bool {
	to, isTCP := destination(ip), ip.TransportProtocol() == header.TCPProtocolNumber
	if !f.acceptsSource(ip) { // no answer: it would not reach the sender
		f.refused(Refusal{Protocol: spec.ProtocolIP, To: to, Number: uint8(ip.TransportProtocol()), Form: foreign})
		return false
	}
	a := to.Addr()
	switch {
	case a.IsMulticast(), a.IsLoopback(), a.Is4In6():
	case isTCP && (a.IsUnspecified() || ip.DestinationAddress() == header.IPv4Broadcast):
	default:
		return true
	}
	if isTCP {
		f.refused(Refusal{Protocol: spec.ProtocolIP, To: to, Number: uint8(header.TCPProtocolNumber), Form: nowhere})
		return false
	}
	if h, ok := pkt.Data().PullUp(size + header.UDPMinimumSize); ok {
		to = netip.AddrPortFrom(a, header.UDP(h[size:]).DestinationPort())
	}
	f.refused(Refusal{Protocol: spec.ProtocolUDP, To: to})
	return false
}

// acceptsSource reports whether a packet comes from an allowed source.
func (f *filter) acceptsSource(ip header.Network) bool {
	if f.sources == nil {
		return true
	}
	from := address(ip.SourceAddress())
	return slices.ContainsFunc(f.sources, func(p netip.Prefix) bool { return p.Contains(from) })
}

// isCarried reports whether the stack gets packets of a protocol.
func isCarried(transport uint8) bool {
	return transport == uint8(header.TCPProtocolNumber) || transport == uint8(header.UDPProtocolNumber)
}

// isGroupReport reports whether a kernel announces, unasked, the groups it listens to: by ICMP
// after options for each hop (RFC 3810, 5).
func isGroupReport(pkt *stack.PacketBuffer, ip header.IPv6) bool {
	if ip.NextHeader() != uint8(header.IPv6HopByHopOptionsExtHdrIdentifier) || !header.IsV6LinkLocalMulticastAddress(ip.DestinationAddress()) {
		return false
	}
	h, ok := pkt.Data().PullUp(header.IPv6MinimumSize + 1)
	return ok && h[header.IPv6MinimumSize] == uint8(header.ICMPv6ProtocolNumber)
}

// isExtension reports whether a header of IPv6 precedes the protocol, by IANA's list. ESP hides its
// content, so it counts as a protocol.
func isExtension(next uint8) bool {
	switch next {
	case 0, 43, 44, 51, 60, 135, 139, 140, 253, 254:
		return true
	}
	return false
}

func destination(ip header.Network) netip.AddrPort {
	return netip.AddrPortFrom(address(ip.DestinationAddress()), 0)
}

// Bytes of a packet that an answer quotes.
const (
	quoted4 = header.IPv4MinimumSize + 8
	quoted6 = header.IPv6MinimumMTU - header.IPv6MinimumSize - header.ICMPv6ErrorHeaderSize
)

// refuse4 answers an echo request with "administratively prohibited". Other ICMP gets no answer: an
// error must not be answered with an error. A kernel reports by itself that no program takes a
// packet of ours; that is not logged.
func (f *filter) refuse4(ip header.IPv4) {
	echo := header.ICMPv4(ip.Payload())
	switch {
	case len(echo) < header.ICMPv4MinimumSize:
		f.refuseMalformed()
		return
	case echo.Type() == header.ICMPv4DstUnreachable:
		return
	case echo.Type() != header.ICMPv4Echo:
		f.refused(Refusal{Protocol: spec.ProtocolICMP, To: destination(ip), Form: message})
		return
	}
	f.answer4(ip, header.ICMPv4AdminProhibited)
	f.refused(Refusal{Protocol: spec.ProtocolICMP, To: destination(ip)})
}

// answer4 tells the sender why a packet goes no further.
func (f *filter) answer4(ip header.IPv4, why header.ICMPv4Code) {
	if to := ip.DestinationAddress(); header.IsV4MulticastAddress(to) || to == header.IPv4Broadcast {
		return // the answer would come from no single host
	}
	quote := []byte(ip)[:min(len(ip), quoted4)]
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
	msg.SetCode(why)
	copy(msg[header.ICMPv4MinimumSize:], quote)
	msg.SetChecksum(^checksum.Checksum(msg, 0))
	f.sendPacket(header.IPv4ProtocolNumber, b)
}

// refuse6 is refuse4 for IPv6. A kernel there also looks, by itself, for neighbours, routers and groups
// on its link.
func (f *filter) refuse6(ip header.IPv6) {
	echo := header.ICMPv6(ip.Payload())
	switch {
	case len(echo) < header.ICMPv6MinimumSize:
		f.refuseMalformed()
		return
	case echo.Type() == header.ICMPv6DstUnreachable, isOfLink(echo.Type()):
		return
	case echo.Type() != header.ICMPv6EchoRequest:
		f.refused(Refusal{Protocol: spec.ProtocolICMP, To: destination(ip), Form: message})
		return
	}
	f.answer6(ip, header.ICMPv6DstUnreachable, header.ICMPv6Prohibited, 0)
	f.refused(Refusal{Protocol: spec.ProtocolICMP, To: destination(ip)})
}

// isOfLink reports messages of neighbour and group discovery (RFC 4861, 3810).
func isOfLink(t header.ICMPv6Type) bool {
	const queryGroups, redirect, reportGroups = 130, 137, 143
	return t >= queryGroups && t <= redirect || t == reportGroups
}

// answer6 is answer4 for IPv6. There an answer may point at the offending byte of the packet.
func (f *filter) answer6(ip header.IPv6, what header.ICMPv6Type, why header.ICMPv6Code, at uint32) {
	if header.IsV6MulticastAddress(ip.DestinationAddress()) {
		return
	}
	quote := []byte(ip)[:min(len(ip), quoted6)]
	length := header.ICMPv6ErrorHeaderSize + len(quote)
	b := make([]byte, header.IPv6MinimumSize+length)
	out := header.IPv6(b)
	out.Encode(&header.IPv6Fields{
		PayloadLength: uint16(length), TransportProtocol: header.ICMPv6ProtocolNumber, HopLimit: 64,
		SrcAddr: ip.DestinationAddress(), DstAddr: ip.SourceAddress(),
	})
	msg := header.ICMPv6(out.Payload())
	msg.SetType(what)
	msg.SetCode(why)
	msg.SetTypeSpecific(at)
	copy(msg[header.ICMPv6ErrorHeaderSize:], quote)
	msg.SetChecksum(header.ICMPv6Checksum(header.ICMPv6ChecksumParams{Header: msg, Src: out.SourceAddress(), Dst: out.DestinationAddress()}))
	f.sendPacket(header.IPv6ProtocolNumber, b)
}

func (f *filter) sendPacket(protocol tcpip.NetworkProtocolNumber, packet []byte) {
	pkt := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithData(packet)})
	defer pkt.DecRef()
	pkt.NetworkProtocolNumber = protocol
	var list stack.PacketBufferList
	list.PushBack(pkt)
	_, _ = f.WritePackets(list)
}
