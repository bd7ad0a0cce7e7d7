package policy

import (
	"net/netip"
	"slices"
	"sync"
)

// block is a range of addresses that is not simply part of the public internet.
type block struct {
	prefix netip.Prefix
	what   string // as reasons say it: "a private address (RFC 1918)"
	kind   blockKind
}

type blockKind uint8

const (
	closed   blockKind = iota // a rule within the block opens its part of it
	never                     // no rule opens it
	metadata                  // credentials of the machine: only a rule for the very address opens it
	public                    // an exception inside another block: reachable like any other
)

// special returns the innermost block of an address; nil means a public address.
func special(a netip.Addr) *block {
	if a.Is4In6() {
		return &mapped
	}
	all := blocks()
	for i := range all {
		if all[i].prefix.Contains(a) {
			if all[i].kind == public {
				return nil
			}
			return &all[i]
		}
	}
	return nil
}

// Special describes an address that is not simply part of the public internet; it returns "" for all
// others. credentials says that the address gives out credentials.
func Special(a netip.Addr) (what string, credentials bool) {
	a = a.WithZone("").Unmap()
	list, n := embedded(a)
	for _, a := range append([]netip.Addr{a}, list[:n]...) {
		if b := special(a); b != nil {
			return b.what, b.kind == metadata
		}
	}
	return "", false
}

// opens reports whether a rule for prefix lets an address of the block through: the rule must be within
// the block. 0.0.0.0/0 means the internet; its author did not mean the database next door. A rule about
// names has the zero prefix, which contains nothing.
func (b *block) opens(prefix netip.Prefix, a netip.Addr) bool {
	return b.kind != never && prefix.Bits() >= b.prefix.Bits() && prefix.Contains(a)
}

// mapped is a separate block: netip never finds ::ffff:0:0/96 in another prefix.
var mapped = block{what: "an IPv4 address written as IPv6, which no packet carries", kind: never}

// inner is also a separate block: the network inside every sandbox, whose addresses the gateway's
// package namepool hands out. Packets to it are for the gateway itself or for a name, and reach no rule
// about addresses. Outside, they are ordinary addresses: a name may resolve to one.
var inner = block{what: "an address of the sandbox's own network", kind: never}

var innerPrefixes = sync.OnceValue(func() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("fd62:6f74:6879::/64")}
})

// hostsOwn is separate, because only the caller knows the host's addresses.
var hostsOwn = block{what: "an address of the host itself", kind: closed}

// ToHost returns the answer about a literal address that turns out to be the host's own.
func (d Decision) ToHost() Decision { return d.blocked(&hostsOwn) }

// direct is special for an address that the inside itself uses.
func direct(a netip.Addr) *block {
	b := special(a)
	if b != nil && slices.ContainsFunc(innerPrefixes(), func(p netip.Prefix) bool { return p.Contains(a) }) {
		return &inner
	}
	return b
}

// blocks are the ranges, the narrowest first.
var blocks = sync.OnceValue(func() []block {
	list := make([]block, 0, len(ranges))
	for _, r := range ranges {
		list = append(list, block{netip.MustParsePrefix(r.prefix), r.what, r.kind})
	}
	slices.SortStableFunc(list, func(a, b block) int { return b.prefix.Bits() - a.prefix.Bits() })
	return list
})

// ranges are IANA's special-purpose registries for IPv4 and IPv6, the multicast space, the parts of IPv6
// that are not assigned as global unicast, and the addresses at which clouds hand out credentials. It
// leaves out entries of a registry that are in a wider one and not an exception to it.
var ranges = []struct {
	prefix, what string
	kind         blockKind
}{
	{"0.0.0.0/8", "an address of this very network (RFC 791)", never},
	{"10.0.0.0/8", "a private address (RFC 1918)", closed},
	{"100.64.0.0/10", "a shared address of a provider's network (RFC 6598)", closed},
	{"127.0.0.0/8", "the host itself (loopback)", closed},
	{"169.254.0.0/16", "a link-local address (RFC 3927)", closed},
	{"172.16.0.0/12", "a private address (RFC 1918)", closed},
	{"192.0.0.0/24", "an address for protocols (RFC 6890)", closed},
	{"192.0.0.9/32", "the PCP anycast address (RFC 7723)", public},
	{"192.0.0.10/32", "the TURN anycast address (RFC 8155)", public},
	{"192.0.2.0/24", "an address for documentation (RFC 5737)", closed},
	{"192.31.196.0/24", "AS112 (RFC 7535)", public},
	{"192.52.193.0/24", "AMT (RFC 7450)", public},
	{"192.88.99.0/24", "a 6to4 relay (RFC 7526)", closed},
	{"192.168.0.0/16", "a private address (RFC 1918)", closed},
	{"192.175.48.0/24", "AS112 (RFC 7534)", public},
	{"198.18.0.0/15", "an address for benchmarks (RFC 2544)", closed},
	{"198.51.100.0/24", "an address for documentation (RFC 5737)", closed},
	{"203.0.113.0/24", "an address for documentation (RFC 5737)", closed},
	{"224.0.0.0/4", "a multicast address (RFC 5771)", never},
	{"240.0.0.0/4", "a reserved address (RFC 1112)", closed},
	{"255.255.255.255/32", "the broadcast address (RFC 919)", never},

	{"::/128", "the unspecified address (RFC 4291)", never},
	{"::1/128", "the host itself (loopback)", closed},
	{"::/96", "an IPv4-compatible address (RFC 4291)", never},
	{"::ffff:0:0:0/96", "an IPv4-translated address (RFC 2765)", never},
	{"64:ff9b::/96", "NAT64 (RFC 6052)", public}, // judged by the IPv4 address inside
	{"64:ff9b:1::/48", "a local NAT64 address (RFC 8215)", closed},
	{"100::/64", "an address whose packets are discarded (RFC 6666)", closed},
	{"100:0:0:1::/64", "a dummy address (RFC 9780)", closed},
	{"2001::/23", "an address for protocols (RFC 2928)", closed},
	{"2001::/32", "a Teredo address (RFC 4380)", closed},
	{"2001:1::1/128", "the PCP anycast address (RFC 7723)", public},
	{"2001:1::2/128", "the TURN anycast address (RFC 8155)", public},
	{"2001:1::3/128", "the DNS-SD anycast address (RFC 9665)", public},
	{"2001:2::/48", "an address for benchmarks (RFC 5180)", closed},
	{"2001:3::/32", "AMT (RFC 7450)", public},
	{"2001:4:112::/48", "AS112 (RFC 7535)", public},
	{"2001:20::/28", "ORCHIDv2 (RFC 7343)", public},
	{"2001:30::/28", "drone identifiers (RFC 9374)", public},
	{"2001:db8::/32", "an address for documentation (RFC 3849)", closed},
	{"2002::/16", "a 6to4 address (RFC 3056)", closed},
	{"2620:4f:8000::/48", "AS112 (RFC 7534)", public},
	{"3fff::/20", "an address for documentation (RFC 9637)", closed},
	{"5f00::/16", "a segment routing address (RFC 9602)", closed},
	{"fc00::/7", "a unique-local address (RFC 4193)", closed},
	{"fe80::/10", "a link-local address (RFC 4291)", closed},
	{"fec0::/10", "a site-local address (RFC 3879)", closed},
	{"ff00::/8", "a multicast address (RFC 4291)", never},

	// Only 2000::/3 is assigned as global unicast.
	{"::/3", "not a global unicast address", closed},
	{"4000::/2", "not a global unicast address", closed},
	{"8000::/1", "not a global unicast address", closed},

	{"169.254.169.254/32", "the metadata service of a cloud", metadata},
	{"169.254.170.2/32", "the credentials service of AWS ECS", metadata},
	{"169.254.170.23/32", "the credentials service of AWS EKS", metadata},
	{"168.63.129.16/32", "the wire server of Azure", metadata},
	{"100.100.100.200/32", "the metadata service of Alibaba Cloud", metadata},
	{"192.0.0.192/32", "the metadata service of Oracle Cloud", metadata},
	{"fd00:ec2::254/128", "the metadata service of AWS", metadata},
	{"fd00:ec2::23/128", "the credentials service of AWS EKS", metadata},
	{"fd20:ce::254/128", "the metadata service of Google Cloud", metadata},
	{"fe80::a9fe:a9fe/128", "the metadata service of OpenStack", metadata},
}
