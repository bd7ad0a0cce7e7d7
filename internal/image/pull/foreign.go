package pull

import (
	"net"
	"net/netip"
	"strings"

	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/spec"
)

// A reference that a file of a project has may be anybody's. It has this machine ask
// nobody whom only this machine and its network can ask: not by an address that is no
// public one, not by what means this machine, and not by a name that turns out to be
// that. A name may be one in a private network, for firms have registries there; it is
// asked encrypted. Where the user is logged in, they have named the registry themselves.

// checkForeign refuses a registry by its name.
func checkForeign(registry string) error {
	name := strings.TrimSuffix(hostname(registry), ".")
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return notForeign(registry, "this machine")
	}
	if a, err := netip.ParseAddr(name); err == nil {
		if what, _ := policy.Special(a); what != "" {
			return notForeign(registry, what)
		}
	}
	return nil
}

// judgeForeign refuses an address that the name of a registry has turned out to mean.
func judgeForeign(registry, address string) error {
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	what, credentials := policy.Special(a.Addr())
	if what == "" || !credentials && private(a.Addr().WithZone("").Unmap()) {
		return nil
	}
	return notForeign(registry, what)
}

func notForeign(registry, what string) error {
	return spec.Errorf(spec.ErrDenied, "the registry %s is %s: it is not asked because a file says so", registry, what).
		WithHint("if you trust it, log in (docker login %s); or fetch an image yourself: bothy template pull IMAGE", registry)
}

// named tells whether what is dialled is the registry itself, and no proxy.
func (g *guard) named(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && host == hostname(g.host)
}
