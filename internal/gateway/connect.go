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

// heldByRelays bounds the buffers of all relayed connections together.
const heldByRelays = held.Most / 4

// attempt decides about an attempt to connect, before it is answered.
func (g *Gateway) attempt(a *netstack.Attempt) {
	if !g.life.enterWork() {
		return
	}
	defer g.life.wg.Done()
	g.conf.CatchUp()
	if to := a.To.Addr(); to == namepool.Gateway4 || to == namepool.Gateway6 {
		g.serveLocal(a)
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
		g.journal.record(r)
		return
	}
	if g.mock.playsHost(subject.Name) {
		g.toMock(a, subject)
		return
	}
	r.Name, r.Addr = subject.Name, subject.Addr
	d := g.policy.Load().Decide(policy.Query{
		Stage: policy.StageConnect, Name: subject.Name, Addr: subject.Addr, Port: subject.Port, Now: time.Now(),
	})
	look := g.models.lookFor(hostOf(subject), d.Inspection)
	if g.judge.isLent(hostOf(subject)) {
		look = policy.InspectMust
	}
	if look != policy.InspectMust { // otherwise each of its requests is refused, with the reason
		g.uploads.afford(&d)
	}
	r = g.journal.decided(r, &d)
	if d.Allowed() && look == policy.InspectNever && g.models.hasBudget() {
		r.Verdict, r.Reason = spec.VerdictDeny, errUnseen.Error()
	}
	if r.Verdict == spec.VerdictDeny {
		g.journal.record(r)
		return
	}
	g.carryFlow(a, &flow{subject: subject, outflow: g.uploads.meterFor(d.Budget), git: d.Git}, r, look)
}

// subject returns the target of an address: the name that it stands for, or the address itself.
func (g *Gateway) subject(to netip.AddrPort) (policy.Flow, error) {
	if name, ok := g.names.Name(to.Addr()); ok {
		return policy.Flow{Name: name, Port: to.Port()}, nil
	}
	if namepool.Own(to.Addr()) {
		return policy.Flow{}, errors.New("the address stands for no name: it was never asked for")
	}
	return policy.Flow{Addr: to.Addr(), Port: to.Port()}, nil
}

// carryFlow dials, accepts and relays.
func (g *Gateway) carryFlow(a *netstack.Attempt, f *flow, r spec.NetworkRecord, i policy.Inspection) {
	must := i == policy.InspectMust
	f.subject.Seen = must // nothing of it will pass unseen
	f.looked = must || i == policy.InspectHTTP
	f.passes = i == policy.InspectNever
	g.tracks.trackFlow(f, r, func(ctx context.Context, r *spec.NetworkRecord) error {
		if err := g.judge.mayFlow(f); err != nil { // later changes of rules find the flow
			f.cutOff(err)
			return err
		}
		if f.looked {
			return g.lookInto(ctx, a, f, r, must)
		}
		return g.joinSides(ctx, a, f, r)
	})
}

// joinSides connects the two sides until both have ended. It dials the far side first: the near side is
// told whether the far side answers.
func (g *Gateway) joinSides(ctx context.Context, a *netstack.Attempt, f *flow, r *spec.NetworkRecord) error {
	outside, err := g.outbound.reached(ctx, f, r)
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
	f.holdConn(inside)
	return g.relayBytes(inside, outside, nil, f, r)
}

// relayBytes carries bytes. The inside has sent some of them already.
func (g *Gateway) relayBytes(inside, outside relay.Conn, said []byte, f *flow, r *spec.NetworkRecord) error {
	if err := g.tracks.opened(f, *r); err != nil {
		return err
	}
	w := &watched{Conn: inside, asks: g.judge.asking(f), unreadable: g.judge.unreadable(f), ahead: said, scan: g.secrets.Load().Scanner()}
	err := relay.Run(w, countedTo(outside, f.outflow), &f.counts, g.copies)
	if w.tls {
		r.Protocol = "tls"
	}
	return g.uploads.spentError(f, err)
}
