package netstack

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"

	"github.com/bothy-dev/bothy/internal/gateway/insidetest"
	"github.com/bothy-dev/bothy/internal/gateway/relay"
	"github.com/bothy-dev/bothy/spec"
)

var (
	gateway4 = netip.MustParseAddr("198.18.0.1")
	guest4   = netip.MustParseAddr("198.18.0.2")
	gateway6 = netip.MustParseAddr("fd62:6f74:6879::1")
	guest6   = netip.MustParseAddr("fd62:6f74:6879::2")
	far4     = netip.MustParseAddrPort("203.0.113.9:443")
	far6     = netip.MustParseAddrPort("[2001:db8::9]:443")
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func try(t testing.TB, err tcpip.Error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// patience is how long anything here may take before it counts as hung.
const patience = time.Minute

// eventually waits for a condition that may come true. The caller checks whether it did.
func eventually(done func() bool) {
	for end := time.Now().Add(patience); !done() && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
}

// start makes a card with both ends.
func start(t testing.TB, c Config) (*Stack, *insidetest.Inside) {
	t.Helper()
	gateway, sandbox, err := Card()
	must(t, err)
	c.FD, c.Unsummed, c.Gateway = gateway, true, []netip.Addr{gateway4, gateway6}
	s, err := New(c)
	must(t, err)
	t.Cleanup(s.Close)
	return s, insidetest.New(t, sandbox, MTU, gateway4, guest4, guest6)
}

// serving accepts every attempt and hands the connection to a server.
func serving(t testing.TB, server func(*Conn)) Config {
	return Config{TCP: func(a *Attempt) {
		c, err := a.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		server(c)
	}}
}

func TestConnect(t *testing.T) {
	seen := make(chan netip.AddrPort, 1)
	_, in := start(t, Config{TCP: func(a *Attempt) {
		seen <- a.To
		c, err := a.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		_, _ = io.Copy(c, c)
		_ = c.CloseWrite()
	}})
	for _, to := range []netip.AddrPort{far4, far6} {
		c, err := in.Dial(t.Context(), to)
		must(t, err)
		if got := <-seen; got != to {
			t.Errorf("it wanted %v, the handler saw %v", to, got)
		}
		sent := make([]byte, 3<<20)
		_, _ = rand.Read(sent)
		go func() { _, _ = c.Write(sent); _ = c.CloseWrite() }()
		got, err := io.ReadAll(c) // ends only if the half-close came through and back
		must(t, err)
		if !bytes.Equal(sent, got) {
			t.Errorf("%v: %d bytes came back, %d were sent, or others", to, len(got), len(sent))
		}
		c.Close()
	}
}

// TestWholePackets checks that a relay's writes fill whole packets: its size and the MTU must fit
// together. On a slow machine, repeated packets count as well.
func TestWholePackets(t *testing.T) {
	accepted := make(chan *Conn, 1)
	_, in := start(t, Config{TCP: func(a *Attempt) {
		c, err := a.Accept()
		if err != nil {
			t.Error(err)
		}
		accepted <- c
	}})
	inside, err := in.Dial(t.Context(), far4)
	must(t, err)
	defer inside.Close()
	c := <-accepted
	defer c.Close()
	b := make([]byte, relay.Segment)
	for range 10 {
		packets := in.Stack.Stats().TCP.ValidSegmentsReceived
		before := packets.Value()
		_, err := c.Write(b)
		must(t, err)
		_, err = io.ReadFull(inside, b)
		must(t, err)
		if packets.Value()-before == 1 {
			return
		}
	}
	t.Errorf("%d bytes never came in one packet", len(b))
}

func TestRefuse(t *testing.T) {
	for name, handler := range map[string]func(*Attempt){
		"refused":    (*Attempt).Refuse,
		"unanswered": func(*Attempt) {},
	} {
		t.Run(name, func(t *testing.T) {
			_, in := start(t, Config{TCP: handler})
			for _, to := range []netip.AddrPort{far4, far6} {
				c, err := in.Dial(t.Context(), to)
				if err == nil {
					c.Close()
					t.Fatal("connected")
				}
				if !strings.Contains(err.Error(), "refused") {
					t.Errorf("%v: %v: not refused", to, err)
				}
			}
		})
	}
}

func TestAnswerOnce(t *testing.T) {
	result := make(chan error, 2)
	_, in := start(t, Config{TCP: func(a *Attempt) {
		c, err := a.Accept()
		if err == nil {
			defer c.Close()
		}
		result <- err
		a.Refuse()
		_, err = a.Accept()
		result <- err
	}})
	c, err := in.Dial(t.Context(), far4)
	must(t, err)
	defer c.Close()
	must(t, <-result)
	if <-result == nil {
		t.Error("accepted twice")
	}
}

// TestReset checks that a connection that was cut off does not look complete.
func TestReset(t *testing.T) {
	_, in := start(t, serving(t, func(c *Conn) {
		_, _ = c.Write([]byte("half of i"))
		time.Sleep(50 * time.Millisecond)
		c.Reset()
	}))
	c, err := in.Dial(t.Context(), far4)
	must(t, err)
	defer c.Close()
	if got, err := io.ReadAll(c); err == nil {
		t.Errorf("%q, and then a proper end", got)
	}
}

// TestPortsAgain checks that a program may reuse the ports of a connection that the other side
// ended.
func TestPortsAgain(t *testing.T) {
	_, in := start(t, serving(t, func(c *Conn) {
		_, _ = io.WriteString(c, "bye")
		_ = c.CloseWrite()
		_, _ = io.Copy(io.Discard, c)
	}))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	from := insidetest.Full(netip.AddrPortFrom(guest4, 40_000))
	for range 3 {
		c, err := gonet.DialTCPWithBind(ctx, in.Stack, from, insidetest.Full(far4), insidetest.Protocol(guest4))
		for err != nil && strings.Contains(err.Error(), "in use") { // on this side
			time.Sleep(20 * timeWait) // and long over on the other
			c, err = gonet.DialTCPWithBind(ctx, in.Stack, from, insidetest.Full(far4), insidetest.Protocol(guest4))
		}
		must(t, err)
		b, err := io.ReadAll(c)
		must(t, err)
		if string(b) != "bye" {
			t.Errorf("%q", b)
		}
		c.Close()
	}
}

// TestReadLate checks that bytes that came before the end can be read, however late.
func TestReadLate(t *testing.T) {
	got := make(chan []byte, 1)
	ended := make(chan struct{})
	_, in := start(t, serving(t, func(c *Conn) {
		_ = c.CloseWrite()
		<-ended
		b, _ := io.ReadAll(c)
		got <- b
	}))
	c, err := in.Dial(t.Context(), far4)
	must(t, err)
	_, err = io.ReadAll(c)
	must(t, err)
	_, err = io.WriteString(c, "late")
	must(t, err)
	must(t, c.Close())
	time.Sleep(20 * timeWait)
	close(ended)
	if b := <-got; string(b) != "late" {
		t.Errorf("%q", b)
	}
}

// TestAwaitCut checks a program that has sent its end. It may go on reading, cut the connection, or
// hang up. A hang-up shows when its kernel has forgotten the connection.
func TestAwaitCut(t *testing.T) {
	often := askOften
	askOften = 10 * time.Millisecond
	defer func() { askOften = often }()
	for name, c := range map[string]struct {
		end func(*insidetest.Inside, *gonet.TCPConn) error
		cut bool
	}{
		"listens": {func(_ *insidetest.Inside, c *gonet.TCPConn) error { return c.CloseWrite() }, false},
		"cuts": {func(_ *insidetest.Inside, c *gonet.TCPConn) error {
			must(t, c.CloseWrite())
			_, err := c.Read(make([]byte, 1))
			return errors.Join(err, c.Close()) // with something unread
		}, true},
		"hangs up": {func(in *insidetest.Inside, c *gonet.TCPConn) error {
			soon := tcpip.TCPLingerTimeoutOption(time.Millisecond)
			try(t, in.Stack.SetTransportProtocolOption(tcp.ProtocolNumber, &soon))
			_, err := c.Read(make([]byte, 2))
			return errors.Join(err, c.Close())
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			stop, got := make(chan struct{}), make(chan bool, 1)
			_, in := start(t, serving(t, func(c *Conn) {
				_, _ = io.WriteString(c, "hi")
				_, _ = io.ReadAll(c)
				got <- c.AwaitCut(stop)
			}))
			conn, err := in.Dial(t.Context(), far4)
			must(t, err)
			defer conn.Close()
			must(t, c.end(in, conn))
			if !c.cut {
				close(stop)
			}
			if cut := <-got; cut != c.cut {
				t.Errorf("cut: %v", cut)
			}
		})
	}
}

// TestEndOfCut checks that CloseWrite succeeds on a connection that the inside has cut.
func TestEndOfCut(t *testing.T) {
	result := make(chan error, 1)
	_, in := start(t, serving(t, func(c *Conn) {
		_, _ = io.WriteString(c, "unread")
		if _, err := io.ReadAll(c); err == nil {
			t.Error("the cut looks like an end")
		}
		result <- c.CloseWrite()
	}))
	c, err := in.Dial(t.Context(), far4)
	must(t, err)
	_, err = io.ReadFull(c, make([]byte, 1))
	must(t, err)
	must(t, c.Close()) // with something unread: a cut
	must(t, <-result)
}

func TestNames(t *testing.T) {
	_, in := start(t, Config{DNS: func(q []byte) []byte {
		if string(q) == "silence" {
			return nil
		}
		return append([]byte("re: "), q...)
	}})
	for _, g := range []netip.Addr{gateway4, gateway6} {
		to := insidetest.Full(netip.AddrPortFrom(g, 53))
		c, err := gonet.DialUDP(in.Stack, nil, &to, protocolOf(g))
		must(t, err)
		for _, q := range []string{"silence", "who?"} {
			_, err = c.Write([]byte(q))
			must(t, err)
		}
		_ = c.SetReadDeadline(time.Now().Add(patience))
		buf := make([]byte, 100)
		n, err := c.Read(buf)
		must(t, err)
		if got := string(buf[:n]); got != "re: who?" {
			t.Errorf("%v answers %q", g, got)
		}
		c.Close()
	}
}

// stuck accepts packets and never returns.
type stuck struct {
	stack.NetworkDispatcher
	free chan struct{}
}

func (s stuck) DeliverNetworkPacket(tcpip.NetworkProtocolNumber, *stack.PacketBuffer) { <-s.free }

// TestB10PacketsWaitOutside checks that packets that the stack has no time for wait on the card,
// which is bounded, and not in this process (B10).
func TestB10PacketsWaitOutside(t *testing.T) {
	gateway, sandbox, err := Card()
	must(t, err)
	defer unix.Close(sandbox)
	must(t, unix.SetNonblock(gateway, true))
	link, err := openLink(gateway, true, func() {})
	must(t, err)
	to := stuck{free: make(chan struct{})}
	link.Attach(to)
	defer func() { close(to.free); link.Attach(nil); link.Wait(); unix.Close(gateway) }()

	packet := make([]byte, header.IPv4MinimumSize+header.UDPMinimumSize)
	header.IPv4(packet).Encode(&header.IPv4Fields{
		TotalLength: uint16(len(packet)), TTL: 64, Protocol: uint8(header.UDPProtocolNumber),
		SrcAddr: tcpip.AddrFromSlice(guest4.AsSlice()), DstAddr: tcpip.AddrFromSlice(gateway4.AsSlice()),
	})
	taken, since := 0, time.Now()
	for time.Since(since) < time.Second { // until no more packets are taken
		header.UDP(packet[header.IPv4MinimumSize:]).SetSourcePort(uint16(taken)) // of many flows
		switch _, err := unix.SendmsgN(sandbox, packet, nil, nil, unix.MSG_DONTWAIT); {
		case err == nil:
			taken, since = taken+1, time.Now()
		case !errors.Is(err, unix.EAGAIN):
			t.Fatal(err)
		default:
			time.Sleep(time.Millisecond)
		}
		if taken > 100_000 {
			t.Fatalf("%d packets were taken and none was delivered", taken)
		}
	}
}

// TestSummingPeer checks a socket whose peer makes and checks checksums, as a kernel does: answers
// to TCP, to datagrams and refusals reach it, over both families.
func TestSummingPeer(t *testing.T) {
	gateway, sandbox, err := Card()
	must(t, err)
	c := serving(t, func(c *Conn) { _, _ = io.WriteString(c, "here"); _ = c.CloseWrite() })
	c.FD, c.Gateway = gateway, []netip.Addr{gateway4, gateway6}
	c.DNS = func(q []byte) []byte { return q }
	s, err := New(c)
	must(t, err)
	t.Cleanup(s.Close)
	in := insidetest.NewSumming(t, sandbox, MTU, gateway4, guest4, guest6)
	for _, to := range []netip.AddrPort{far4, far6} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		conn, err := in.Dial(ctx, to)
		cancel()
		must(t, err)
		if b, err := io.ReadAll(conn); err != nil || string(b) != "here" {
			t.Errorf("%v: %q, %v", to, b, err)
		}
		conn.Close()
	}
	for _, server := range []netip.Addr{gateway4, gateway6} {
		conn, err := in.DialUDP(netip.AddrPortFrom(server, nameServer))
		must(t, err)
		must(t, conn.SetDeadline(time.Now().Add(patience)))
		_, err = conn.Write([]byte("question"))
		must(t, err)
		b := make([]byte, 64)
		if n, err := conn.Read(b); err != nil || string(b[:n]) != "question" {
			t.Errorf("%v: %q, %v", server, b[:n], err)
		}
		conn.Close()
	}
}

// TestNoPackets checks that bytes that are not a packet do not end the link, nor hold up packets
// after them.
func TestNoPackets(t *testing.T) {
	gateway, sandbox, err := Card()
	must(t, err)
	c := serving(t, func(c *Conn) { _, _ = io.WriteString(c, "here"); _ = c.CloseWrite() })
	c.FD, c.Unsummed, c.Gateway = gateway, true, []netip.Addr{gateway4, gateway6}
	s, err := New(c)
	must(t, err)
	t.Cleanup(s.Close)
	for _, p := range []string{"", "x", "\x40", "\x60" + strings.Repeat("x", bodyMax-2), "\xff" + strings.Repeat("x", headMax+bodyMax)} {
		for range batch { // as many as are read at once
			_, err := unix.SendmsgN(sandbox, []byte(p), nil, nil, 0)
			must(t, err)
		}
	}
	conn, err := insidetest.New(t, sandbox, MTU, gateway4, guest4, guest6).Dial(t.Context(), far4)
	must(t, err)
	defer conn.Close()
	if b, err := io.ReadAll(conn); err != nil || string(b) != "here" {
		t.Errorf("%q, %v", b, err)
	}
}

// TestCloseUnderTraffic checks that a stack ends with active traffic.
func TestCloseUnderTraffic(t *testing.T) {
	for range 20 {
		gateway, sandbox, err := Card()
		must(t, err)
		s, err := New(Config{FD: gateway, Unsummed: true, Gateway: []netip.Addr{gateway4, gateway6}, TCP: func(*Attempt) {}, DNS: func(q []byte) []byte { return q }})
		must(t, err)
		end, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			packet := make([]byte, header.IPv4MinimumSize+header.UDPMinimumSize)
			for n := uint16(1); ; n++ {
				select {
				case <-end:
					return
				default:
				}
				header.IPv4(packet).Encode(&header.IPv4Fields{
					TotalLength: uint16(len(packet)), TTL: 64, Protocol: uint8(header.UDPProtocolNumber),
					SrcAddr: tcpip.AddrFromSlice(guest4.AsSlice()), DstAddr: tcpip.AddrFrom4([4]byte{203, 0, 113, byte(n)}),
				})
				ip := header.IPv4(packet)
				ip.SetChecksum(^ip.CalculateChecksum())
				header.UDP(packet[header.IPv4MinimumSize:]).Encode(&header.UDPFields{SrcPort: n, DstPort: n, Length: header.UDPMinimumSize})
				if _, err := unix.SendmsgN(sandbox, packet, nil, nil, unix.MSG_DONTWAIT); err != nil {
					time.Sleep(100 * time.Microsecond)
				}
			}
		}()
		time.Sleep(2 * time.Millisecond)
		closed := make(chan struct{})
		go func() { s.Close(); close(closed) }()
		select {
		case <-closed:
		case <-time.After(patience):
			t.Fatal("it does not end")
		}
		close(end)
		<-ended
		unix.Close(sandbox)
	}
}

// TestA16DatagramsRefused checks that any other datagram is refused with an ICMP message. A
// connected socket reports it as "connection refused".
func TestA16DatagramsRefused(t *testing.T) {
	refused := make(chan netip.AddrPort, 1000)
	_, in := start(t, Config{DNS: func(q []byte) []byte { return q }, Refused: func(r Refusal) {
		if r.Protocol != spec.ProtocolUDP {
			t.Errorf("%+v", r)
		}
		refused <- r.To
	}})
	for _, to := range []netip.AddrPort{
		far4, far6, netip.AddrPortFrom(far4.Addr(), 53), netip.AddrPortFrom(gateway4, 54), netip.AddrPortFrom(gateway6, 443),
	} {
		at := insidetest.Full(to)
		c, err := gonet.DialUDP(in.Stack, nil, &at, protocolOf(to.Addr()))
		must(t, err)
		_, err = c.Write([]byte("hello"))
		must(t, err)
		eventually(func() bool { // the refusal shows at the next call
			_, err = c.Write([]byte("hello"))
			return err != nil
		})
		if err == nil || !strings.Contains(err.Error(), "refused") {
			t.Errorf("%v: %v", to, err)
		}
		c.Close()
		told := <-refused
		for len(refused) > 0 {
			told = <-refused
		}
		if told != to {
			t.Errorf("of %v is told as %v", to, told)
		}
	}
}

// TestA3EchoRefused checks that an echo is refused, never answered: neither for the far end nor for
// the gateway.
func TestA3EchoRefused(t *testing.T) {
	refused := make(chan netip.AddrPort, 10)
	_, in := start(t, Config{Refused: func(r Refusal) {
		if r.Protocol != spec.ProtocolICMP {
			t.Errorf("%+v", r)
		}
		refused <- r.To
	}})
	for _, to := range []netip.Addr{far4.Addr(), far6.Addr(), gateway4, gateway6} {
		var queue waiter.Queue
		var proto tcpip.TransportProtocolNumber = header.ICMPv4ProtocolNumber
		request := []byte(header.ICMPv4(make([]byte, 8+4)))
		request[0] = byte(header.ICMPv4Echo)
		if to.Is6() {
			proto = header.ICMPv6ProtocolNumber
			request[0] = byte(header.ICMPv6EchoRequest)
		}
		ep, err := in.Stack.NewEndpoint(proto, protocolOf(to), &queue)
		try(t, err)
		entry, ready := waiter.NewChannelEntry(waiter.EventIn | waiter.EventErr)
		queue.EventRegister(&entry)
		at := insidetest.Full(netip.AddrPortFrom(to, 0))
		try(t, ep.Connect(at))
		_, err = ep.Write(bytes.NewReader(request), tcpip.WriteOptions{})
		try(t, err)
		select {
		case <-ready:
		case <-time.After(300 * time.Millisecond): // this client's endpoint may ignore the refusal
		}
		var answer bytes.Buffer
		if _, err := ep.Read(&answer, tcpip.ReadOptions{}); err == nil {
			t.Errorf("ping %v is answered: %x", to, answer.Bytes())
		}
		if told := <-refused; told.Addr() != to {
			t.Errorf("of %v is told as %v", to, told)
		}
		ep.Close()
	}
	for version, came := range map[int]*tcpip.StatCounter{
		4: in.Stack.Stats().ICMP.V4.PacketsReceived.DstUnreachable,
		6: in.Stack.Stats().ICMP.V6.PacketsReceived.DstUnreachable,
	} {
		eventually(func() bool { return came.Value() >= 2 })
		if n := came.Value(); n != 2 {
			t.Errorf("%d refusals over IPv%d, want 2", n, version)
		}
	}
}

// TestGarbage checks that malformed packets do no harm.
func TestGarbage(t *testing.T) {
	_, in := start(t, Config{TCP: func(a *Attempt) {
		if c, err := a.Accept(); err == nil {
			c.Close()
		}
	}})
	for n := range 200 {
		b := make([]byte, n%70)
		_, _ = rand.Read(b)
		if len(b) > 0 {
			b[0] = []byte{0x45, 0x60, 0x4f, 0x00}[n%4]
		}
		_ = unix.Send(in.FD, b, 0)
	}
	c, err := in.Dial(t.Context(), far4)
	must(t, err)
	c.Close()
}

// TestClose checks that Close ends active connections.
func TestClose(t *testing.T) {
	accepted := make(chan net.Conn, 1)
	s, in := start(t, Config{TCP: func(a *Attempt) {
		c, err := a.Accept()
		if err != nil {
			t.Error(err)
		}
		accepted <- c
	}})
	c, err := in.Dial(t.Context(), far4)
	must(t, err)
	defer c.Close()
	server := <-accepted
	s.Close()
	_ = server.SetReadDeadline(time.Now().Add(patience))
	if _, err := server.Read(make([]byte, 1)); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after Close: %v", err)
	}
}

// TestA3Disguise checks that disguised packets get nowhere: extension headers before an echo,
// fragments, options.
func TestA3Disguise(t *testing.T) {
	_, in := start(t, Config{TCP: func(*Attempt) { t.Error("a connection") }})
	echo6 := func(next byte, extra []byte) []byte {
		body := append(extra, make([]byte, 8)...)
		body[len(extra)] = byte(header.ICMPv6EchoRequest)
		b := make([]byte, header.IPv6MinimumSize+len(body))
		header.IPv6(b).Encode(&header.IPv6Fields{
			PayloadLength: uint16(len(body)), TransportProtocol: tcpip.TransportProtocolNumber(next), HopLimit: 64,
			SrcAddr: tcpip.AddrFromSlice(guest6.AsSlice()), DstAddr: tcpip.AddrFromSlice(far6.Addr().AsSlice()),
		})
		copy(b[header.IPv6MinimumSize:], body)
		msg := header.ICMPv6(b[header.IPv6MinimumSize+len(extra):])
		msg.SetChecksum(header.ICMPv6Checksum(header.ICMPv6ChecksumParams{Header: msg, Src: header.IPv6(b).SourceAddress(), Dst: header.IPv6(b).DestinationAddress()}))
		return b
	}
	const icmp6, hopByHop, destination, fragment = 58, 0, 60, 44
	for _, packet := range [][]byte{
		echo6(hopByHop, []byte{icmp6, 0, 1, 4, 0, 0, 0, 0}),
		echo6(destination, []byte{icmp6, 0, 1, 4, 0, 0, 0, 0}),
		echo6(fragment, []byte{icmp6, 0, 0, 1, 0, 0, 0, 7}),
	} {
		must(t, unix.Send(in.FD, packet, 0))
	}
	plain := echo6(icmp6, nil) // it is refused, and then everything before it was seen
	must(t, unix.Send(in.FD, plain, 0))
	eventually(func() bool { return in.Stack.Stats().ICMP.V6.PacketsReceived.DstUnreachable.Value() > 0 })
	received := in.Stack.Stats().ICMP.V6.PacketsReceived
	if received.DstUnreachable.Value() != 1 || received.EchoReply.Value() != 0 {
		t.Errorf("%d refusals, %d answers", received.DstUnreachable.Value(), received.EchoReply.Value())
	}
}

// TestA16OtherPacketsRefused checks packets other than TCP, UDP or ICMP, fragments, and packets
// with something before their content: none leaves unseen. Each is reported, and an unknown
// protocol gets an answer that says so.
func TestA16OtherPacketsRefused(t *testing.T) {
	told := make(chan Refusal, 100)
	_, in := start(t, Config{TCP: func(*Attempt) { t.Error("a connection") }, Refused: func(r Refusal) { told <- r }})
	some4, some6 := far4.Addr(), far6.Addr()
	groups, everybody := netip.MustParseAddr("224.0.0.251"), netip.MustParseAddr("255.255.255.255")
	ip4 := func(protocol uint8, to netip.Addr, change func(*header.IPv4Fields), options ...byte) []byte {
		b := make([]byte, header.IPv4MinimumSize+len(options)+16)
		f := &header.IPv4Fields{
			TotalLength: uint16(len(b)), TTL: 64, Protocol: protocol,
			SrcAddr: tcpip.AddrFromSlice(guest4.AsSlice()), DstAddr: tcpip.AddrFromSlice(to.AsSlice()),
		}
		if change != nil {
			change(f)
		}
		header.IPv4(b).Encode(f)
		copy(b[header.IPv4MinimumSize:], options)
		b[0] = 0x45 + byte(len(options)/4)
		header.IPv4(b).SetChecksum(0)
		header.IPv4(b).SetChecksum(^header.IPv4(b).CalculateChecksum())
		return b
	}
	ip6 := func(next uint8, to netip.Addr, rest ...byte) []byte {
		body := append(rest, make([]byte, 16)...)
		b := make([]byte, header.IPv6MinimumSize, header.IPv6MinimumSize+len(body))
		header.IPv6(b).Encode(&header.IPv6Fields{
			PayloadLength: uint16(len(body)), TransportProtocol: tcpip.TransportProtocolNumber(next), HopLimit: 64,
			SrcAddr: tcpip.AddrFromSlice(guest6.AsSlice()), DstAddr: tcpip.AddrFromSlice(to.AsSlice()),
		})
		return append(b, body...)
	}
	const tcp, udp, gre, esp, sctp = 6, 17, 47, 50, 132
	const hopByHop, routing, fragmented, hidden, destination = 0, 43, 44, 51, 60
	answered4, answered6 := uint64(0), uint64(0)
	for _, c := range []struct {
		packet  []byte
		number  uint8
		to      netip.Addr
		form    string
		answers *uint64
	}{
		{ip4(sctp, some4, nil), sctp, some4, "", &answered4},
		{ip4(gre, some4, nil), gre, some4, "", &answered4},
		{ip4(esp, gateway4, nil), esp, gateway4, "", &answered4},
		{ip4(255, some4, nil), 255, some4, "", &answered4},
		{ip4(0, some4, nil), 0, some4, "", &answered4},
		{ip4(2, groups, nil), 2, groups, "", nil},
		{ip4(sctp, everybody, nil), sctp, everybody, "", nil},
		{ip4(udp, some4, func(f *header.IPv4Fields) { f.Flags = header.IPv4FlagMoreFragments }), udp, some4, fragment, nil},
		{ip4(tcp, some4, func(f *header.IPv4Fields) { f.FragmentOffset = 8 }), tcp, some4, fragment, nil},
		{ip4(tcp, some4, nil, 148, 4, 0, 0), tcp, some4, options, nil},
		{ip6(sctp, some6), sctp, some6, "", &answered6},
		{ip6(gre, some6), gre, some6, "", &answered6},
		{ip6(esp, gateway6), esp, gateway6, "", &answered6},
		{ip6(59, some6), 59, some6, "", &answered6},
		{ip6(1, some6), 1, some6, "", &answered6}, // ICMP of IPv4
		{ip6(sctp, netip.MustParseAddr("ff02::1")), sctp, netip.MustParseAddr("ff02::1"), "", nil},
		{ip6(fragmented, some6, udp, 0, 0, 1, 0, 0, 0, 7), fragmented, some6, fragment, nil},
		{ip6(hopByHop, some6, tcp, 0, 1, 4, 0, 0, 0, 0), hopByHop, some6, extensions, nil},
		{ip6(routing, some6, udp, 0, 0, 0, 0, 0, 0, 0), routing, some6, extensions, nil},
		{ip6(hidden, some6, tcp, 1, 0, 0, 0, 0, 0, 0), hidden, some6, extensions, nil},
		{ip6(destination, some6, sctp, 0, 1, 4, 0, 0, 0, 0), destination, some6, extensions, nil},
		{ip6(hopByHop, netip.MustParseAddr("ff02::16"), tcp, 0, 1, 4, 0, 0, 0, 0), hopByHop, netip.MustParseAddr("ff02::16"), extensions, nil},
	} {
		must(t, unix.Send(in.FD, c.packet, 0))
		want := Refusal{Protocol: spec.ProtocolIP, To: netip.AddrPortFrom(c.to, 0), Number: c.number, Form: c.form}
		select {
		case got := <-told:
			if got != want {
				t.Errorf("%+v is told as %+v", want, got)
			}
		case <-time.After(patience):
			t.Fatalf("%+v is not told", want)
		}
		if c.answers != nil {
			*c.answers++
		}
	}
	// A kernel announces the groups it listens to. That is not reported.
	must(t, unix.Send(in.FD, ip6(hopByHop, netip.MustParseAddr("ff02::16"), 58, 0, 5, 2, 0, 0, 1, 0), 0))
	// Neither is its search for a router, nor its report that no program takes a packet of ours.
	router := ip6(58, netip.MustParseAddr("ff02::2"))
	router[header.IPv6MinimumSize] = byte(header.ICMPv6RouterSolicit)
	nobody := ip4(1, some4, nil)
	nobody[header.IPv4MinimumSize] = byte(header.ICMPv4DstUnreachable)
	must(t, errors.Join(unix.Send(in.FD, router, 0), unix.Send(in.FD, nobody, 0)))
	// Other messages of ICMP, and malformed packets, are reported and not answered.
	timestamp, reply := ip4(1, some4, nil), ip6(58, some6)
	timestamp[header.IPv4MinimumSize], reply[header.IPv6MinimumSize] = byte(header.ICMPv4Timestamp), byte(header.ICMPv6EchoReply)
	short := ip4(1, some4, func(f *header.IPv4Fields) { f.TotalLength = header.IPv4MinimumSize + 2 })[:header.IPv4MinimumSize+2]
	for _, c := range []struct {
		packet []byte
		want   Refusal
	}{
		{timestamp, Refusal{Protocol: spec.ProtocolICMP, To: netip.AddrPortFrom(some4, 0), Form: message}},
		{reply, Refusal{Protocol: spec.ProtocolICMP, To: netip.AddrPortFrom(some6, 0), Form: message}},
		{short, Refusal{Protocol: spec.ProtocolIP, Form: malformed}},
		{ip4(tcp, some4, nil)[:12], Refusal{Protocol: spec.ProtocolIP, Form: malformed}},
		{ip6(tcp, some6)[:50], Refusal{Protocol: spec.ProtocolIP, Form: malformed}},
		{[]byte("hello"), Refusal{Protocol: spec.ProtocolIP, Form: malformed}},
		{[]byte{0x08, 0x06, 0, 1}, Refusal{Protocol: spec.ProtocolIP, Form: malformed}}, // ARP
	} {
		must(t, unix.Send(in.FD, c.packet, 0))
		select {
		case got := <-told:
			if got != c.want {
				t.Errorf("%x: %+v is told as %+v", c.packet, c.want, got)
			}
		case <-time.After(patience):
			t.Fatalf("%+v is not told", c.want)
		}
	}
	// The answer to an echo comes after all others.
	echo := ip4(1, some4, nil)
	echo[header.IPv4MinimumSize] = byte(header.ICMPv4Echo)
	must(t, unix.Send(in.FD, echo, 0))
	if got := <-told; got.Protocol != spec.ProtocolICMP {
		t.Errorf("told is %+v", got)
	}
	received4, received6 := in.Stack.Stats().ICMP.V4.PacketsReceived, in.Stack.Stats().ICMP.V6.PacketsReceived
	eventually(func() bool { return received4.DstUnreachable.Value() > answered4 })
	if n := received4.DstUnreachable.Value() - 1; n != answered4 {
		t.Errorf("%d answers over IPv4, want %d", n, answered4)
	}
	if n := received6.ParamProblem.Value(); n != answered6 || received6.DstUnreachable.Value() != 0 {
		t.Errorf("%d answers over IPv6, want %d", n, answered6)
	}
	if n := received4.Invalid.Value() + received6.Invalid.Value(); n != 0 {
		t.Errorf("%d of them are no answers", n)
	}
	// Packets that the stack would drop silently are reported, too.
	for _, to := range []string{"224.0.0.251", "239.255.255.250", "127.0.0.1", "255.255.255.255", "0.0.0.0", "ff02::fb", "ff05::c", "::1", "::ffff:1.2.3.4", "::"} {
		for _, protocol := range []uint8{tcp, udp} {
			a := netip.MustParseAddr(to)
			packet, size := ip6(protocol, a), header.IPv6MinimumSize
			if a.Is4() {
				packet, size = ip4(protocol, a, nil), header.IPv4MinimumSize
			}
			want := Refusal{Protocol: spec.ProtocolIP, To: netip.AddrPortFrom(a, 0), Number: tcp, Form: nowhere}
			if protocol == udp {
				header.UDP(packet[size:]).Encode(&header.UDPFields{SrcPort: 7, DstPort: 5353, Length: uint16(len(packet) - size)})
				want = Refusal{Protocol: spec.ProtocolUDP, To: netip.AddrPortFrom(a, 5353)}
			}
			must(t, unix.Send(in.FD, packet, 0))
			select {
			case got := <-told:
				if got != want {
					t.Errorf("%+v is told as %+v", want, got)
				}
			case <-time.After(patience):
				t.Fatalf("%+v is not told", want)
			}
		}
	}
}
