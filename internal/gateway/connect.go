package gateway

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/held"
	"github.com/bothy-dev/bothy/internal/gateway/namepool"
	"github.com/bothy-dev/bothy/internal/gateway/netstack"
	"github.com/bothy-dev/bothy/internal/gateway/relay"
	"github.com/bothy-dev/bothy/internal/hostproxy"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/spec"
)

// heldByRelays is what buffers of connections that pass may hold in sum.
const heldByRelays = held.Most / 4

// attempt decides about one attempt to connect, before it is answered.
func (g *Gateway) attempt(a *netstack.Attempt) {
	if !g.enter() {
		return
	}
	defer g.wg.Done()
	g.conf.CatchUp()
	if to := a.To.Addr(); to == namepool.Gateway4 || to == namepool.Gateway6 {
		g.local(a)
		return
	}
	if to := a.To.Addr(); to == namepool.Host4 || to == namepool.Host6 {
		g.toHost(a)
		return
	}
	r := spec.NetworkRecord{Event: spec.NetworkFlow, Protocol: "tcp", Port: a.To.Port()}
	subject, err := g.subject(a.To)
	if err != nil {
		r.Addr, r.Verdict, r.Reason = a.To.Addr(), spec.VerdictDeny, err.Error()
		g.log(r)
		return
	}
	if g.isMocked(subject.Name) {
		g.toMock(a, subject)
		return
	}
	r.Name, r.Addr = subject.Name, subject.Addr
	d := g.policy.Load().Decide(policy.Query{
		Stage: policy.StageConnect, Name: subject.Name, Addr: subject.Addr, Port: subject.Port, Now: time.Now(),
	})
	look := g.lookFor(hostOf(subject), d.Inspection)
	if g.isLent(hostOf(subject)) {
		look = policy.InspectMust
	}
	if look != policy.InspectMust { // else its requests are refused, which are told why
		g.afford(&d)
	}
	r = g.decided(r, &d)
	if d.Allowed() && look == policy.InspectNever && g.hasBudget() {
		r.Verdict, r.Reason = spec.VerdictDeny, errUnseen.Error()
	}
	if r.Verdict == spec.VerdictDeny {
		g.log(r)
		return
	}
	g.carry(a, &flow{subject: subject, outflow: g.count(d.Budget), git: d.Git}, r, look)
}

// enter counts somebody in for whom Close waits, unless that waits already: the inside may try to
// connect just then, and nobody may be added while the last one leaves.
func (g *Gateway) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ctx.Err() != nil {
		return false
	}
	g.wg.Add(1)
	return true
}

// subject finds out whom an address is for: a name, or itself.
func (g *Gateway) subject(to netip.AddrPort) (policy.Flow, error) {
	if name, ok := g.names.Name(to.Addr()); ok {
		return policy.Flow{Name: name, Port: to.Port()}, nil
	}
	if namepool.Own(to.Addr()) {
		return policy.Flow{}, errors.New("the address stands for no name: it was never asked for")
	}
	return policy.Flow{Addr: to.Addr(), Port: to.Port()}, nil
}

// carry dials, accepts and relays.
func (g *Gateway) carry(a *netstack.Attempt, f *flow, r spec.NetworkRecord, i policy.Inspection) {
	must := i == policy.InspectMust
	f.subject.Seen = must // nothing of it will pass unseen
	f.looked = must || i == policy.InspectHTTP
	f.passes = i == policy.InspectNever
	g.track(f, r, func(ctx context.Context, r *spec.NetworkRecord) error {
		if err := g.mayFlow(f); err != nil { // from here on changes find it
			f.end(err)
			return err
		}
		if f.looked {
			return g.look(ctx, a, f, r, must)
		}
		return g.join(ctx, a, f, r)
	})
}

// join connects the two sides until both have ended. The far side is dialled
// first: whether it answers is what the near side is told.
func (g *Gateway) join(ctx context.Context, a *netstack.Attempt, f *flow, r *spec.NetworkRecord) error {
	outside, err := g.reached(ctx, f, r)
	if by, ok := errors.AsType[*hostproxy.Error](err); ok && by.Refused() && !f.passes {
		return g.forward(ctx, a, f, r, err)
	}
	if err != nil {
		return err
	}
	inside, err := a.Accept()
	if err != nil {
		outside.Reset()
		return err
	}
	f.hold(inside)
	return g.relay(inside, outside, nil, f, r)
}

// relay carries bytes, of which the inside has said some already.
func (g *Gateway) relay(inside, outside relay.Conn, said []byte, f *flow, r *spec.NetworkRecord) error {
	if err := g.opened(f, *r); err != nil {
		return err
	}
	w := &watched{Conn: inside, asks: g.asking(f), unreadable: g.unreadable(f), ahead: said, scan: g.secrets.Load().Scanner()}
	err := relay.Run(w, countedTo(outside, f.outflow), &f.counts, g.copies)
	if w.tls {
		r.Protocol = "tls"
	}
	return g.spent(f, err)
}

// reached is reach, noted in the flow and its record.
func (g *Gateway) reached(ctx context.Context, f *flow, r *spec.NetworkRecord) (relay.Conn, error) {
	outside, err := g.reach(ctx, f.now(), false)
	if err != nil {
		return nil, err
	}
	f.reached(outside, r)
	if err := g.mayFlow(f); err != nil { // the rules changed while it was dialled
		f.end(err)
		return nil, err
	}
	return outside, nil
}

// reach dials the far side of a flow. ForHTTP is for requests in clear, which a proxy may be
// sent instead of the server.
func (g *Gateway) reach(ctx context.Context, s policy.Flow, forHTTP bool) (relay.Conn, error) {
	if isHost(s.Name) {
		return g.dialHost(ctx, s.Port)
	}
	judge := func(to netip.AddrPort) error {
		if !to.Addr().IsValid() {
			return g.mayResolveElsewhere(to.Port())
		}
		if err := g.notHost(to); err != nil {
			return err
		}
		if s.Name == "" {
			return nil // the literal address was judged, and is the same
		}
		d := g.policy.Load().Decide(policy.Query{
			Stage: policy.StageDial, Name: s.Name, Addr: to.Addr().Unmap(), Port: to.Port(), Git: s.Git, Now: time.Now(),
		})
		if d.Allowed() {
			return nil
		}
		return &policy.Denied{Decision: d}
	}
	d := g.conf.Dialer
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
