package pull

import (
	"net"
	"net/netip"
	"strings"

	"github.com/bothy-dev/bothy/internal/policy/specialaddr"
	"github.com/bothy-dev/bothy/spec"
)

// A reference from a project's file may come from anybody. It must not make this machine
// contact a server that only this machine and its network can reach. So it may not use an
// address that is not public, a name for this machine, or a name that resolves to such an
// address. A name in a private network is allowed, because companies run registries there;
// it is contacted only over TLS. If the user is logged in to a registry, the user has named
// it, and none of this applies.

// checkForeign rejects a registry because of its name.
func checkForeign(registry string) error {
	name := strings.TrimSuffix(hostname(registry), ".")
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return notForeign(registry, "this machine")
	}
	if a, err := netip.ParseAddr(name); err == nil {
		if what, _ := specialaddr.Describe(a); what != "" {
			return notForeign(registry, what)
		}
	}
	return nil
}

// judgeForeign rejects an address that a registry's name resolved to.
func judgeForeign(registry, address string) error {
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	what, credentials := specialaddr.Describe(a.Addr())
	if what == "" || !credentials && private(a.Addr().WithZone("").Unmap()) {
		return nil
	}
	return notForeign(registry, what)
}

func notForeign(registry, what string) error {
	return spec.Errorf(spec.ErrDenied, "the registry %s is %s: it is not asked because a file says so", registry, what).
		WithHint("if you trust it, log in (docker login %s); or fetch an image yourself: bothy template pull IMAGE", registry)
}

// isRegistry reports whether the dialled address is the registry itself, and not a proxy.
func (g *guard) isRegistry(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && host == hostname(g.host)
}
