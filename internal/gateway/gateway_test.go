package gateway

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/bothy-dev/bothy/internal/gateway/advice"
	"github.com/bothy-dev/bothy/internal/gateway/ca"
	"github.com/bothy-dev/bothy/internal/gateway/dial"
	"github.com/bothy-dev/bothy/internal/gateway/insidetest"
	"github.com/bothy-dev/bothy/internal/gateway/namelimit"
	"github.com/bothy-dev/bothy/internal/gateway/namepool"
	"github.com/bothy-dev/bothy/internal/gateway/netstack"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/spec"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// rules compiles a policy: lines of "allow TARGET" and "deny TARGET".
func rules(t testing.TB, generation uint64, lines ...string) *policy.Policy {
	t.Helper()
	var b policy.Block
	for _, line := range lines {
		verb, target, _ := strings.Cut(line, " ")
		list, action := &b.Allow, policy.Allow
		if verb == "deny" {
			list, action = &b.Deny, policy.Deny
		}
		r, err := policy.ParseRule(action, target)
		must(t, err)
		*list = append(*list, r)
	}
	p, err := policy.Compile(generation, policy.Input{Layer: policy.LayerUser, Block: b})
	must(t, err)
	return p
}

// world is a gateway, an inside, and the servers outside.
type world struct {
	*Gateway
	in *insidetest.Inside

	mu      sync.Mutex
	records []spec.NetworkRecord
	opened  []spec.NetworkRecord // the opening record of each flow
	hosts   map[string][]string  // the answers of the host's resolver; nil: it is never asked
	queries []string
}

// start makes a world. Servers are on 127.0.0.1, which an allow rule must name.
func start(t testing.TB, p *policy.Policy, hosts map[string][]string, options ...func(*Config)) *world {
	t.Helper()
	return startWith(t, p, hosts, func(c *Config, _ *world) {
		for _, o := range options {
			o(c)
		}
	})
}

// TestAttemptWhileClosing checks that no attempt begins while the gateway is being closed: Close would
// not wait for it.
func TestAttemptWhileClosing(t *testing.T) {
	w := start(t, rules(t, 1, "allow **"), nil)
	w.Close()
	w.attempt(nil)
}

// startWith is start for a test that changes the configuration.
func startWith(t testing.TB, p *policy.Policy, hosts map[string][]string, change func(*Config, *world)) *world {
	t.Helper()
	w := &world{hosts: hosts}
	fd, card, err := netstack.Card()
	must(t, err)
	c := Config{
		FD: fd, Unsummed: true, Sandbox: "box", Policy: p, Dialer: &dial.Dialer{Resolver: w.resolver(t)},
		Log: w.log,
	}
	change(&c, w)
	w.Gateway, err = New(c)
	must(t, err)
	t.Cleanup(w.Close)
	w.in = insidetest.New(t, card, netstack.MTU, namepool.Gateway4, namepool.Inside4, namepool.Inside6)
	return w
}

func (w *world) log(r spec.NetworkRecord) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.State == spec.FlowOpened {
		w.opened = append(w.opened, r)
		return
	}
	w.records = append(w.records, r)
}

// resolver returns the host's resolver: a name server on the loopback.
func (w *world) resolver(t testing.TB) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	go func() {
		buf := make([]byte, 4096)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			if answer := w.resolve(buf[:n]); answer != nil {
				_, _ = conn.WriteTo(answer, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

func (w *world) resolve(q []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(q) != nil || len(m.Questions) != 1 {
		return nil
	}
	name := strings.TrimSuffix(m.Questions[0].Name.String(), ".")
	w.mu.Lock()
	w.queries = append(w.queries, name)
	addresses, known := w.hosts[name]
	w.mu.Unlock()
	m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
	if !known {
		m.RCode = dnsmessage.RCodeNameError
	}
	for _, text := range addresses {
		a := netip.MustParseAddr(text)
		head := dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Class: dnsmessage.ClassINET, TTL: 1}
		switch {
		case a.Is4() && m.Questions[0].Type == dnsmessage.TypeA:
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.AResource{A: a.As4()}})
		case a.Is6() && m.Questions[0].Type == dnsmessage.TypeAAAA:
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.AAAAResource{AAAA: a.As16()}})
		}
	}
	b, err := m.Pack()
	if err != nil {
		return nil
	}
	return b
}

// asked returns the queries that reached the host's resolver.
func (w *world) asked() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.queries...)
}

// record waits for a record that fits.
func (w *world) record(t testing.TB, what string, fits func(spec.NetworkRecord) bool) spec.NetworkRecord {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		w.mu.Lock()
		for _, r := range w.records {
			if fits(r) {
				w.mu.Unlock()
				return r
			}
		}
		w.mu.Unlock()
	}
	t.Fatalf("no record of %s in %+v", what, w.records)
	return spec.NetworkRecord{}
}

// echo starts a server that repeats its input. It returns its port and a count of connections.
func echo(t testing.TB, greet string) (port uint16, seen func() int) {
	t.Helper()
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	must(t, err)
	t.Cleanup(func() { l.Close() })
	var mu sync.Mutex
	n := 0
	go func() {
		for {
			c, err := l.AcceptTCP()
			if err != nil {
				return
			}
			mu.Lock()
			n++
			mu.Unlock()
			go func() {
				defer c.Close()
				_, _ = io.WriteString(c, greet)
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	return uint16(l.Addr().(*net.TCPAddr).Port), func() int { mu.Lock(); defer mu.Unlock(); return n }
}

var here = []string{"127.0.0.1"}

// TestIdentity checks that a gateway that replaces another is the same to programs inside: they trust
// it, and know each server by the same address.
func TestIdentity(t *testing.T) {
	p := rules(t, 1, "allow **")
	first := start(t, p, nil)
	v4, _, err := first.names.Addresses("api.example.com")
	must(t, err)
	second := start(t, p, nil, func(c *Config) { c.Identity = first.Identity() })
	third := start(t, p, nil, func(c *Config) { c.Identity.Names = first.Identity().Names })
	if !bytes.Equal(first.Certificate(), second.Certificate()) || bytes.Equal(first.Certificate(), third.Certificate()) {
		t.Error("the authority is not the one that was kept, or is although it was not")
	}
	for _, g := range []*world{second, third} {
		if name, ok := g.names.Name(v4); !ok || name != "api.example.com" {
			t.Errorf("%v stands for %q", v4, name)
		}
	}
	if second.conf.Identity.Authority.Key != nil {
		t.Error("a key is kept twice")
	}
}

func TestNameToServer(t *testing.T) {
	port, _ := echo(t, "")
	w := start(t, rules(t, 7, "allow api.example.com", "allow 127.0.0.0/8"), map[string][]string{"api.example.com": here})
	c, err := w.in.DialName(t.Context(), "API.example.com", port)
	must(t, err)
	sent := make([]byte, 1<<20)
	_, _ = rand.Read(sent)
	go func() { _, _ = c.Write(sent); _ = c.CloseWrite() }()
	got, err := io.ReadAll(c)
	must(t, err)
	if !bytes.Equal(sent, got) {
		t.Errorf("%d bytes came back of %d, or others", len(got), len(sent))
	}
	r := w.record(t, "the flow", func(r spec.NetworkRecord) bool { return r.Event == spec.NetworkFlow })
	if r.Verdict != spec.VerdictAllow || r.Name != "api.example.com" || r.Addr != netip.MustParseAddr("127.0.0.1") || r.Port != port ||
		r.Up != 1<<20 || r.Down != 1<<20 || r.Generation != 7 || r.Rule == "" || r.Sandbox != "box" || r.Duration < 0 {
		t.Errorf("the record says %+v", r)
	}
}

// TestServerSpeaksFirst checks that a server that speaks first is heard: the gateway does not wait for
// the client.
func TestServerSpeaksFirst(t *testing.T) {
	port, _ := echo(t, "220 ready\r\n")
	w := start(t, rules(t, 1, "allow db.example.com", "allow 127.0.0.0/8"), map[string][]string{"db.example.com": here})
	c, err := w.in.DialName(t.Context(), "db.example.com", port)
	must(t, err)
	defer c.Close()
	b := make([]byte, 11)
	_, err = io.ReadFull(c, b)
	must(t, err)
	if string(b) != "220 ready\r\n" {
		t.Errorf("%q", b)
	}
}

// TestA1A2DeniedNameStaysInside checks that no resolver is asked for a name that is not allowed (A1,
// A2).
func TestA1A2DeniedNameStaysInside(t *testing.T) {
	w := start(t, rules(t, 1, "allow api.example.com"), nil)
	for _, tcp := range []bool{false, true} {
		for _, name := range []string{"evil.example.", "c2VjcmV0.evil.example.", "api.example.com.evil.example.", "notapi.example.com."} {
			if a, err := w.in.Resolver(tcp).LookupHost(t.Context(), name); err == nil {
				t.Errorf("%s is at %v", name, a)
			}
			_, _ = w.in.Resolver(tcp).LookupTXT(t.Context(), name)
			_, _ = w.in.Resolver(tcp).LookupMX(t.Context(), name)
		}
		// An allowed name is also answered without a query to any resolver.
		if _, err := w.in.Resolver(tcp).LookupHost(t.Context(), "api.example.com."); err != nil {
			t.Error(err)
		}
	}
	if asked := w.asked(); len(asked) > 0 {
		t.Errorf("the host's resolver was asked for %v", asked)
	}
	r := w.record(t, "the refusal", func(r spec.NetworkRecord) bool { return r.Event == spec.NetworkLookup && r.Name == "evil.example" })
	if r.Verdict != spec.VerdictDeny || r.Reason == "" || !strings.Contains(r.Suggest, "evil.example") {
		t.Errorf("it says %+v", r)
	}
}

// TestA9A15ResolvedAddressIsJudged checks an allowed name that resolves to an address that is not
// allowed: rebinding, a sinkhole, the metadata service (A9, A15).
func TestA9A15ResolvedAddressIsJudged(t *testing.T) {
	port, seen := echo(t, "")
	for _, a := range []string{"127.0.0.1", "169.254.169.254", "10.1.2.3", "0.0.0.0", "::1", "fd00:ec2::254", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "100.100.100.200", "198.18.0.1"} {
		w := start(t, rules(t, 1, "allow rebound.example"), map[string][]string{"rebound.example": {a}})
		if c, err := w.in.DialName(t.Context(), "rebound.example", port); err == nil {
			c.Close()
			t.Errorf("%s was reached", a)
		} else if !strings.Contains(err.Error(), "refused") {
			t.Errorf("%s: %v", a, err)
		}
		r := w.record(t, "the refusal", func(r spec.NetworkRecord) bool { return r.Event == spec.NetworkFlow })
		if r.Verdict != spec.VerdictDeny && r.Verdict != spec.VerdictError || r.Reason == "" {
			t.Errorf("%s: %+v", a, r)
		}
	}
	if seen() > 0 {
		t.Error("the server saw somebody")
	}
}

// TestMixedAddresses checks that of several addresses only those that may be dialled are.
func TestMixedAddresses(t *testing.T) {
	port, _ := echo(t, "")
	w := start(t, rules(t, 1, "allow two.example", "allow 127.0.0.1"), map[string][]string{"two.example": {"169.254.169.254", "127.0.0.1"}})
	c, err := w.in.DialName(t.Context(), "two.example", port)
	must(t, err)
	c.Close()
	if r := w.record(t, "the flow", func(r spec.NetworkRecord) bool { return r.Event == spec.NetworkFlow }); r.Addr.String() != "127.0.0.1" {
		t.Errorf("dialled %v", r.Addr)
	}
}

func TestLiteralAddresses(t *testing.T) {
	port, seen := echo(t, "")
	w := start(t, rules(t, 1, "allow 127.0.0.1", "allow api.example.com"), nil)
	dial := func(to netip.AddrPort) error { // the inside's own stack drops some without an answer
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		c, err := w.in.Dial(ctx, to)
		if err == nil {
			c.Close()
		}
		return err
	}
	_ = dial(netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port)) // the stack inside may keep its loopback to itself
	before := seen()
	for _, to := range []string{"203.0.113.1:443", "[2001:db8::1]:443", "169.254.169.254:80", "198.18.1.0:443", "198.18.0.2:22", "[::ffff:127.0.0.1]:443", "224.0.0.1:1", "255.255.255.255:1"} {
		if dial(netip.MustParseAddrPort(to)) == nil {
			t.Errorf("%s was reached", to)
		}
	}
	if seen() != before {
		t.Error("the server saw somebody")
	}
}

// TestA10OtherName checks that the ClientHello must name the connection's host (A10).
func TestA10OtherName(t *testing.T) {
	authority, err := ca.New("test", time.Now)
	must(t, err)
	l, err := tls.Listen("tcp4", "127.0.0.1:0", &tls.Config{
		GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) { return authority.Leaf(h.ServerName) },
	})
	must(t, err)
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); _, _ = io.Copy(c, c) }()
		}
	}()
	port := uint16(l.Addr().(*net.TCPAddr).Port)
	w := start(t, rules(t, 1, "allow api.example.com", "allow 127.0.0.0/8"), map[string][]string{"api.example.com": here})
	shake := func(name string) error {
		raw, err := w.in.DialName(t.Context(), "api.example.com", port)
		must(t, err)
		defer raw.Close()
		_ = raw.SetDeadline(time.Now().Add(patience))
		return tls.Client(raw, &tls.Config{ServerName: name, InsecureSkipVerify: true}).Handshake()
	}
	must(t, shake("api.example.com"))
	if err := shake("evil.example"); err == nil {
		t.Error("another name was answered")
	}
	w.record(t, "the refusal", func(r spec.NetworkRecord) bool {
		return r.Verdict == spec.VerdictDeny && strings.Contains(r.Reason, "evil.example")
	})
	w.record(t, "the TLS flow", func(r spec.NetworkRecord) bool { return r.Verdict == spec.VerdictAllow && r.Protocol == "tls" })
}

// TestA16B5PolicyChange checks that a policy that no longer allows a flow ends it at once (B5, A16).
func TestA16B5PolicyChange(t *testing.T) {
	port, _ := echo(t, "")
	hosts := map[string][]string{"a.example": here, "b.example": here}
	w := start(t, rules(t, 1, "allow a.example", "allow b.example", "allow 127.0.0.0/8"), hosts)
	a, err := w.in.DialName(t.Context(), "a.example", port)
	must(t, err)
	b, err := w.in.DialName(t.Context(), "b.example", port)
	must(t, err)
	defer b.Close()
	if n := len(w.Flows()); n != 2 {
		t.Errorf("%d flows", n)
	}
	w.SetPolicy(rules(t, 2, "allow b.example", "allow 127.0.0.0/8"))
	_ = a.SetReadDeadline(time.Now().Add(patience))
	if _, err := a.Read(make([]byte, 1)); err == nil || err == io.EOF || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the flow that is denied now sees %v", err)
	}
	_, err = b.Write([]byte("still"))
	must(t, err)
	_, err = io.ReadFull(b, make([]byte, 5))
	must(t, err)
	if _, err := w.in.DialName(t.Context(), "a.example", port); err == nil {
		t.Error("a new one is let through")
	}
	r := w.record(t, "the end", func(r spec.NetworkRecord) bool { return r.Name == "a.example" && r.Event == spec.NetworkFlow })
	if r.Verdict != spec.VerdictDeny || !strings.Contains(r.Reason, "policy changed") || r.State != spec.FlowClosed || r.Generation != 2 || r.Rule != "" ||
		r.Suggest != fmt.Sprintf("bothy policy allow a.example:%d --sandbox box", port) {
		t.Errorf("it says %+v", r)
	}
	if list := w.journal.refusals.List(); !slices.ContainsFunc(list, func(x advice.Refusal) bool {
		return x.Name == "a.example" && x.Reason == r.Reason && x.Command == r.Suggest
	}) {
		t.Errorf("the inside is told %+v", list)
	}
}

// TestExpiry checks that a rule with an end ends its flows at that time.
func TestExpiry(t *testing.T) {
	port, _ := echo(t, "")
	r, err := policy.ParseRule(policy.Allow, "a.example")
	must(t, err)
	lo, err := policy.ParseRule(policy.Allow, "127.0.0.0/8")
	must(t, err)
	until := func(end time.Time) *policy.Policy {
		r.Until = end
		p, err := policy.Compile(1, policy.Input{Layer: policy.LayerUser, Block: policy.Block{Allow: []policy.Rule{r, lo}}})
		must(t, err)
		return p
	}
	w := start(t, until(time.Now().Add(time.Hour)), map[string][]string{"a.example": here})
	c, err := w.in.DialName(t.Context(), "a.example", port)
	must(t, err)
	w.SetPolicy(until(time.Now().Add(300 * time.Millisecond)))
	_ = c.SetReadDeadline(time.Now().Add(patience))
	if _, err := c.Read(make([]byte, 1)); err == nil || err == io.EOF {
		t.Errorf("it goes on: %v", err)
	}
	if time.Now().Before(r.Until) {
		t.Error("it was ended early")
	}
}

// TestDeadServer checks a server that does not exist: the connection is not accepted, and the client is
// told at once. The log has the name, the address that was tried, and the reason.
func TestDeadServer(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, err)
	port := uint16(l.Addr().(*net.TCPAddr).Port)
	l.Close()
	w := start(t, rules(t, 1, "allow a.example", "allow gone.example", "allow 127.0.0.0/8"), map[string][]string{"a.example": here})
	at := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port)
	for name, want := range map[string]spec.NetworkRecord{
		"a.example":    {Addr: at.Addr(), Reason: at.String() + " does not answer: connection refused"},
		"gone.example": {Reason: "host not found: gone.example"},
	} {
		if _, err := w.in.DialName(t.Context(), name, port); err == nil || !strings.Contains(err.Error(), "refused") {
			t.Errorf("%s: %v", name, err)
		}
		r := w.record(t, name, func(r spec.NetworkRecord) bool { return r.Name == name })
		if r.Verdict != spec.VerdictError || r.State != "" || r.Port != port || r.Addr != want.Addr || r.Reason != want.Reason || r.Rule != name {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// TestA1ManyNames checks that new names below one zone come in a trickle once there were many. A name
// that a rule spells out does not count.
func TestA1ManyNames(t *testing.T) {
	w := start(t, rules(t, 1, "allow **.wide.example", "allow api.wide.example:443"), nil)
	for i := range 2 * namelimit.Burst {
		_, _ = w.in.Resolver(false).LookupHost(t.Context(), fmt.Sprintf("n%d.wide.example.", i))
	}
	if n := len(w.names.Names()); n < namelimit.Burst || n > namelimit.Burst+30 {
		t.Errorf("%d names were given out", n)
	}
	w.record(t, "the refusal", func(r spec.NetworkRecord) bool {
		return r.Verdict == spec.VerdictDeny && strings.Contains(r.Reason, "too many new names below wide.example")
	})
	if _, err := w.in.Resolver(false).LookupHost(t.Context(), "api.wide.example."); err != nil {
		t.Errorf("a name that a rule spells out: %v", err)
	}
}

func TestCloseEndsFlows(t *testing.T) {
	port, _ := echo(t, "")
	w := start(t, rules(t, 1, "allow a.example", "allow 127.0.0.0/8"), map[string][]string{"a.example": here})
	c, err := w.in.DialName(t.Context(), "a.example", port)
	must(t, err)
	_, err = c.Write([]byte("x"))
	must(t, err)
	_, err = io.ReadFull(c, make([]byte, 1))
	must(t, err)
	w.Close()
	w.record(t, "the end", func(r spec.NetworkRecord) bool { return strings.Contains(r.Reason, "stopped") })
	if n := len(w.Flows()); n != 0 {
		t.Errorf("%d flows are left", n)
	}
}
