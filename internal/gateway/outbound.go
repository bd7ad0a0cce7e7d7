package gateway

import (
	"context"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/dial"
	"github.com/bothy-dev/bothy/internal/gateway/inspect/upstream"
	"github.com/bothy-dev/bothy/internal/gateway/relay"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/spec"
)

// outbound dials the far side of flows. It asks the rules about each address that a name leads to.
type outbound struct {
	dialer *dial.Dialer
	policy *atomic.Pointer[policy.Policy]
	ports  *hostPorts
	judge  *judge
}

// reached is reach, noted in the flow and its record.
func (o *outbound) reached(ctx context.Context, f *flow, r *spec.NetworkRecord) (relay.Conn, error) {
	outside, err := o.reachFlow(ctx, f.asJudged(), false)
	if err != nil {
		return nil, err
	}
	f.reached(outside, r)
	if err := o.judge.mayFlow(f); err != nil { // the rules changed while it was dialled
		f.cutOff(err)
		return nil, err
	}
	return outside, nil
}

// reachFlow dials the far side of a flow. ForHTTP is for requests in clear, which a proxy may be
// sent instead of the server.
func (o *outbound) reachFlow(ctx context.Context, s policy.Flow, forHTTP bool) (relay.Conn, error) {
	if spec.IsHostName(s.Name) {
		return o.ports.dialPort(ctx, s.Port)
	}
	judge := func(to netip.AddrPort) error {
		if !to.Addr().IsValid() {
			return o.judge.mayResolveElsewhere(to.Port())
		}
		if err := o.judge.notHost(to); err != nil {
			return err
		}
		if s.Name == "" {
			return nil // the literal address was judged, and is the same
		}
		d := o.policy.Load().Decide(policy.Query{
			Stage: policy.StageDial, Name: s.Name, Addr: to.Addr().Unmap(), Port: to.Port(), Git: s.Git, Now: time.Now(),
		})
		if d.Allowed() {
			return nil
		}
		return &policy.Denied{Decision: d}
	}
	d := o.dialer
	switch to := netip.AddrPortFrom(s.Addr, s.Port); {
	case s.Name == "" && forHTTP:
		return d.AddrForHTTP(ctx, to, judge)
	case s.Name == "":
		return d.Addr(ctx, to, judge)
	case forHTTP:
		return d.NameForHTTP(ctx, s.Name, s.Port, judge)
	}
	return d.Name(ctx, s.Name, s.Port, judge)
}

// reachHost dials for an inspected connection.
func (o *outbound) reachHost(ctx context.Context, h upstream.Host) (relay.Conn, error) {
	return o.reachFlow(ctx, policy.Flow{Name: h.Name, Addr: h.Addr, Port: h.Port}, !h.TLS)
}
