package dial

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/bothy-dev/bothy/internal/gateway/relay"
	"github.com/bothy-dev/bothy/internal/hostproxy"
)

// proxy is a proxy that answers by a rule, and remembers the requests.
type proxy struct {
	t     *testing.T
	at    string
	say   func(to string) int // zero: nothing
	mu    sync.Mutex
	asked []string
}

func newProxy(t *testing.T, say func(to string) int) *proxy {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	p := &proxy{t: t, at: l.Addr().String(), say: say}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(c)
		}
	}()
	return p
}

func (p *proxy) serve(c net.Conn) {
	defer c.Close()
	q, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return
	}
	p.mu.Lock()
	p.asked = append(p.asked, q.Host)
	p.mu.Unlock()
	status := p.say(q.Host)
	if status == 0 {
		_, _ = io.Copy(io.Discard, c)
		return
	}
	fmt.Fprintf(c, "HTTP/1.1 %d x\r\n\r\n", status)
	if status == 200 {
		_, _ = io.WriteString(c, "from "+q.Host)
	}
}

func (p *proxy) saw() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.asked
	p.asked = nil
	return list
}

// zone resolves names: to addresses, to none, or not at all if it does not have them.
type zone struct {
	mu    sync.Mutex
	names map[string][]string
}

func (z *zone) set(name string, to ...string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.names[name+"."] = to
}

// resolver asks the zone. For a name that the zone does not have, the answer is a server failure.
func (z *zone) resolver(t *testing.T) *net.Resolver {
	t.Helper()
	u, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { u.Close() })
	go func() {
		b := make([]byte, 4096)
		for {
			n, from, err := u.ReadFrom(b)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(b[:n]) != nil {
				continue
			}
			z.mu.Lock()
			list, ok := z.names[m.Questions[0].Name.String()]
			z.mu.Unlock()
			m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
			switch {
			case !ok:
				m.RCode = dnsmessage.RCodeServerFailure
			case len(list) == 0:
				m.RCode = dnsmessage.RCodeNameError
			}
			for _, text := range list {
				a, head := netip.MustParseAddr(text), dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Class: dnsmessage.ClassINET, TTL: 1}
				if a.Is4() && m.Questions[0].Type == dnsmessage.TypeA {
					m.Answers = append(m.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.AResource{A: a.As4()}})
				}
			}
			if answer, err := m.Pack(); err == nil {
				_, _ = u.WriteTo(answer, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", u.LocalAddr().String())
	}}
}

// public allows all addresses but 10.0.0.0/8, and names whose addresses are unknown.
func public(to netip.AddrPort) error {
	if to.Addr().IsValid() && netip.MustParsePrefix("10.0.0.0/8").Contains(to.Addr()) {
		return errors.New("private")
	}
	return nil
}

// TestByProxy checks the requests to a proxy: it is asked for judged addresses, and for a name only if
// there are none, or if the proxy refuses them.
func TestByProxy(t *testing.T) {
	z := &zone{names: map[string][]string{}}
	z.set("one.example", "192.0.2.1")
	z.set("two.example", "192.0.2.1", "192.0.2.2")
	z.set("mixed.example", "10.0.0.1", "192.0.2.2")
	z.set("closed.example", "10.0.0.1")
	z.set("none.example")
	always := func(status int) func(string) int { return func(string) int { return status } }
	names := func(to string) int { // a proxy that knows names only
		if strings.HasPrefix(to, "192.") {
			return 403
		}
		return 200
	}
	nobody := func(to netip.AddrPort) error {
		if !to.Addr().IsValid() {
			return errors.New("not by name")
		}
		return nil
	}
	for _, tt := range []struct {
		name  string
		say   func(string) int
		judge Judge
		asked []string
		err   string // "" for none
	}{
		{"one.example", always(200), public, []string{"192.0.2.1:443"}, ""},
		{"two.example", func(to string) int { return map[bool]int{true: 502, false: 200}[to == "192.0.2.1:443"] }, public, []string{"192.0.2.1:443", "192.0.2.2:443"}, ""},
		{"mixed.example", always(200), public, []string{"192.0.2.2:443"}, ""},
		{"mixed.example", names, public, []string{"192.0.2.2:443"}, "403"},
		{"closed.example", always(200), public, nil, "private"},
		{"none.example", always(200), public, []string{"none.example:443"}, ""},
		{"none.example", always(200), nobody, nil, "not by name"},
		{"one.example", names, public, []string{"192.0.2.1:443", "one.example:443"}, ""},
		{"one.example", names, nobody, []string{"192.0.2.1:443"}, "not by name"},
		{"two.example", names, public, []string{"192.0.2.1:443", "192.0.2.2:443", "two.example:443"}, ""},
		{"two.example", always(407), public, []string{"192.0.2.1:443"}, "407"},
		{"one.example", always(503), public, []string{"192.0.2.1:443"}, "503"},
		{"fails.example", always(200), public, nil, "does not tell where"}, // the resolver answers for others
	} {
		p := newProxy(t, tt.say)
		d := &Dialer{Resolver: z.resolver(t), Proxies: hostproxy.Read([]string{"HTTPS_PROXY=http://" + p.at})}
		if tt.name == "fails.example" {
			if c, err := d.Name(t.Context(), "one.example", 443, tt.judge); err == nil {
				c.Close()
			}
			p.saw()
		}
		c, err := d.Name(t.Context(), tt.name, 443, tt.judge)
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %v", tt.name, err)
		}
		asked := p.saw()
		slices.Sort(asked)
		slices.Sort(tt.asked)
		if !slices.Equal(asked, tt.asked) && (tt.err != "407" || len(asked) != 1) {
			t.Errorf("%s: the proxy was asked for %q, not for %q", tt.name, asked, tt.asked)
		}
		if err == nil {
			if text, _ := io.ReadAll(c); !strings.HasPrefix(string(text), "from ") {
				t.Errorf("%s: the server says %q", tt.name, text)
			}
			c.Close()
		}
	}
}

// TestForHTTP checks when a proxy is sent requests in clear instead of being asked to connect:
// where it refuses the checked addresses, or is asked by the name. A closed address is neither.
func TestForHTTP(t *testing.T) {
	z := &zone{names: map[string][]string{}}
	z.set("one.example", "192.0.2.1")
	z.set("mixed.example", "10.0.0.1", "192.0.2.2")
	z.set("closed.example", "10.0.0.1")
	z.set("none.example")
	always := func(status int) func(string) int { return func(string) int { return status } }
	for _, tt := range []struct {
		name   string
		say    func(string) int
		asked  []string
		server string // that requests are sent on to; "": it is connected to, or neither
		err    string
	}{
		{"one.example", always(200), []string{"192.0.2.1:80"}, "", ""},
		{"one.example", always(403), []string{"192.0.2.1:80"}, "one.example", ""},
		{"192.0.2.1", always(405), []string{"192.0.2.1:80"}, "192.0.2.1", ""},
		{"none.example", always(403), nil, "none.example", ""},
		{"mixed.example", always(403), []string{"192.0.2.2:80"}, "", "403"},
		{"closed.example", always(403), nil, "", "private"},
		{"10.0.0.1", always(403), nil, "", "private"},
		{"one.example", always(407), []string{"192.0.2.1:80"}, "", "407"},
		{"one.example", always(502), []string{"192.0.2.1:80"}, "", "502"},
	} {
		p := newProxy(t, tt.say)
		d := &Dialer{Resolver: z.resolver(t), Proxies: hostproxy.Read([]string{"HTTP_PROXY=http://" + p.at})}
		dialled := func() (relay.Conn, error) { return d.NameForHTTP(t.Context(), tt.name, 80, public) }
		if a, err := netip.ParseAddr(tt.name); err == nil {
			dialled = func() (relay.Conn, error) { return d.AddrForHTTP(t.Context(), netip.AddrPortFrom(a, 80), public) }
		}
		c, err := dialled()
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %v", tt.name, err)
		}
		if asked := p.saw(); !slices.Equal(asked, tt.asked) {
			t.Errorf("%s: the proxy was asked for %q, not for %q", tt.name, asked, tt.asked)
		}
		if err != nil {
			continue
		}
		server := ""
		if f, ok := c.(*Forwarded); ok {
			server = f.Server()
		}
		if server != tt.server {
			t.Errorf("%s: requests are sent on to %q, not to %q", tt.name, server, tt.server)
		}
		c.Close()
	}
}

// TestSilentResolver checks that a host without a resolver has the proxy resolve, and does not
// ask again for the same name at once; and that a resolver which answers others decides.
func TestSilentResolver(t *testing.T) {
	z := &zone{names: map[string][]string{}}
	p := newProxy(t, func(string) int { return 200 })
	d := &Dialer{Resolver: z.resolver(t), Proxies: hostproxy.Read([]string{"HTTPS_PROXY=http://" + p.at})}
	for range 2 {
		c, err := d.Name(t.Context(), "a.example", 443, public)
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	if !d.known.silent("a.example") || d.known.silent("b.example") || d.known.answers() {
		t.Error("it is not known which name was not answered")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.Name(ended, "c.example", 443, public); err == nil || d.known.silent("c.example") {
		t.Errorf("a lookup that was given up counts as unanswered: %v", err)
	}
	z.set("b.example", "10.0.0.1")
	z.set("a.example", "10.0.0.1")
	if _, err := d.Name(t.Context(), "b.example", 443, public); err == nil {
		t.Error("a private address was dialled")
	}
	if _, err := d.Name(t.Context(), "a.example", 443, public); err == nil || !strings.Contains(err.Error(), "private") {
		t.Errorf("a name of the time before is not looked up again: %v", err)
	}
}

// TestHungProxy checks that a proxy that never answers is given up, and that the caller gets an
// error.
func TestHungProxy(t *testing.T) {
	p := newProxy(t, func(string) int { return 0 })
	d := &Dialer{Proxies: hostproxy.Read([]string{"HTTPS_PROXY=http://" + p.at})}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := d.Addr(ctx, netip.MustParseAddrPort("192.0.2.1:443"), public)
	f, ok := errors.AsType[*Failed](err)
	if !ok || f.Addr != netip.MustParseAddrPort("192.0.2.1:443") || !strings.Contains(f.Why, "the proxy http://"+p.at+" does not connect to 192.0.2.1:443") {
		t.Errorf("%v", err)
	}
	if told := fmt.Sprint(Silence("a.example:443", "a.example", err)); told != "a.example:443 cannot be reached: the host's proxy does not answer" {
		t.Errorf("the inside is told %q", told)
	}
}
