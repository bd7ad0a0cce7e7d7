package netstack

import (
	"hash/maphash"
	"sync"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/seqnum"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
)

const (
	// smallMessage is the size, in bytes, up to which an acknowledgment waits for an
	// answer to go with. Whoever sends more wants to know that there is room for it.
	smallMessage = 4 << 10
	// holdTime is how long it waits at least; twice this at most. A kernel waits forty
	// milliseconds, and makes slow what says a thing in two small messages.
	holdTime = time.Millisecond
	// maxTurns is how many connections are known by what they said last.
	maxTurns = 256
)

// acks holds back for a moment what only says that a small message came: an
// answer says so, too, and most often follows at once. The stack acknowledges each
// message by a packet of its own, and every packet wakes whoever is inside.
type acks struct {
	send func(*stack.PacketBuffer)
	seed maphash.Seed

	mu    sync.Mutex
	turns [maxTurns]turn
	held  int    // turns that hold a packet
	round uint64 // how often it was looked what was held long enough
	timer *time.Timer
	wait  time.Duration // holdTime but in tests
	ended bool
}

// turn is what a connection said last, and what says that it came.
type turn struct {
	flow  flow
	end   seqnum.Value // of the message
	open  bool         // nothing sent says that it came
	held  *stack.PacketBuffer
	ack   seqnum.Value // what held says
	round uint64       // in which it was held first
}

// flow names a connection.
type flow struct {
	inside, outside         [header.IPv6AddressSize]byte
	insidePort, outsidePort uint16
}

func newAcks(send func(*stack.PacketBuffer)) *acks {
	a := &acks{send: send, seed: maphash.MakeSeed(), wait: holdTime}
	a.timer = time.AfterFunc(time.Hour, a.look)
	a.timer.Stop()
	return a
}

func (a *acks) turn(f flow) *turn {
	return &a.turns[maphash.Comparable(a.seed, f)%maxTurns]
}

// came notes a packet of TCP of the inside, without options or extension headers of
// IP: its first bytes, and the size of all.
func (a *acks) came(head []byte, size int) {
	f, tcp, payload, ok := parse(head, size)
	if !ok || payload <= 0 || payload > smallMessage || tcp.Flags()&^header.TCPFlagPsh != header.TCPFlagAck {
		return
	}
	f.inside, f.outside, f.insidePort, f.outsidePort = f.outside, f.inside, f.outsidePort, f.insidePort
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.turn(f)
	if t.held != nil && t.flow != f {
		return // of two that share a place the second is not known
	}
	t.flow, t.end, t.open = f, seqnum.Value(tcp.SequenceNumber()).Add(seqnum.Size(payload)), true
}

// goes is asked about each packet for the inside. If hold is true, the packet is
// kept and not to be sent now, which may only be of one that is sent alone. If there
// is one before it, that is to be sent first, and released.
func (a *acks) goes(pkt *stack.PacketBuffer, alone bool) (before *stack.PacketBuffer, hold bool) {
	if pkt.TransportProtocolNumber != header.TCPProtocolNumber {
		return nil, false
	}
	f, ok := addresses(pkt.NetworkHeader().Slice())
	tcp := header.TCP(pkt.TransportHeader().Slice())
	if !ok || len(tcp) < header.TCPMinimumSize {
		return nil, false
	}
	f.insidePort, f.outsidePort = tcp.DestinationPort(), tcp.SourcePort()
	ack := seqnum.Value(tcp.AckNumber())
	empty := tcp.Flags() == header.TCPFlagAck && pkt.Data().Size() == 0

	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.turn(f)
	if t.flow != f {
		return nil, false
	}
	wanted := empty && t.open && ack == t.end
	t.open = false
	if t.held == nil {
		if wanted && alone && !a.ended {
			a.hold(t, pkt, ack)
			return nil, true
		}
		return nil, false
	}
	before = a.take(t)
	// What repeats an acknowledgment tells of a loss: none may be missing.
	says := tcp.Flags().Contains(header.TCPFlagAck) && !tcp.Flags().Contains(header.TCPFlagRst)
	if says && (wanted || !empty) && t.ack.LessThanEq(ack) {
		before.DecRef() // pkt says so, too
		return nil, false
	}
	return before, false
}

func (a *acks) hold(t *turn, pkt *stack.PacketBuffer, ack seqnum.Value) {
	t.held, t.ack, t.round = pkt.IncRef(), ack, a.round
	if a.held++; a.held == 1 {
		a.timer.Reset(a.wait)
	}
}

func (a *acks) take(t *turn) *stack.PacketBuffer {
	pkt := t.held
	t.held = nil
	a.held--
	return pkt
}

// look sends what was held when it looked before.
func (a *acks) look() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.turns {
		if t := &a.turns[i]; t.held != nil && t.round < a.round {
			pkt := a.take(t)
			a.send(pkt)
			pkt.DecRef()
		}
	}
	a.round++
	if a.held > 0 {
		a.timer.Reset(a.wait)
	}
}

// end releases what is held. Nothing is sent, or held, once it returns.
func (a *acks) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	a.timer.Stop()
	for i := range a.turns {
		if t := &a.turns[i]; t.held != nil {
			a.take(t).DecRef()
		}
	}
}

// parse takes the first bytes of a packet of TCP apart. The flow is that of a
// packet for the inside.
func parse(head []byte, size int) (f flow, tcp header.TCP, payload int, ok bool) {
	if f, ok = addresses(head); !ok {
		return f, nil, 0, false
	}
	start := header.IPv6MinimumSize
	end := start
	if header.IPVersion(head) == header.IPv4Version {
		start, end = header.IPv4MinimumSize, int(header.IPv4(head).TotalLength())
	} else {
		end += int(header.IPv6(head).PayloadLength())
	}
	if end > size || len(head) < start+header.TCPMinimumSize {
		return f, nil, 0, false
	}
	tcp = header.TCP(head[start:])
	f.insidePort, f.outsidePort = tcp.DestinationPort(), tcp.SourcePort()
	return f, tcp, end - start - int(tcp.DataOffset()), true
}

// addresses reads those of a packet for the inside.
func addresses(ip []byte) (f flow, ok bool) {
	switch header.IPVersion(ip) {
	case header.IPv4Version:
		if ok = len(ip) >= header.IPv4MinimumSize; ok {
			copy(f.outside[:], header.IPv4(ip).SourceAddressSlice())
			copy(f.inside[:], header.IPv4(ip).DestinationAddressSlice())
		}
	case header.IPv6Version:
		if ok = len(ip) >= header.IPv6MinimumSize; ok {
			copy(f.outside[:], header.IPv6(ip).SourceAddressSlice())
			copy(f.inside[:], header.IPv6(ip).DestinationAddressSlice())
		}
	}
	return f, ok
}
