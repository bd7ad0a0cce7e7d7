package gateway

import (
	"fmt"

	"github.com/bothy-dev/bothy/internal/gateway/namepool"
	"github.com/bothy-dev/bothy/internal/gateway/netstack"
	"github.com/bothy-dev/bothy/spec"
)

// maxUntold bounds the packets whose refusal is not recorded yet. Of more at once only how
// many there were is told.
const maxUntold = 64

// dropped has the refusal of a packet recorded, which is refused whatever the rules: nothing
// but TCP leaves. Who reads packets must not wait for a disk.
func (g *Gateway) dropped(p netstack.Refusal) {
	select {
	case g.untold <- p:
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

func (g *Gateway) tell(p netstack.Refusal) {
	r := spec.NetworkRecord{
		Event: spec.NetworkFlow, Protocol: p.Protocol, Port: p.To.Port(), Verdict: spec.VerdictDeny, Reason: never(p),
	}
	switch name, ok := g.names.Name(p.To.Addr()); {
	case ok:
		r.Name = name
	case p.To.Addr() == namepool.Host4 || p.To.Addr() == namepool.Host6:
		r.Name = hostName
	default:
		r.Addr = p.To.Addr()
	}
	g.log(r)
	if n := g.uncounted.Swap(0); n > 0 {
		g.conf.Log(spec.NetworkRecord{Event: spec.NetworkSuppressed, Sandbox: g.conf.Sandbox, Verdict: spec.VerdictDeny, Suppressed: n})
	}
}

// never says why a packet is refused.
func never(p netstack.Refusal) string {
	switch {
	case p.Protocol == spec.ProtocolICMP && p.Form != "":
		return p.Form + " never leaves, whatever the rules"
	case p.Protocol == spec.ProtocolICMP:
		return "an echo (ping) never leaves, whatever the rules"
	case p.Protocol == spec.ProtocolUDP:
		return "a datagram (UDP) never leaves, whatever the rules: programs fall back to TCP"
	case p.Form != "":
		return p.Form + " never leaves, whatever the rules"
	}
	return fmt.Sprintf("protocol %d of IP%s never leaves, whatever the rules: nothing but TCP does", p.Number, inWords(p.Number))
}

// inWords names those protocols that somebody is likely to have meant to use.
func inWords(protocol uint8) string {
	switch protocol {
	case 2:
		return " (IGMP)"
	case 4, 41:
		return " (a tunnel)"
	case 33:
		return " (DCCP)"
	case 47:
		return " (GRE)"
	case 50:
		return " (ESP)"
	case 132:
		return " (SCTP)"
	}
	return ""
}

// nothingThere records an attempt to connect to the gateway itself where it does not answer.
func (g *Gateway) nothingThere(a *netstack.Attempt) {
	g.refuseLocal(a, fmt.Sprintf("it is the sandbox's own gateway, which answers for names at port 53 and why at port 80 (%s)", adviceName))
}

// refuseLocal records that a connection to the gateway itself is refused.
func (g *Gateway) refuseLocal(a *netstack.Attempt, why string) {
	g.log(spec.NetworkRecord{
		Event: spec.NetworkFlow, Protocol: "tcp", Addr: a.To.Addr(), Port: a.To.Port(), Verdict: spec.VerdictDeny, Reason: why,
	})
}
