package spec

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// ProtocolTCP is the only protocol whose ports can be published.
const ProtocolTCP = "tcp"

// Port publishes a port of the sandbox on the host.
type Port struct {
	HostIP   netip.Addr `json:"host_ip,omitzero"` // zero: the loopback, 127.0.0.1 and ::1
	HostPort uint16     `json:"host_port"`        // zero: any free port
	Port     uint16     `json:"sandbox_port"`
	Protocol string     `json:"protocol"`
}

// ParsePort reads [[IP:]HOSTPORT:]PORT[/tcp]. An IPv6 address is in brackets. An empty HOSTPORT
// after an IP means any free port.
func ParsePort(s string) (Port, error) {
	bad := func(format string, args ...any) (Port, error) {
		return Port{}, Errorf(ErrUsage, "port %q: %s", s, fmt.Sprintf(format, args...)).
			WithHint("write [[IP:]HOSTPORT:]PORT, e.g. 8080:3000 or 127.0.0.1:8080:3000")
	}
	p := Port{Protocol: ProtocolTCP}
	rest, protocol, ok := strings.Cut(s, "/")
	switch {
	case strings.HasPrefix(protocol, "udp"):
		return Port{}, Errorf(ErrUsage, "port %q: udp cannot be published, only tcp", s)
	case ok && protocol != ProtocolTCP:
		return bad("the protocol %q cannot be published, only tcp can", protocol)
	}
	last := strings.LastIndexByte(rest, ':')
	inside := rest[last+1:]
	var err error
	if p.Port, err = parsePort(inside); err != nil {
		return bad("%v", err)
	}
	if last < 0 {
		return p, nil
	}
	ip, host := "", rest[:last]
	i := strings.LastIndexByte(host, ':')
	if i >= 0 {
		ip, host = host[:i], host[i+1:]
		if p.HostIP, err = parseHostIP(ip); err != nil {
			return bad("%v", err)
		}
	}
	if host == "" && i >= 0 || host == "0" {
		return p, nil
	}
	if p.HostPort, err = parsePort(host); err != nil {
		return bad("%v", err)
	}
	return p, nil
}

func parsePort(s string) (uint16, error) {
	if s == "" {
		return 0, fmt.Errorf("a port is missing")
	}
	if strings.Contains(s, "-") {
		return 0, fmt.Errorf("%s is a range: give one port at a time", s)
	}
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 || s[0] == '+' || s[0] == '0' {
		return 0, fmt.Errorf("%q is not a port from 1 to 65535", s)
	}
	return uint16(n), nil
}

// ParseHostPort parses a port number of the host.
func ParseHostPort(s string) (uint16, error) {
	n, err := parsePort(s)
	if err != nil {
		return 0, Errorf(ErrUsage, "host port: %w", err)
	}
	return n, nil
}

func parseHostIP(s string) (netip.Addr, error) {
	text := s
	if inner, ok := strings.CutPrefix(s, "["); ok {
		if text, ok = strings.CutSuffix(inner, "]"); !ok || !strings.Contains(text, ":") {
			return netip.Addr{}, fmt.Errorf("%q is not an address of the host", s)
		}
	} else if strings.Contains(s, ":") {
		return netip.Addr{}, fmt.Errorf("write an IPv6 address in brackets")
	}
	a, err := netip.ParseAddr(text)
	if err != nil || a.Is4In6() || a.Zone() != "" || a.IsMulticast() {
		return netip.Addr{}, fmt.Errorf("%q is not an address of the host", s)
	}
	return a, nil
}

// String formats the port as the -p flag takes it.
func (p Port) String() string {
	inside := strconv.Itoa(int(p.Port))
	host := ""
	if p.HostPort != 0 {
		host = strconv.Itoa(int(p.HostPort))
	}
	switch {
	case !p.HostIP.IsValid() && host == "":
		return inside
	case !p.HostIP.IsValid():
		return host + ":" + inside
	case p.HostIP.Is6():
		return "[" + p.HostIP.String() + "]:" + host + ":" + inside
	}
	return p.HostIP.String() + ":" + host + ":" + inside
}

// Exposed reports whether other machines may connect.
func (p Port) Exposed() bool { return p.HostIP.IsValid() && !p.HostIP.IsLoopback() }

// Covers reports whether p, which may leave parts out, matches the published q.
func (p Port) Covers(q Port) bool {
	return p.Port == q.Port && p.Protocol == q.Protocol &&
		(p.HostPort == 0 || p.HostPort == q.HostPort) && (!p.HostIP.IsValid() || p.HostIP == q.HostIP)
}
