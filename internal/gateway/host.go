package gateway

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/policy/specialaddr"
	"github.com/bothy-dev/bothy/internal/policy/target"
)

// host knows the addresses of the machine that the gateway runs on. The policy closes its loopback
// like every special range. Its addresses on the internet would count as a public host, but their
// services trust the caller as local.
type host struct {
	mu  sync.Mutex
	at  time.Time
	set map[netip.Addr]bool
}

// hostFresh is how long the host's addresses are believed.
const hostFresh = 3 * time.Second

// hasAddr reports whether an address is the host's. If it cannot find out, it reports true.
func (h *host) hasAddr(a netip.Addr) bool {
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

// notHost refuses the host's own addresses, unless a rule about addresses opens this one. A rule
// about all addresses does not count, nor a name that resolves to the host, nor a default.
func (j *judge) notHost(to netip.AddrPort) error {
	a := to.Addr().Unmap()
	if a.IsLoopback() { // the policy closes it
		return nil
	}
	if !slices.ContainsFunc(append(specialaddr.Embedded(a), a), j.host.hasAddr) {
		return nil
	}
	d := j.policy.Load().Decide(policy.Query{Stage: policy.StageConnect, Addr: a, Port: to.Port(), Now: time.Now()})
	if d.Allowed() && d.Rule != nil {
		if t := d.Rule.Target; t.Kind == target.Range && t.Prefix.Bits() > 0 {
			return nil
		}
	}
	if !d.Allowed() && d.Cause != policy.CauseNoRule { // that denial has its own reason and command
		return &policy.Denied{Decision: d}
	}
	return &policy.Denied{Decision: d.ToHost()}
}
