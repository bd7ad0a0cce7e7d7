// Package specialaddr knows which addresses are not simply part of the public internet.
package specialaddr

import (
	"net/netip"
	"slices"
	"strings"
	"sync"
)

// Range is a range of addresses that is not simply part of the public internet.
type Range struct {
	Prefix netip.Prefix
	What   string // as reasons say it: "a private address (RFC 1918)"
	Kind   Kind
}

type Kind uint8

const (
	Closed   Kind = iota // a rule within the block opens its part of it
	Never                // no rule opens it
	Metadata             // credentials of the machine: only a rule for the very address opens it
	public               // an exception inside another block: reachable like any other
)

// Find returns the innermost block of an address; nil means a public address.
func Find(a netip.Addr) *Range {
	if a.Is4In6() {
		return &mapped
	}
	all := Ranges()
	for i := range all {
		if all[i].Prefix.Contains(a) {
			if all[i].Kind == public {
				return nil
			}
			return &all[i]
		}
	}
	return nil
}

// Describe describes an address that is not simply part of the public internet; it returns "" for all
// others. credentials says that the address gives out credentials.
func Describe(a netip.Addr) (what string, credentials bool) {
	a = a.WithZone("").Unmap()
	list, n := EmbeddedPair(a)
	for _, a := range append([]netip.Addr{a}, list[:n]...) {
		if b := Find(a); b != nil {
			return b.What, b.Kind == Metadata
		}
	}
	return "", false
}

// OpenedBy reports whether a rule for prefix lets an address of the block through: the rule must be within
// the block. 0.0.0.0/0 means the internet; its author did not mean the database next door. A rule about
// names has the zero prefix, which contains nothing.
func (b *Range) OpenedBy(prefix netip.Prefix, a netip.Addr) bool {
	return b.Kind != Never && prefix.Bits() >= b.Prefix.Bits() && prefix.Contains(a)
}

// mapped is a separate block: netip never finds ::ffff:0:0/96 in another prefix.
var mapped = Range{What: "an IPv4 address written as IPv6, which no packet carries", Kind: Never}

// Inner is also a separate block: the network inside every sandbox, whose addresses the gateway's
// package namepool hands out. Packets to it are for the gateway itself or for a name, and reach no rule
// about addresses. Outside, they are ordinary addresses: a name may resolve to one.
var Inner = Range{What: "an address of the sandbox's own network", Kind: Never}

var InnerPrefixes = sync.OnceValue(func() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("fd62:6f74:6879::/64")}
})

// HostsOwn is separate, because only the caller knows the host's addresses.
var HostsOwn = Range{What: "an address of the host itself", Kind: Closed}

// FindInside is special for an address that the inside itself uses.
func FindInside(a netip.Addr) *Range {
	b := Find(a)
	if b != nil && slices.ContainsFunc(InnerPrefixes(), func(p netip.Prefix) bool { return p.Contains(a) }) {
		return &Inner
	}
	return b
}

// Ranges are the ranges, the narrowest first.
var Ranges = sync.OnceValue(func() []Range {
	list := make([]Range, 0, len(ranges))
	for _, r := range ranges {
		list = append(list, Range{netip.MustParsePrefix(r.prefix), r.what, r.kind})
	}
	slices.SortStableFunc(list, func(a, b Range) int { return b.Prefix.Bits() - a.Prefix.Bits() })
	return list
})

// ranges are IANA's special-purpose registries for IPv4 and IPv6, the multicast space, the parts of IPv6
// that are not assigned as global unicast, and the addresses at which clouds hand out credentials. It
// leaves out entries of a registry that are in a wider one and not an exception to it.
var ranges = []struct {
	prefix, what string
	kind         Kind
}{
	{"0.0.0.0/8", "an address of this very network (RFC 791)", Never},
	{"10.0.0.0/8", "a private address (RFC 1918)", Closed},
	{"100.64.0.0/10", "a shared address of a provider's network (RFC 6598)", Closed},
	{"127.0.0.0/8", "the host itself (loopback)", Closed},
	{"169.254.0.0/16", "a link-local address (RFC 3927)", Closed},
	{"172.16.0.0/12", "a private address (RFC 1918)", Closed},
	{"192.0.0.0/24", "an address for protocols (RFC 6890)", Closed},
	{"192.0.0.9/32", "the PCP anycast address (RFC 7723)", public},
	{"192.0.0.10/32", "the TURN anycast address (RFC 8155)", public},
	{"192.0.2.0/24", "an address for documentation (RFC 5737)", Closed},
	{"192.31.196.0/24", "AS112 (RFC 7535)", public},
	{"192.52.193.0/24", "AMT (RFC 7450)", public},
	{"192.88.99.0/24", "a 6to4 relay (RFC 7526)", Closed},
	{"192.168.0.0/16", "a private address (RFC 1918)", Closed},
	{"192.175.48.0/24", "AS112 (RFC 7534)", public},
	{"198.18.0.0/15", "an address for benchmarks (RFC 2544)", Closed},
	{"198.51.100.0/24", "an address for documentation (RFC 5737)", Closed},
	{"203.0.113.0/24", "an address for documentation (RFC 5737)", Closed},
	{"224.0.0.0/4", "a multicast address (RFC 5771)", Never},
	{"240.0.0.0/4", "a reserved address (RFC 1112)", Closed},
	{"255.255.255.255/32", "the broadcast address (RFC 919)", Never},

	{"::/128", "the unspecified address (RFC 4291)", Never},
	{"::1/128", "the host itself (loopback)", Closed},
	{"::/96", "an IPv4-compatible address (RFC 4291)", Never},
	{"::ffff:0:0:0/96", "an IPv4-translated address (RFC 2765)", Never},
	{"64:ff9b::/96", "NAT64 (RFC 6052)", public}, // judged by the IPv4 address inside
	{"64:ff9b:1::/48", "a local NAT64 address (RFC 8215)", Closed},
	{"100::/64", "an address whose packets are discarded (RFC 6666)", Closed},
	{"100:0:0:1::/64", "a dummy address (RFC 9780)", Closed},
	{"2001::/23", "an address for protocols (RFC 2928)", Closed},
	{"2001::/32", "a Teredo address (RFC 4380)", Closed},
	{"2001:1::1/128", "the PCP anycast address (RFC 7723)", public},
	{"2001:1::2/128", "the TURN anycast address (RFC 8155)", public},
	{"2001:1::3/128", "the DNS-SD anycast address (RFC 9665)", public},
	{"2001:2::/48", "an address for benchmarks (RFC 5180)", Closed},
	{"2001:3::/32", "AMT (RFC 7450)", public},
	{"2001:4:112::/48", "AS112 (RFC 7535)", public},
	{"2001:20::/28", "ORCHIDv2 (RFC 7343)", public},
	{"2001:30::/28", "drone identifiers (RFC 9374)", public},
	{"2001:db8::/32", "an address for documentation (RFC 3849)", Closed},
	{"2002::/16", "a 6to4 address (RFC 3056)", Closed},
	{"2620:4f:8000::/48", "AS112 (RFC 7534)", public},
	{"3fff::/20", "an address for documentation (RFC 9637)", Closed},
	{"5f00::/16", "a segment routing address (RFC 9602)", Closed},
	{"fc00::/7", "a unique-local address (RFC 4193)", Closed},
	{"fe80::/10", "a link-local address (RFC 4291)", Closed},
	{"fec0::/10", "a site-local address (RFC 3879)", Closed},
	{"ff00::/8", "a multicast address (RFC 4291)", Never},

	// Only 2000::/3 is assigned as global unicast.
	{"::/3", "not a global unicast address", Closed},
	{"4000::/2", "not a global unicast address", Closed},
	{"8000::/1", "not a global unicast address", Closed},

	{"169.254.169.254/32", "the metadata service of a cloud", Metadata},
	{"169.254.170.2/32", "the credentials service of AWS ECS", Metadata},
	{"169.254.170.23/32", "the credentials service of AWS EKS", Metadata},
	{"168.63.129.16/32", "the wire server of Azure", Metadata},
	{"100.100.100.200/32", "the metadata service of Alibaba Cloud", Metadata},
	{"192.0.0.192/32", "the metadata service of Oracle Cloud", Metadata},
	{"fd00:ec2::254/128", "the metadata service of AWS", Metadata},
	{"fd00:ec2::23/128", "the credentials service of AWS EKS", Metadata},
	{"fd20:ce::254/128", "the metadata service of Google Cloud", Metadata},
	{"fe80::a9fe:a9fe/128", "the metadata service of OpenStack", Metadata},
}

// Embedded returns the IPv4 addresses that an IPv6 address carries inside. A packet to the
// IPv6 address may reach them.
func Embedded(a netip.Addr) []netip.Addr {
	list, n := EmbeddedPair(a)
	return list[:n]
}

// EmbeddedPair returns the IPv4 addresses inside an IPv6 address to which a translator or tunnel on the way
// would send the packet: NAT64, 6to4, Teredo (server and client), IPv4-compatible, IPv4-translated,
// IPv4-mapped, ISATAP.
func EmbeddedPair(a netip.Addr) (list [2]netip.Addr, n int) {
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
