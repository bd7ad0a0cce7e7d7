// Package target reads the targets of rules: names, patterns of names, addresses and ranges, with a port or any.
package target

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/bothy-dev/bothy/internal/policy/ascii"
	"github.com/bothy-dev/bothy/internal/policy/hostname"
	"github.com/bothy-dev/bothy/spec"
)

// Target is the subject of a rule: a name, a pattern of names, or a range of addresses,
// with one port or any. The zero Target matches nothing.
type Target struct {
	Kind   Kind
	Name   string       // of exact, one and deep: without the wildcard
	Prefix netip.Prefix // of net
	Port   uint16       // 0: any
}

type Kind uint8

const (
	Nothing  Kind = iota
	Exact         // example.com
	OneLabel      // *.example.com: exactly one label below
	AnyDepth      // **.example.com: any depth, not the apex
	All           // **: every name and address
	Range         // an address is a CIDR of full length
)

// Parse reads the target of a rule:
//
//	example.com  *.example.com  **.example.com  **
//	192.0.2.1  10.0.0.0/8  [2001:db8::1]  [2001:db8::/32]  2001:db8::/32
//
// each followed by ":PORT" or, for any port, not. Letters may be of any case, and a name may end in a
// dot. Everything else is an error, and so are names that no rule can be about: localhost and those
// under ".bothy".
func Parse(s string) (Target, error) {
	t, err := parseTarget(s)
	if err != nil {
		return Target{}, &spec.Error{Class: spec.ErrUsage, Op: "rule " + strconv.QuoteToASCII(WithoutUser(s)), Err: err}
	}
	return t, nil
}

func parseTarget(s string) (Target, error) {
	if err := checkText(s); err != nil {
		return Target{}, err
	}
	host, port, err := splitTarget(s)
	if err != nil {
		return Target{}, err
	}
	t, err := parseHost(host)
	if err != nil {
		return Target{}, err
	}
	t.Port = port
	return t, nil
}

// checkText refuses text that cannot be part of a rule, before its parts are read, so that
// the hint fits the mistake.
func checkText(s string) error {
	switch {
	case s == "":
		return spec.Errorf(spec.ErrUsage, "it is empty")
	case !ascii.IsASCII(s):
		return spec.Errorf(spec.ErrUsage, "it is not ASCII").WithHint("write the name in its ASCII form, xn--…")
	case strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return spec.Errorf(spec.ErrUsage, "it has a space or control character")
	case strings.Contains(s, "://"):
		return spec.Errorf(spec.ErrUsage, "it is a URL").WithHint("write HOST:PORT; a path is a condition of its own")
	case strings.Contains(s, "@"):
		return spec.Errorf(spec.ErrUsage, "it has a user").WithHint("leave out what stands before the '@': a rule is about a host; a login is lent: bothy secret lease")
	case strings.Contains(s, ","):
		return spec.Errorf(spec.ErrUsage, "it has a comma").WithHint("give one rule at a time")
	}
	return nil
}

// WithoutUser returns text for an error: the part before an '@' may be a password.
func WithoutUser(s string) string {
	if i := strings.LastIndexByte(s, '@'); i >= 0 {
		return "..." + s[i:]
	}
	return s
}

// splitTarget splits off the port. IPv6 needs brackets, because otherwise the end of the address is
// ambiguous; only a CIDR ends by itself.
func splitTarget(s string) (host string, port uint16, err error) {
	if inner, ok := strings.CutPrefix(s, "["); ok {
		inner, rest, ok := strings.Cut(inner, "]")
		if !ok || !strings.Contains(inner, ":") {
			return "", 0, spec.Errorf(spec.ErrUsage, "brackets enclose an IPv6 address or CIDR")
		}
		if bits, ok := strings.CutPrefix(rest, "/"); ok {
			bits, port, colon := strings.Cut(bits, ":")
			if colon {
				port = ":" + port
			}
			return "", 0, spec.Errorf(spec.ErrUsage, "a CIDR must be in brackets as a whole").WithHint("write [%s/%s]%s", inner, bits, port)
		}
		port, err := portOf(rest)
		return inner, port, err
	}
	i := strings.IndexByte(s, ':')
	if i < 0 {
		return s, 0, nil
	}
	if strings.Count(s, ":") > 1 {
		if p, err := parsePrefix(s); err == nil && p.Addr().Is6() {
			return s, 0, nil
		}
		return "", 0, spec.Errorf(spec.ErrUsage, "more than one ':'").
			WithHint("write an IPv6 address as [2001:db8::1] or [2001:db8::1]:443")
	}
	port, err = portOf(s[i:])
	return s[:i], port, err
}

// portOf reads ":PORT" or nothing.
func portOf(s string) (uint16, error) {
	if s == "" {
		return 0, nil
	}
	digits, ok := strings.CutPrefix(s, ":")
	if !ok || digits == "" {
		return 0, spec.Errorf(spec.ErrUsage, "%q is not a port", s).WithHint("leave the colon out for any port")
	}
	return parsePort(digits)
}

func parseHost(host string) (Target, error) {
	switch {
	case host == "**":
		return Target{Kind: All}, nil
	case strings.Contains(host, "/"):
		p, err := parsePrefix(host)
		return Target{Kind: Range, Prefix: p}, err
	case strings.Contains(host, ":"):
		a, err := parseAddr(host)
		return Target{Kind: Range, Prefix: netip.PrefixFrom(a, 128)}, err
	}
	if a, err := parseAddr(host); err == nil {
		return Target{Kind: Range, Prefix: netip.PrefixFrom(a, a.BitLen())}, nil
	}
	return parsePattern(host)
}

func parsePattern(host string) (Target, error) {
	t := Target{Kind: Exact}
	base := host
	if rest, ok := strings.CutPrefix(host, "**."); ok {
		t.Kind, base = AnyDepth, rest
	} else if rest, ok := strings.CutPrefix(host, "*."); ok {
		t.Kind, base = OneLabel, rest
	}
	if strings.ContainsAny(base, `*?[]!\`) {
		return Target{}, spec.Errorf(spec.ErrUsage, "a wildcard stands only at the beginning").
			WithHint("*.example.com is one label, **.example.com any depth, ** everything")
	}
	name, err := hostname.Clean(base)
	if err != nil {
		return Target{}, err
	}
	if hostname.IsUnroutable(name) {
		return Target{}, spec.Errorf(spec.ErrUsage, "no rule is about %q: no connection to it leaves the sandbox", name).
			WithHint("a port of the host is reached as host.bothy, after: bothy ports SANDBOX --allow-host-port PORT")
	}
	t.Name = name
	return t, nil
}

// String returns the one spelling of the target: Parse reads it back.
func (t Target) String() string {
	s := ""
	switch t.Kind {
	case Nothing:
		return ""
	case Exact:
		s = t.Name
	case OneLabel:
		s = "*." + t.Name
	case AnyDepth:
		s = "**." + t.Name
	case All:
		s = "**"
	case Range:
		s = t.Prefix.String()
		if t.Prefix.IsSingleIP() {
			s = t.Prefix.Addr().String()
		}
		if t.Prefix.Addr().Is6() {
			s = "[" + s + "]"
		}
	}
	if t.Port == 0 {
		return s
	}
	return s + ":" + strconv.Itoa(int(t.Port))
}

// MatchesAll reports whether a target matches every name and address.
func (t *Target) MatchesAll() bool { return t.Kind == All }

// MatchesName ignores the port. The name must be clean.
func (t Target) MatchesName(name string) bool {
	switch t.Kind {
	case Exact:
		return name == t.Name
	case OneLabel:
		return hostname.IsBelow(name, t.Name) && hostname.Parent(name) == t.Name
	case AnyDepth:
		return hostname.IsBelow(name, t.Name)
	}
	return t.Kind == All
}

// MatchesAddr ignores the port.
func (t Target) MatchesAddr(a netip.Addr) bool {
	return t.Kind == All || t.Kind == Range && t.Prefix.Contains(a)
}

// Matches reports whether the target matches a name or an address, at a port. The name must be clean. An
// empty name or a zero address does not match.
func (t Target) Matches(name string, a netip.Addr, port uint16) bool {
	return t.MatchesPort(port) && (name != "" && t.MatchesName(name) || a.IsValid() && t.MatchesAddr(a))
}

func (t Target) MatchesPort(port uint16) bool { return t.Port == 0 || t.Port == port }

// Covers reports whether t matches everything that u matches.
func (t Target) Covers(u Target) bool {
	if !t.MatchesPort(u.Port) {
		return false
	}
	switch {
	case t.Kind == All:
		return true
	case t.Kind == Range:
		return u.Kind == Range && t.Prefix.Bits() <= u.Prefix.Bits() && t.Prefix.Contains(u.Prefix.Addr())
	case u.Kind == Exact:
		return t.MatchesName(u.Name)
	case t.Kind == OneLabel:
		return u.Kind == OneLabel && t.Name == u.Name
	case t.Kind == AnyDepth:
		return (u.Kind == OneLabel || u.Kind == AnyDepth) && (t.Name == u.Name || hostname.IsBelow(u.Name, t.Name))
	}
	return false
}

// Overlaps reports whether both match a common name or address.
func (t Target) Overlaps(u Target) bool {
	if t.Port != 0 && u.Port != 0 && t.Port != u.Port {
		return false
	}
	t.Port, u.Port = 0, 0
	return t.Covers(u) || u.Covers(t) // patterns and prefixes are nested or disjoint; none cross
}
