package netstack

import (
	"io"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/seqnum"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
)

// segment is one of the packets of a connection with the inside.
type segment struct {
	v6       bool
	port     uint16 // of the inside: the connection
	seq, ack uint32
	flags    header.TCPFlags
	payload  int
}

// headers writes those of a packet from one address to another.
func (s segment) headers(from, to netip.Addr) (ip, tcp []byte) {
	tcp = make([]byte, header.TCPMinimumSize)
	fields := header.TCPFields{
		SrcPort: 443, DstPort: s.port, SeqNum: s.seq, AckNum: s.ack,
		DataOffset: header.TCPMinimumSize, Flags: s.flags, WindowSize: 1,
	}
	if to == gateway4 || to == gateway6 {
		fields.SrcPort, fields.DstPort = s.port, 443
	}
	header.TCP(tcp).Encode(&fields)
	if s.v6 {
		ip = make([]byte, header.IPv6MinimumSize)
		header.IPv6(ip).Encode(&header.IPv6Fields{
			PayloadLength: uint16(len(tcp) + s.payload), TransportProtocol: header.TCPProtocolNumber, HopLimit: 64,
			SrcAddr: tcpip.AddrFrom16(from.As16()), DstAddr: tcpip.AddrFrom16(to.As16()),
		})
		return ip, tcp
	}
	ip = make([]byte, header.IPv4MinimumSize)
	header.IPv4(ip).Encode(&header.IPv4Fields{
		TotalLength: uint16(len(ip) + len(tcp) + s.payload), TTL: 64, Protocol: uint8(header.TCPProtocolNumber),
		SrcAddr: tcpip.AddrFrom4(from.As4()), DstAddr: tcpip.AddrFrom4(to.As4()),
	})
	return ip, tcp
}

func (s segment) ends() (inside, gateway netip.Addr) {
	if s.v6 {
		return guest6, gateway6
	}
	return guest4, gateway4
}

// outbound is the segment as the stack hands it to its card.
func (s segment) outbound() *stack.PacketBuffer {
	inside, gateway := s.ends()
	ip, tcp := s.headers(gateway, inside)
	pkt := stack.NewPacketBuffer(stack.PacketBufferOptions{
		ReserveHeaderBytes: len(ip) + len(tcp), Payload: buffer.MakeWithData(make([]byte, s.payload)),
	})
	copy(pkt.TransportHeader().Push(len(tcp)), tcp)
	pkt.TransportProtocolNumber = header.TCPProtocolNumber
	copy(pkt.NetworkHeader().Push(len(ip)), ip)
	return pkt
}

func (s segment) inbound() (head []byte, size int) {
	inside, gateway := s.ends()
	ip, tcp := s.headers(inside, gateway)
	head = append(ip, tcp...)
	return head, len(head) + s.payload
}

// line is a card that remembers what went over it.
type line struct {
	*acks
	sent []segment
}

func newLine() *line {
	l := &line{}
	l.acks = newAcks(l.note)
	l.wait = time.Hour // the test looks itself
	return l
}

func (l *line) note(pkt *stack.PacketBuffer) {
	tcp := header.TCP(pkt.TransportHeader().Slice())
	l.sent = append(l.sent, segment{
		v6: len(pkt.NetworkHeader().Slice()) == header.IPv6MinimumSize, port: tcp.DestinationPort(),
		seq: tcp.SequenceNumber(), ack: tcp.AckNumber(), flags: tcp.Flags(), payload: pkt.Data().Size(),
	})
}

func (l *line) say(s segment) {
	pkt := s.outbound()
	defer pkt.DecRef()
	before, hold := l.goes(pkt, true)
	if before != nil {
		l.note(before)
		before.DecRef()
	}
	if !hold {
		l.note(pkt)
	}
}

const ackOnly = header.TCPFlagAck

func TestAcks(t *testing.T) {
	hear := func(seq uint32, size int) func(*line, segment) {
		return func(l *line, s segment) {
			s.seq, s.flags, s.payload = seq, ackOnly|header.TCPFlagPsh, size
			l.came(s.inbound())
		}
	}
	say := func(ack uint32, flags header.TCPFlags, payload int) func(*line, segment) {
		return func(l *line, s segment) {
			s.ack, s.flags, s.payload = ack, flags, payload
			l.say(s)
		}
	}
	look := func(l *line, _ segment) { l.look() }
	type doings = []func(*line, segment)
	for name, c := range map[string]struct {
		do   doings
		want []int // payloads of what was sent
	}{
		"an answer says it":            {doings{hear(100, 10), say(110, ackOnly, 0), say(110, ackOnly, 99)}, []int{99}},
		"no answer":                    {doings{hear(100, 10), say(110, ackOnly, 0), look}, nil},
		"no answer for long":           {doings{hear(100, 10), say(110, ackOnly, 0), look, look}, []int{0}},
		"an answer to what was before": {doings{hear(100, 10), say(110, ackOnly, 0), say(100, ackOnly, 99)}, []int{0, 99}},
		"not all of it":                {doings{hear(100, 10), say(105, ackOnly, 0)}, []int{0}},
		"a large message":              {doings{hear(100, smallMessage+1), say(101+smallMessage, ackOnly, 0)}, []int{0}},
		"every second message":         {doings{hear(100, 10), say(110, ackOnly, 0), hear(110, 10), say(120, ackOnly, 0)}, []int{0}},
		"said twice":                   {doings{hear(100, 10), say(110, ackOnly, 0), say(110, ackOnly, 0), say(110, ackOnly, 0)}, []int{0, 0, 0}},
		"a reset":                      {doings{hear(100, 10), say(110, ackOnly, 0), say(110, ackOnly|header.TCPFlagRst, 0)}, []int{0, 0}},
		"the end":                      {doings{hear(100, 10), say(110, ackOnly, 0), say(110, ackOnly|header.TCPFlagFin, 0)}, []int{0}},
		"around the end of numbers":    {doings{hear(1<<32-5, 10), say(5, ackOnly, 0), say(5, ackOnly, 99)}, []int{99}},
		"nothing is held at the end":   {doings{func(l *line, _ segment) { l.end() }, hear(100, 10), say(110, ackOnly, 0)}, []int{0}},
	} {
		for _, v6 := range []bool{false, true} {
			l := newLine()
			for _, do := range c.do {
				do(l, segment{v6: v6, port: 5000})
			}
			l.end()
			var got []int
			for _, s := range l.sent {
				got = append(got, s.payload)
			}
			if len(got) != len(c.want) {
				t.Errorf("%s: %v was sent, wanted %v", name, got, c.want)
				continue
			}
			for i := range got {
				if got[i] != c.want[i] {
					t.Errorf("%s: %v was sent, wanted %v", name, got, c.want)
				}
			}
		}
	}
}

// Whatever is said, by however many connections: what has a payload or ends something
// is sent at once and in order, and all that was acknowledged the inside hears of, at the
// latest when it was looked twice.
func TestAcksAllArrive(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		l := newLine()
		type peer struct{ said, acked, told, sent, got uint32 }
		peers := make([]peer, 1+random.IntN(600)) // more than there are places
		for i := range peers {
			n := random.Uint32()
			peers[i] = peer{said: n, acked: n, told: n}
		}
		check := func() {
			for _, s := range l.sent {
				p := &peers[s.port]
				if s.payload > 0 {
					if s.seq != p.got {
						t.Fatalf("seed %d: packet %d came, %d was next", seed, s.seq, p.got)
					}
					p.got++
				}
				if seqnum.Value(p.told).LessThan(seqnum.Value(s.ack)) {
					p.told = s.ack
				}
			}
			l.sent = l.sent[:0]
		}
		for range 2000 {
			i := random.IntN(len(peers))
			p, s := &peers[i], segment{v6: i%2 == 1, port: uint16(i)}
			switch random.IntN(8) {
			case 0, 1, 2: // a message, and that it came
				s.payload, s.seq, s.flags = 1+random.IntN(2*smallMessage), p.said, ackOnly
				p.said += uint32(s.payload)
				l.came(s.inbound())
				if random.IntN(4) > 0 {
					p.acked = p.said
					l.say(segment{v6: s.v6, port: s.port, ack: p.acked, flags: ackOnly, seq: p.sent})
				}
			case 3, 4: // something of ours
				p.acked = p.said
				l.say(segment{v6: s.v6, port: s.port, ack: p.acked, flags: ackOnly, seq: p.sent, payload: 7})
				p.sent++
			case 5: // the same again
				l.say(segment{v6: s.v6, port: s.port, ack: p.acked, flags: ackOnly, seq: p.sent})
			case 6:
				l.look()
			}
			check()
			if p.got != p.sent {
				t.Fatalf("seed %d: %d packets were sent at once of %d", seed, p.got, p.sent)
			}
		}
		l.look()
		l.look()
		check()
		for i, p := range peers {
			if p.told != p.acked {
				t.Fatalf("seed %d: the inside of connection %d was told of %d, not of %d", seed, i, p.told, p.acked)
			}
		}
		if l.held != 0 {
			t.Fatalf("seed %d: %d are held", seed, l.held)
		}
	}
}

// A conversation of small messages takes one packet for each. What is sent again, on a
// slow machine, is one more.
func TestAcksGoWithAnswers(t *testing.T) {
	s, in := start(t, serving(t, func(c *Conn) { _, _ = io.Copy(c, c) }))
	held := s.link.acks
	held.mu.Lock()
	held.wait = time.Hour
	held.mu.Unlock()
	c, err := in.Dial(t.Context(), far4)
	must(t, err)
	defer c.Close()
	packets := in.Stack.Stats().TCP.ValidSegmentsReceived
	const messages = 20
	for range 10 {
		before := packets.Value()
		for range messages {
			_, err := c.Write([]byte("question"))
			must(t, err)
			_, err = io.ReadFull(c, make([]byte, len("question")))
			must(t, err)
		}
		if packets.Value()-before == messages {
			return
		}
	}
	t.Errorf("%d answers never came in as many packets", messages)
}
