package policy

import (
	"net/netip"
	"strings"

	"github.com/bothy-dev/bothy/internal/policy/ascii"
	"github.com/bothy-dev/bothy/spec"
)

// parseAddr reads one address in the only notation that all programs read alike. It refuses zones, IPv4
// inside IPv6 (::ffff:…) and short or octal IPv4.
func parseAddr(s string) (netip.Addr, error) {
	a, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Addr{}, spec.Errorf(spec.ErrUsage, "%q is not an address", s)
	}
	return a, plainAddr(a, s)
}

// parsePrefix reads a CIDR. Host bits must be zero: 10.1.2.3/8 is a mistake, and the parser
// does not guess which part of it is wrong.
func parsePrefix(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, spec.Errorf(spec.ErrUsage, "%q is not a CIDR", s)
	}
	if err := plainAddr(p.Addr(), s); err != nil {
		return netip.Prefix{}, err
	}
	if m := p.Masked(); m != p {
		return netip.Prefix{}, spec.Errorf(spec.ErrUsage, "CIDR %q has host bits set", s).
			WithHint("write %s, or %s for the one address", m, p.Addr())
	}
	return p, nil
}

func plainAddr(a netip.Addr, s string) error {
	switch {
	case a.Zone() != "":
		return spec.Errorf(spec.ErrUsage, "address %q has a zone", s).
			WithHint("zones name interfaces of one machine; leave it out")
	case a.Is4In6():
		return spec.Errorf(spec.ErrUsage, "address %q is IPv4 written as IPv6", s).
			WithHint("write the IPv4 address")
	}
	return nil
}

// parsePort reads 1 to 65535, in decimal without a leading zero.
func parsePort(s string) (uint16, error) {
	n := 0
	for i := range len(s) {
		if !ascii.IsDigit(s[i]) || len(s) > 5 {
			n = 0
			break
		}
		n = n*10 + int(s[i]-'0')
	}
	if n < 1 || n > 65535 || s[0] == '0' {
		return 0, spec.Errorf(spec.ErrUsage, "port %q is not a number from 1 to 65535", s).
			WithHint("leave the port out for any port")
	}
	return uint16(n), nil
}

// Embedded returns the IPv4 addresses that an IPv6 address carries inside. A packet to the
// IPv6 address may reach them.
func Embedded(a netip.Addr) []netip.Addr {
	list, n := embedded(a)
	return list[:n]
}

// embedded returns the IPv4 addresses inside an IPv6 address to which a translator or tunnel on the way
// would send the packet: NAT64, 6to4, Teredo (server and client), IPv4-compatible, IPv4-translated,
// IPv4-mapped, ISATAP.
func embedded(a netip.Addr) (list [2]netip.Addr, n int) {
	if !a.Is6() {
		return list, 0
	}
	b := a.As16()
	add := func(v [4]byte) {
		list[n] = netip.AddrFrom4(v)
		n++
	}
	at := func(i int) [4]byte { return [4]byte(b[i : i+4]) }
	switch {
	case strings.HasPrefix(string(b[:]), "\x20\x02"):
		add(at(2))
	case strings.HasPrefix(string(b[:]), "\x20\x01\x00\x00"):
		add(at(4))
		c := at(12)
		add([4]byte{^c[0], ^c[1], ^c[2], ^c[3]})
	case lastFour(b):
		add(at(12))
	}
	return list, n
}

// lastFour reports whether an address has a form that carries IPv4 in its last 32 bits.
func lastFour(b [16]byte) bool {
	switch string(b[:12]) {
	case "\x00\x64\xff\x9b\x00\x00\x00\x00\x00\x00\x00\x00", // NAT64, RFC 6052
		"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", // IPv4-compatible, RFC 4291
		"\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\x00\x00", // IPv4-translated, RFC 2765
		"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff": // IPv4-mapped
		return true
	}
	switch string(b[8:12]) { // ISATAP, RFC 5214
	case "\x00\x00\x5e\xfe", "\x02\x00\x5e\xfe":
		return true
	}
	return false
}
