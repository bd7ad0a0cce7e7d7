package gateway

import (
	"fmt"
	"sync/atomic"

	"github.com/bothy-dev/bothy/internal/gateway/namepool"
	"github.com/bothy-dev/bothy/internal/gateway/netstack"
	"github.com/bothy-dev/bothy/spec"
)

// maxUntold bounds the refused packets that wait to be recorded. Of further ones only the number is
// recorded.
const maxUntold = 64

// packetLog records packets that are refused whatever the rules.
type packetLog struct {
	life      *lifetime
	journal   *journal
	names     *namepool.Pool
	waiting   chan netstack.Refusal
	uncounted atomic.Int64 // further ones
}

func newPacketLog(life *lifetime, j *journal, names *namepool.Pool) *packetLog {
	return &packetLog{life: life, journal: j, names: names, waiting: make(chan netstack.Refusal, maxUntold)}
}

// addRefusal queues the record of a refused packet, which is refused whatever the rules: only TCP
// leaves. The reader of packets must not wait for a disk.
func (l *packetLog) addRefusal(p netstack.Refusal) {
	select {
	case l.waiting <- p:
	default:
		l.uncounted.Add(1)
	}
}

// recordAll records refusals of packets until the gateway ends.
func (l *packetLog) recordAll() {
	for {
		select {
		case p := <-l.waiting:
			l.recordOne(p)
		case <-l.life.ctx.Done():
			for range len(l.waiting) {
				l.recordOne(<-l.waiting)
			}
			return
		}
	}
}

func (l *packetLog) recordOne(p netstack.Refusal) {
	r := spec.NetworkRecord{
		Event: spec.NetworkFlow, Protocol: p.Protocol, Port: p.To.Port(), Verdict: spec.VerdictDeny, Reason: neverReason(p),
	}
	switch name, ok := l.names.Name(p.To.Addr()); {
	case ok:
		r.Name = name
	case p.To.Addr() == namepool.Host4 || p.To.Addr() == namepool.Host6:
		r.Name = spec.HostName
	default:
		r.Addr = p.To.Addr()
	}
	l.journal.record(r)
	if n := l.uncounted.Swap(0); n > 0 {
		l.journal.write(spec.NetworkRecord{Event: spec.NetworkSuppressed, Sandbox: l.journal.sandbox, Verdict: spec.VerdictDeny, Suppressed: n})
	}
}

// neverReason returns why a packet is refused.
func neverReason(p netstack.Refusal) string {
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

// inWords names the protocols that a user is likely to have meant.
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
