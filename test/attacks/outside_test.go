package attacks

import (
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// outside is the internet of a stage: a name server that knows every name, and
// a server at every address, on these ports.
type outside struct {
	mu     sync.Mutex
	names  map[string][]netip.Addr
	visits []visit
	ill    illness // of the name server
}

// illness is what a name server may have.
type illness int

const (
	healthy illness = iota
	mute            // it says nothing
	failing         // it says that it cannot say
)

// falls makes the name server ill, or healthy again.
func (o *outside) falls(ill illness) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ill = ill
}

var outsidePorts = []string{"22", "53", "80", "443", "853", "3128", "5432", "8080", "9418"}

// visit is a connection that a server saw.
type visit struct {
	at   netip.AddrPort // whom it was for
	said string         // the first of it
}

// Where a name leads that is not made to lead elsewhere.
var (
	anyHost4 = netip.MustParseAddr("93.184.216.34")
	anyHost6 = netip.MustParseAddr("2606:2800:220:1::34")
)

func newOutside(t *testing.T) *outside {
	t.Helper()
	o := &outside{names: map[string][]netip.Addr{}}
	for _, port := range outsidePorts {
		l, err := net.Listen("tcp", "[::]:"+port)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go o.serve(l)
	}
	u, err := net.ListenPacket("udp", netip.AddrPortFrom(stageResolver, 53).String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { u.Close() })
	go o.resolve(u)
	return o
}

// leads makes a name lead to addresses.
func (o *outside) leads(name string, to ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.names[name] = nil
	for _, a := range to {
		o.names[name] = append(o.names[name], netip.MustParseAddr(a))
	}
}

// saw gives the connections to a port since the last call with it; 0 is any.
func (o *outside) saw() []visit {
	o.mu.Lock()
	defer o.mu.Unlock()
	list := o.visits
	o.visits = nil
	return list
}

func (o *outside) serve(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go o.echo(c)
	}
}

// echo repeats what it hears; to HTTP it answers as HTTP does.
func (o *outside) echo(c net.Conn) {
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	at := netip.MustParseAddrPort(c.LocalAddr().String())
	at = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	buf := make([]byte, 4096)
	n, _ := c.Read(buf)
	o.mu.Lock()
	o.visits = append(o.visits, visit{at, string(buf[:n])})
	o.mu.Unlock()
	if strings.Contains(string(buf[:n]), " HTTP/1.1\r\n") {
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 8\r\nConnection: close\r\n\r\nwelcome\n")
		return
	}
	_, _ = c.Write(buf[:n])
	_, _ = io.Copy(c, c)
}

func (o *outside) resolve(u net.PacketConn) {
	buf := make([]byte, 4096)
	for {
		n, from, err := u.ReadFrom(buf)
		if err != nil {
			return
		}
		if answer := o.answer(buf[:n]); answer != nil {
			_, _ = u.WriteTo(answer, from)
		}
	}
}

func (o *outside) answer(q []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(q) != nil || len(m.Questions) != 1 {
		return nil
	}
	ask := m.Questions[0]
	o.mu.Lock()
	addresses, made := o.names[strings.TrimSuffix(strings.ToLower(ask.Name.String()), ".")]
	ill := o.ill
	o.mu.Unlock()
	if ill == mute {
		return nil
	}
	if ill == failing {
		m.RCode, addresses, made = dnsmessage.RCodeServerFailure, nil, true
	}
	if !made {
		addresses = []netip.Addr{anyHost4, anyHost6}
	}
	m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
	for _, a := range addresses {
		head := dnsmessage.ResourceHeader{Name: ask.Name, Class: dnsmessage.ClassINET, TTL: 1}
		switch {
		case a.Is4() && ask.Type == dnsmessage.TypeA:
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.AResource{A: a.As4()}})
		case a.Is6() && ask.Type == dnsmessage.TypeAAAA:
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.AAAAResource{AAAA: a.As16()}})
		}
	}
	b, err := m.Pack()
	if err != nil {
		return nil
	}
	return b
}

// question is a message that asks for a name.
func question(name string, kind uint16, overTCP bool) []byte {
	b := []byte{0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}
	for label := range strings.SplitSeq(name, ".") {
		b = append(append(b, byte(len(label))), label...)
	}
	b = binary.BigEndian.AppendUint16(append(b, 0), kind)
	b = binary.BigEndian.AppendUint16(b, 1)
	if overTCP {
		return append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...)
	}
	return b
}
