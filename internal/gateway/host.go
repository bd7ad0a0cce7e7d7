package gateway

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/bothy-dev/bothy/internal/policy"
)

// host knows the addresses of the machine the gateway runs on. Its loopback is
// closed as every special range is; what it has on the internet would be a
// public host like any other, whose services think the caller is at home.
type host struct {
	mu  sync.Mutex
	at  time.Time
	set map[netip.Addr]bool
}

// hostFresh is how long the host's addresses are believed.
const hostFresh = 3 * time.Second

// has tells whether an address is the host's. If it cannot find out, it is.
func (h *host) has(a netip.Addr) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.set == nil || time.Since(h.at) > hostFresh {
		all, err := net.InterfaceAddrs()
		if err != nil {
			return true
		}
		h.set, h.at = map[netip.Addr]bool{}, time.Now()
		for _, x := range all {
			if p, err := netip.ParsePrefix(x.String()); err == nil {
				h.set[p.Addr().WithZone("")] = true
			}
		}
	}
	return h.set[a.WithZone("")]
}

// notHost refuses the host's own addresses, unless a rule about addresses, and
// not about all of them, opens this one: neither a name that leads here nor a
// default does.
func (g *Gateway) notHost(to netip.AddrPort) error {
	a := to.Addr().Unmap()
	if a.IsLoopback() { // which the policy closes
		return nil
	}
	if !slices.ContainsFunc(append(policy.Embedded(a), a), g.host.has) {
		return nil
	}
	d := g.policy.Load().Decide(policy.Query{Stage: policy.StageConnect, Addr: a, Port: to.Port(), Now: time.Now()})
	if d.Allowed() && d.Rule != nil {
		if p, ok := d.Rule.Target.Prefix(); ok && p.Bits() > 0 {
			return nil
		}
	}
	if !d.Allowed() && d.Cause != policy.CauseNoRule { // which has its own reason, and command
		return &policy.Denied{Decision: d}
	}
	return &policy.Denied{Decision: d.ToHost()}
}
