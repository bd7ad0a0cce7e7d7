package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"

	"github.com/bothy-dev/bothy/internal/gateway/dial"
	"github.com/bothy-dev/bothy/internal/gateway/namepool"
	"github.com/bothy-dev/bothy/internal/gateway/netstack"
	"github.com/bothy-dev/bothy/internal/gateway/relay"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/spec"
)

// hostPorts are the ports of the host that the inside may reach. No rule of the policy is about the host's names,
// and no resolver is ever asked for them: a port is open to a sandbox by its number or not at all.
type hostPorts struct {
	sandbox string
	dialer  *dial.Dialer
	open    atomic.Pointer[[]uint16]
}

func newHostPorts(sandbox string, d *dial.Dialer, open []uint16) *hostPorts {
	p := &hostPorts{sandbox: sandbox, dialer: d}
	p.open.Store(&open)
	return p
}

// openPorts returns the ports that are open now.
func (p *hostPorts) openPorts() []uint16 { return *p.open.Load() }

// SetHostPorts opens exactly these ports of the host. Connections to other ports end.
func (g *Gateway) SetHostPorts(ports []uint16) {
	ports = slices.Clone(ports)
	g.ports.open.Store(&ports)
	for _, f := range g.flows.listFlows() {
		if port := f.asJudged().Port; f.kind == toHost && !slices.Contains(ports, port) {
			f.cutOff(&advised{errHostPort(port), g.ports.suggest(fmt.Sprint(port))})
		}
	}
	g.inspector.Review()
}

func errHostPort(port uint16) error { return fmt.Errorf("port %d of the host is not allowed", port) }

// lookupHost answers for the host's names if a port of the host is open.
func (g *Gateway) lookupHost(name string) (v4, v6 netip.Addr, err error) {
	if len(g.ports.openPorts()) > 0 {
		return namepool.Host4, namepool.Host6, nil
	}
	err = errors.New("no port of the host is allowed")
	g.journal.record(spec.NetworkRecord{
		Event: spec.NetworkLookup, Name: name, Verdict: spec.VerdictDeny,
		Reason: err.Error(), Suggest: g.ports.suggest("PORT"),
	})
	return v4, v6, err
}

func (p *hostPorts) suggest(port string) string {
	return fmt.Sprintf("bothy ports %s --allow-host-port %s", p.sandbox, port)
}

// toHost answers an attempt to reach a port of the host.
func (g *Gateway) toHost(a *netstack.Attempt) {
	port := a.To.Port()
	r := spec.NetworkRecord{
		Event: spec.NetworkFlow, Name: spec.HostName, Port: port, Protocol: "tcp",
		Verdict: spec.VerdictAllow, Rule: fmt.Sprintf("--allow-host-port %d", port), Source: "sandbox",
	}
	if !slices.Contains(g.ports.openPorts(), port) {
		r.Verdict, r.Rule, r.Source = spec.VerdictDeny, "", ""
		r.Reason, r.Suggest = errHostPort(port).Error(), g.ports.suggest(fmt.Sprint(port))
		g.journal.record(r)
		return
	}
	f := &flow{kind: toHost, subject: policy.Flow{Name: spec.HostName, Port: port}}
	look := g.models.lookFor(hostOf(f.subject), policy.InspectNo)
	if g.judge.isLent(hostOf(f.subject)) {
		look = policy.InspectMust
	}
	f.looked = look != policy.InspectNo
	g.tracks.trackFlow(f, r, func(ctx context.Context, r *spec.NetworkRecord) error {
		if f.looked {
			return g.lookInto(ctx, a, f, r, look == policy.InspectMust)
		}
		outside, err := g.ports.dialPort(ctx, port)
		if err != nil {
			return err
		}
		f.reached(outside, r)
		inside, err := a.Accept()
		if err != nil {
			outside.Reset()
			return err
		}
		f.holdConn(inside)
		if err := g.tracks.opened(f, *r); err != nil {
			return err
		}
		return relay.Run(&watched{Conn: inside, scan: g.secrets.Load().Scanner()}, outside, &f.counts, g.copies)
	})
}

// loopback are the host's own addresses, in the order in which they are tried.
var loopback = [2]netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}

// dialPort connects to a port of the host's loopback. It asks no resolver.
func (p *hostPorts) dialPort(ctx context.Context, port uint16) (relay.Conn, error) {
	var errs [len(loopback)]error
	for i, at := range loopback {
		to := netip.AddrPortFrom(at, port)
		c, err := p.dialer.Addr(ctx, to, func(dialled netip.AddrPort) error {
			if dialled != to || !slices.Contains(p.openPorts(), port) {
				return errHostPort(port)
			}
			return nil
		})
		if err == nil {
			return c, nil
		}
		errs[i] = err
	}
	return nil, fmt.Errorf("%w; %w", errs[0], errs[1])
}
