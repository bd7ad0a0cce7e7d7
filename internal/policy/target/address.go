package target

import (
	"net/netip"

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
