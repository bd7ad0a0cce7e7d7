package gateway

import (
	"fmt"
	"net/netip"

	"github.com/bothy-dev/bothy/internal/gateway/names"
	"github.com/bothy-dev/bothy/internal/gateway/netstack"
	"github.com/bothy-dev/bothy/spec"
)

// stray is a packet that was refused, whatever the rules: nothing but TCP leaves.
type stray struct {
	protocol string
	to       netip.AddrPort
}

// maxUntold bounds the packets whose refusal is not recorded yet. Of more at once only how
// many there were is told.
const maxUntold = 64

// dropped has the refusal of a packet recorded. Who reads packets must not wait for a
// disk.
func (g *Gateway) dropped(protocol string, to netip.AddrPort) {
	select {
	case g.untold <- stray{protocol, to}:
	default:
		g.uncounted.Add(1)
	}
}

// tellDropped records refusals of packets until the gateway ends.
func (g *Gateway) tellDropped() {
	for {
		select {
		case p := <-g.untold:
			g.tell(p)
		case <-g.ctx.Done():
			for range len(g.untold) {
				g.tell(<-g.untold)
			}
			return
		}
	}
}

func (g *Gateway) tell(p stray) {
	r := spec.NetworkRecord{
		Event: spec.NetworkFlow, Protocol: p.protocol, Port: p.to.Port(),
		Verdict: spec.VerdictDeny, Reason: "a datagram (UDP) never leaves, whatever the rules: programs fall back to TCP",
	}
	if p.protocol == spec.ProtocolICMP {
		r.Reason = "an echo (ping) never leaves, whatever the rules"
	}
	switch name, ok := g.names.Name(p.to.Addr()); {
	case ok:
		r.Name = name
	case p.to.Addr() == names.Host4 || p.to.Addr() == names.Host6:
		r.Name = hostName
	default:
		r.Addr = p.to.Addr()
	}
	g.log(r)
	if n := g.uncounted.Swap(0); n > 0 {
		g.conf.Log(spec.NetworkRecord{Event: spec.NetworkSuppressed, Sandbox: g.conf.Sandbox, Verdict: spec.VerdictDeny, Suppressed: n})
	}
}

// nothingThere records an attempt to connect to the gateway itself where it does not answer.
func (g *Gateway) nothingThere(a *netstack.Attempt) {
	g.log(spec.NetworkRecord{
		Event: spec.NetworkFlow, Protocol: "tcp", Addr: a.To.Addr(), Port: a.To.Port(),
		Verdict: spec.VerdictDeny, Reason: fmt.Sprintf("it is the sandbox's own gateway, which answers for names at port 53 and why at port 80 (%s)", adviceName),
	})
}
