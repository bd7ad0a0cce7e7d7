// Package netlink configures the kernel's network through netlink, without any program: on the host to
// make a stage, inside to take a sandbox's network apart.
package netlink

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

var native = binary.NativeEndian

// Do sends one request and returns the kernel's answer.
func Do(kind, flags uint16, body []byte) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	msg := native.AppendUint32(nil, uint32(unix.NLMSG_HDRLEN+len(body)))
	msg = native.AppendUint16(msg, kind)
	msg = native.AppendUint16(msg, flags|unix.NLM_F_REQUEST|unix.NLM_F_ACK)
	msg = native.AppendUint32(native.AppendUint32(msg, 1), 0)
	if err := unix.Sendto(fd, append(msg, body...), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil || n < unix.NLMSG_HDRLEN+4 {
		return err
	}
	if code := int32(native.Uint32(answer[unix.NLMSG_HDRLEN:])); code != 0 {
		return unix.Errno(-code)
	}
	return nil
}

// Attribute adds an attribute to a body.
func Attribute(body []byte, kind uint16, value []byte) []byte {
	body = native.AppendUint16(body, uint16(unix.SizeofRtAttr+len(value)))
	body = append(native.AppendUint16(body, kind), value...)
	for len(body)%4 != 0 {
		body = append(body, 0)
	}
	return body
}

// Family returns the kernel's number for an address family.
func Family(a netip.Addr) byte {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// ChangeAddress adds or deletes an address of a card (RTM_NEWADDR, RTM_DELADDR).
func ChangeAddress(kind uint16, card int, p netip.Prefix) error {
	body := []byte{Family(p.Addr()), byte(p.Bits()), unix.IFA_F_NODAD, 0}
	body = native.AppendUint32(body, uint32(card))
	body = Attribute(body, unix.IFA_LOCAL, p.Addr().AsSlice())
	body = Attribute(body, unix.IFA_ADDRESS, p.Addr().AsSlice())
	return Do(kind, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, body)
}

// SetLink turns a card on or off.
func SetLink(card int, up bool) error {
	flags := uint32(0)
	if up {
		flags = unix.IFF_UP
	}
	return Do(unix.RTM_NEWLINK, 0, Link(card, flags, unix.IFF_UP))
}

// Link returns a body that changes the flags of a card that are in mask.
func Link(card int, flags, mask uint32) []byte {
	body := native.AppendUint32([]byte{unix.AF_UNSPEC, 0, 0, 0}, uint32(card))
	return native.AppendUint32(native.AppendUint32(body, flags), mask)
}

// ChangeRoute adds or deletes a route (RTM_NEWROUTE, RTM_DELROUTE). A local one makes the addresses this
// machine's own.
func ChangeRoute(kind uint16, card int, to netip.Prefix, local bool) error {
	table, scope, what := byte(unix.RT_TABLE_MAIN), byte(unix.RT_SCOPE_UNIVERSE), byte(unix.RTN_UNICAST)
	if local {
		table, scope, what = unix.RT_TABLE_LOCAL, unix.RT_SCOPE_HOST, unix.RTN_LOCAL
	}
	body := []byte{Family(to.Addr()), byte(to.Bits()), 0, 0, table, unix.RTPROT_STATIC, scope, what, 0, 0, 0, 0}
	if to.Bits() > 0 {
		body = Attribute(body, unix.RTA_DST, to.Addr().AsSlice())
	}
	body = Attribute(body, unix.RTA_OIF, native.AppendUint32(nil, uint32(card)))
	return Do(kind, unix.NLM_F_CREATE, body)
}
