package stage

import (
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// Outside is the internet of a stage: a name server that knows every name, and
// a server at every address, on these ports.
type Outside struct {
	mu        sync.Mutex
	names     map[string][]netip.Addr
	visits    []Visit
	ill       Illness // of the name server
	listeners map[string]net.Listener
}

// Illness is a fault of a name server.
type Illness int

// Illnesses.
const (
	Healthy Illness = iota
	Mute            // it does not answer
	Failing         // it answers with a failure
)

// Falls gives the name server an illness, or makes it Healthy again.
func (o *Outside) Falls(ill Illness) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ill = ill
}

var outsidePorts = []string{"22", "53", "80", "443", "853", "3128", "5432", "8080", "9418"}

// Visit is a connection that a server saw.
type Visit struct {
	At   netip.AddrPort // the destination
	Said string         // its first bytes
}

// The addresses of every name without addresses of its own.
var (
	Host4 = netip.MustParseAddr("93.184.216.34")
	Host6 = netip.MustParseAddr("2606:2800:220:1::34")
)

func newOutside(t *testing.T) *Outside {
	t.Helper()
	o := &Outside{names: map[string][]netip.Addr{}, listeners: map[string]net.Listener{}}
	for _, port := range outsidePorts {
		o.open(t, port)
		t.Cleanup(func() { o.listeners[port].Close() })
	}
	u, err := net.ListenPacket("udp", netip.AddrPortFrom(Resolver, 53).String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { u.Close() })
	go o.resolve(u)
	return o
}

// open starts the server of a port.
func (o *Outside) open(t *testing.T, port string) {
	t.Helper()
	l := Listen(t, port)
	o.listeners[port] = l
	go o.serve(l)
}

// Listen accepts the connections to a port on all addresses.
func Listen(t *testing.T, port string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "[::]:"+port)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Take gives the test a port that has a server of the stage, until its end.
func (o *Outside) Take(t *testing.T, port string) net.Listener {
	t.Helper()
	if err := o.listeners[port].Close(); err != nil {
		t.Fatal(err)
	}
	l := Listen(t, port)
	t.Cleanup(func() {
		l.Close()
		o.open(t, port)
	})
	return l
}

// Leads makes a name resolve to addresses.
func (o *Outside) Leads(name string, to ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.names[name] = nil
	for _, a := range to {
		o.names[name] = append(o.names[name], netip.MustParseAddr(a))
	}
}

// Saw returns the connections since the last call.
func (o *Outside) Saw() []Visit {
	o.mu.Lock()
	defer o.mu.Unlock()
	list := o.visits
	o.visits = nil
	return list
}

func (o *Outside) serve(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go o.echo(c)
	}
}

// echo repeats its input; to an HTTP request it answers with HTTP.
func (o *Outside) echo(c net.Conn) {
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	at := netip.MustParseAddrPort(c.LocalAddr().String())
	at = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	buf := make([]byte, 4096)
	n, _ := c.Read(buf)
	o.mu.Lock()
	o.visits = append(o.visits, Visit{at, string(buf[:n])})
	o.mu.Unlock()
	if strings.Contains(string(buf[:n]), " HTTP/1.1\r\n") {
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 8\r\nConnection: close\r\n\r\nwelcome\n")
		return
	}
	_, _ = c.Write(buf[:n])
	_, _ = io.Copy(c, c)
}

func (o *Outside) resolve(u net.PacketConn) {
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

func (o *Outside) answer(q []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(q) != nil || len(m.Questions) != 1 {
		return nil
	}
	ask := m.Questions[0]
	o.mu.Lock()
	addresses, made := o.names[strings.TrimSuffix(strings.ToLower(ask.Name.String()), ".")]
	ill := o.ill
	o.mu.Unlock()
	if ill == Mute {
		return nil
	}
	if ill == Failing {
		m.RCode, addresses, made = dnsmessage.RCodeServerFailure, nil, true
	}
	if !made {
		addresses = []netip.Addr{Host4, Host6}
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
