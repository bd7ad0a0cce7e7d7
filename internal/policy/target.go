package policy

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
	kind   targetKind
	name   string       // of exact, one and deep: without the wildcard
	prefix netip.Prefix // of net
	port   uint16       // 0: any
}

type targetKind uint8

const (
	nothing targetKind = iota
	exact              // example.com
	one                // *.example.com: exactly one label below
	deep               // **.example.com: any depth, not the apex
	all                // **: every name and address
	net                // an address is a CIDR of full length
)

// ParseTarget reads the target of a rule:
//
//	example.com  *.example.com  **.example.com  **
//	192.0.2.1  10.0.0.0/8  [2001:db8::1]  [2001:db8::/32]  2001:db8::/32
//
// each followed by ":PORT" or, for any port, not. Letters may be of any case, and a name may end in a
// dot. Everything else is an error, and so are names that no rule can be about: localhost and those
// under ".bothy".
func ParseTarget(s string) (Target, error) {
	t, err := parseTarget(s)
	if err != nil {
		return Target{}, &spec.Error{Class: spec.ErrUsage, Op: "rule " + strconv.QuoteToASCII(withoutUser(s)), Err: err}
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
	t.port = port
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

// withoutUser returns text for an error: the part before an '@' may be a password.
func withoutUser(s string) string {
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
			return "", 0, spec.Errorf(spec.ErrUsage, "a CIDR stands in brackets as a whole").WithHint("write [%s/%s]%s", inner, bits, port)
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
		return Target{kind: all}, nil
	case strings.Contains(host, "/"):
		p, err := parsePrefix(host)
		return Target{kind: net, prefix: p}, err
	case strings.Contains(host, ":"):
		a, err := parseAddr(host)
		return Target{kind: net, prefix: netip.PrefixFrom(a, 128)}, err
	}
	if a, err := parseAddr(host); err == nil {
		return Target{kind: net, prefix: netip.PrefixFrom(a, a.BitLen())}, nil
	}
	return parsePattern(host)
}

func parsePattern(host string) (Target, error) {
	t := Target{kind: exact}
	base := host
	if rest, ok := strings.CutPrefix(host, "**."); ok {
		t.kind, base = deep, rest
	} else if rest, ok := strings.CutPrefix(host, "*."); ok {
		t.kind, base = one, rest
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
		return Target{}, spec.Errorf(spec.ErrUsage, "%q never leaves the sandbox", name).
			WithHint("a port of the host is reached as host.bothy, after --allow-host-port PORT")
	}
	t.name = name
	return t, nil
}

// String returns the one spelling of the target: ParseTarget reads it back.
func (t Target) String() string {
	s := ""
	switch t.kind {
	case nothing:
		return ""
	case exact:
		s = t.name
	case one:
		s = "*." + t.name
	case deep:
		s = "**." + t.name
	case all:
		s = "**"
	case net:
		s = t.prefix.String()
		if t.prefix.IsSingleIP() {
			s = t.prefix.Addr().String()
		}
		if t.prefix.Addr().Is6() {
			s = "[" + s + "]"
		}
	}
	if t.port == 0 {
		return s
	}
	return s + ":" + strconv.Itoa(int(t.port))
}

// Port returns the port of the target; 0 means any.
func (t Target) Port() uint16 { return t.port }

// Prefix returns the range of addresses, if the target is one.
func (t Target) Prefix() (netip.Prefix, bool) { return t.prefix, t.kind == net }

// Name returns the name of the target, if it is a single name.
func (t Target) Name() (string, bool) { return t.name, t.kind == exact }

// wide reports whether a target matches every name and address.
func (t *Target) wide() bool { return t.kind == all }

// matchesName ignores the port. The name must be clean.
func (t Target) matchesName(name string) bool {
	switch t.kind {
	case exact:
		return name == t.name
	case one:
		return hostname.IsBelow(name, t.name) && hostname.Parent(name) == t.name
	case deep:
		return hostname.IsBelow(name, t.name)
	}
	return t.kind == all
}

// matchesAddr ignores the port.
func (t Target) matchesAddr(a netip.Addr) bool {
	return t.kind == all || t.kind == net && t.prefix.Contains(a)
}

// Matches reports whether the target matches a name or an address, at a port. The name must be clean. An
// empty name or a zero address does not match.
func (t Target) Matches(name string, a netip.Addr, port uint16) bool {
	return t.matchesPort(port) && (name != "" && t.matchesName(name) || a.IsValid() && t.matchesAddr(a))
}

func (t Target) matchesPort(port uint16) bool { return t.port == 0 || t.port == port }

// covers reports whether t matches everything that u matches.
func (t Target) covers(u Target) bool {
	if !t.matchesPort(u.port) {
		return false
	}
	switch {
	case t.kind == all:
		return true
	case t.kind == net:
		return u.kind == net && t.prefix.Bits() <= u.prefix.Bits() && t.prefix.Contains(u.prefix.Addr())
	case u.kind == exact:
		return t.matchesName(u.name)
	case t.kind == one:
		return u.kind == one && t.name == u.name
	case t.kind == deep:
		return (u.kind == one || u.kind == deep) && (t.name == u.name || hostname.IsBelow(u.name, t.name))
	}
	return false
}

// overlaps reports whether both match a common name or address.
func (t Target) overlaps(u Target) bool {
	if t.port != 0 && u.port != 0 && t.port != u.port {
		return false
	}
	t.port, u.port = 0, 0
	return t.covers(u) || u.covers(t) // patterns and prefixes are nested or disjoint; none cross
}
