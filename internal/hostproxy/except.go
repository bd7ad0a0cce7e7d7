package hostproxy

import (
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// exceptions are servers that are reached without a proxy.
type exceptions struct {
	all  bool
	list []exception
}

// exception is an entry of NO_PROXY.
type exception struct {
	network netip.Prefix // set for a network or an address
	domain  string       // otherwise: this name and all names below it
	port    uint16       // zero: any
}

// parseExceptions reads a list in the format of NO_PROXY, separated by commas or, as in curl, by spaces.
// It drops entries without a meaning, like all programs.
func parseExceptions(text string) (x exceptions) {
	separates := func(r rune) bool { return r == ',' || r == ' ' || r == '\t' }
	for entry := range strings.FieldsFuncSeq(strings.ToLower(text), separates) {
		if entry == "*" {
			x.all = true
		} else if e, ok := parseException(entry); ok {
			x.list = append(x.list, e)
		}
	}
	return x
}

func parseException(entry string) (e exception, ok bool) {
	if p, err := netip.ParsePrefix(entry); err == nil {
		e.network = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()).Masked()
		return e, e.network.IsValid()
	}
	host, port, err := net.SplitHostPort(entry)
	if err != nil {
		host, port = strings.TrimSuffix(strings.TrimPrefix(entry, "["), "]"), ""
	}
	if port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return e, false
		}
		e.port = uint16(n)
	}
	if a, err := netip.ParseAddr(host); err == nil {
		e.network = netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen())
		return e, true
	}
	e.domain = strings.Trim(strings.TrimPrefix(host, "*"), ".")
	return e, e.domain != ""
}

// isExempt reports whether a server is reached without a proxy. This machine always is.
func (x exceptions) isExempt(host string, port uint16) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	a, err := netip.ParseAddr(host)
	a = a.Unmap()
	if x.all || host == "localhost" || err == nil && a.IsLoopback() {
		return true
	}
	for _, e := range x.list {
		switch {
		case e.port != 0 && e.port != port:
		case e.network.IsValid():
			if err == nil && e.network.Contains(a.WithZone("")) {
				return true
			}
		case err == nil:
		case host == e.domain, strings.HasSuffix(host, "."+e.domain):
			return true
		}
	}
	return false
}
