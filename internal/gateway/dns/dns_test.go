package dns

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// zone allows names that end in .allowed.example, and remembers the questions.
type zone struct{ asked, refused []string }

var (
	some4 = netip.MustParseAddr("198.18.1.0")
	some6 = netip.MustParseAddr("fd62:6f74:6879::100")
)

func (z *zone) Lookup(name string) (netip.Addr, netip.Addr, error) {
	z.asked = append(z.asked, name)
	switch {
	case strings.HasSuffix("."+name, ".allowed.example"):
		return some4, some6, nil
	case name == "absent.example":
		return netip.Addr{}, netip.Addr{}, ErrNoName
	}
	return netip.Addr{}, netip.Addr{}, errors.New("no rule allows " + name)
}

func (z *zone) Refused(name, why string) { z.refused = append(z.refused, name+": "+why) }

func (z *zone) Reverse(a netip.Addr) (string, bool) {
	return "git.allowed.example", a == some4 || a == some6
}

func ask(t testing.TB, name string, typ dnsmessage.Type, edit func(*dnsmessage.Message)) []byte {
	t.Helper()
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: 4711, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: typ, Class: dnsmessage.ClassINET}},
	}
	if edit != nil {
		edit(&m)
	}
	b, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func read(t testing.TB, b []byte) dnsmessage.Message {
	t.Helper()
	var m dnsmessage.Message
	if err := m.Unpack(b); err != nil {
		t.Fatalf("the answer cannot be read: %v (%x)", err, b)
	}
	return m
}

func TestAnswers(t *testing.T) {
	tests := []struct {
		name  string
		typ   dnsmessage.Type
		rcode dnsmessage.RCode
		body  string // of the one answer
	}{
		{"git.allowed.example.", dnsmessage.TypeA, 0, some4.String()},
		{"git.allowed.example.", dnsmessage.TypeAAAA, 0, some6.String()},
		{"GIT.Allowed.EXAMPLE.", dnsmessage.TypeA, 0, some4.String()},
		{"_dmarc.allowed.example.", dnsmessage.TypeA, 0, some4.String()},
		{"git.allowed.example.", dnsmessage.TypeTXT, 0, ""},
		{"git.allowed.example.", dnsmessage.TypeMX, 0, ""},
		{"git.allowed.example.", dnsmessage.Type(65), 0, ""}, // HTTPS: no key for an encrypted ClientHello
		{"git.allowed.example.", dnsmessage.TypeALL, 0, ""},
		{"denied.example.", dnsmessage.TypeA, dnsmessage.RCodeNameError, ""},
		{"denied.example.", dnsmessage.TypeTXT, dnsmessage.RCodeNameError, ""},
		{"denied.example.", dnsmessage.Type(10), dnsmessage.RCodeNameError, ""}, // NULL
		{"absent.example.", dnsmessage.TypeA, dnsmessage.RCodeNameError, ""},
		{"notallowed.example.", dnsmessage.TypeA, dnsmessage.RCodeNameError, ""},
		{"localhost.", dnsmessage.TypeA, 0, "127.0.0.1"},
		{"app.localhost.", dnsmessage.TypeAAAA, 0, "::1"},
		{"localhost.", dnsmessage.TypeTXT, 0, ""},
		{".", dnsmessage.TypeNS, dnsmessage.RCodeNameError, ""},
		{"a b.allowed.example.", dnsmessage.TypeA, dnsmessage.RCodeNameError, ""},
		{"-x.allowed.example.", dnsmessage.TypeA, dnsmessage.RCodeNameError, ""},
		{"0.1.18.198.in-addr.arpa.", dnsmessage.TypePTR, 0, "git.allowed.example."},
		{"0.0.1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.9.7.8.6.4.7.f.6.2.6.d.f.ip6.arpa.", dnsmessage.TypePTR, 0, "git.allowed.example."},
		{"1.0.0.127.in-addr.arpa.", dnsmessage.TypePTR, 0, "localhost."},
		{"8.8.8.8.in-addr.arpa.", dnsmessage.TypePTR, dnsmessage.RCodeNameError, ""},
		{"x.in-addr.arpa.", dnsmessage.TypePTR, dnsmessage.RCodeNameError, ""},
		{"git.allowed.example.", dnsmessage.TypePTR, dnsmessage.RCodeNameError, ""},
	}
	for _, tt := range tests {
		s := &Server{Zone: &zone{}}
		for _, tcp := range []bool{false, true} {
			m := read(t, s.Answer(ask(t, tt.name, tt.typ, nil), tcp))
			if m.ID != 4711 || !m.Response || m.RCode != tt.rcode || m.Truncated || !m.RecursionAvailable {
				t.Errorf("%s %v: %v", tt.name, tt.typ, m.GoString())
			}
			if len(m.Questions) != 1 || m.Questions[0].Name.String() != tt.name {
				t.Errorf("%s %v: the question is not repeated as it was put: %v", tt.name, tt.typ, m.Questions)
			}
			if got := body(m); got != tt.body {
				t.Errorf("%s %v: %q, want %q", tt.name, tt.typ, got, tt.body)
			}
			checkTimes(t, m)
		}
	}
}

// checkTimes checks how long an answer may be cached: an address for long, and its absence for a
// moment, as the next policy may allow it.
func checkTimes(t *testing.T, m dnsmessage.Message) {
	t.Helper()
	for _, a := range m.Answers {
		if a.Header.TTL != ttl || a.Header.Class != dnsmessage.ClassINET {
			t.Errorf("%v: believed for %d s", m.Questions, a.Header.TTL)
		}
	}
	if len(m.Answers) > 0 {
		return
	}
	if len(m.Authorities) != 1 {
		t.Errorf("%v: nothing says for how long", m.Questions)
		return
	}
	soa, ok := m.Authorities[0].Body.(*dnsmessage.SOAResource)
	if name := m.Authorities[0].Header.Name; !ok || name.String() != "." || m.Authorities[0].Header.TTL != negativeTTL || soa.MinTTL != negativeTTL {
		t.Errorf("%v: %s", m.Questions, m.Authorities[0].GoString())
	}
}

// body writes the only answer, or the error.
func body(m dnsmessage.Message) string {
	if len(m.Answers) != 1 {
		return strings.Repeat("more than one", min(len(m.Answers), 1))
	}
	switch r := m.Answers[0].Body.(type) {
	case *dnsmessage.AResource:
		return netip.AddrFrom4(r.A).String()
	case *dnsmessage.AAAAResource:
		return netip.AddrFrom16(r.AAAA).String()
	case *dnsmessage.PTRResource:
		return r.PTR.String()
	}
	return "another type"
}

func TestRefusedMessages(t *testing.T) {
	second := dnsmessage.Question{Name: dnsmessage.MustNewName("b.allowed.example."), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}
	tests := []struct {
		name  string
		edit  func(*dnsmessage.Message)
		rcode dnsmessage.RCode
	}{
		{"two questions", func(m *dnsmessage.Message) { m.Questions = append(m.Questions, second) }, dnsmessage.RCodeFormatError},
		{"no question", func(m *dnsmessage.Message) { m.Questions = nil }, dnsmessage.RCodeFormatError},
		{"an update", func(m *dnsmessage.Message) { m.OpCode = 5 }, dnsmessage.RCodeNotImplemented},
		{"a notify", func(m *dnsmessage.Message) { m.OpCode = 4 }, dnsmessage.RCodeNotImplemented},
		{"cut off", func(m *dnsmessage.Message) { m.Truncated = true }, dnsmessage.RCodeFormatError},
		{"chaos", func(m *dnsmessage.Message) { m.Questions[0].Class = dnsmessage.ClassCHAOS }, dnsmessage.RCodeRefused},
		{"any class", func(m *dnsmessage.Message) { m.Questions[0].Class = dnsmessage.ClassANY }, dnsmessage.RCodeRefused},
		{"two OPT", func(m *dnsmessage.Message) { m.Additionals = []dnsmessage.Resource{opt(t, 1232, 0), opt(t, 1232, 0)} }, dnsmessage.RCodeFormatError},
	}
	for _, tt := range tests {
		z := &zone{}
		m := read(t, (&Server{Zone: z}).Answer(ask(t, "a.allowed.example.", dnsmessage.TypeA, tt.edit), false))
		if m.RCode != tt.rcode || len(m.Answers) > 0 || m.ID != 4711 {
			t.Errorf("%s: %v", tt.name, m.GoString())
		}
		if len(z.asked) > 0 {
			t.Errorf("%s: it was looked up", tt.name)
		}
	}
	if b := (&Server{Zone: &zone{}}).Answer(ask(t, "a.allowed.example.", dnsmessage.TypeA, func(m *dnsmessage.Message) { m.Response = true }), false); b != nil {
		t.Errorf("an answer is answered: %x", b)
	}
}

func opt(t testing.TB, size int, version uint32) dnsmessage.Resource {
	t.Helper()
	var h dnsmessage.ResourceHeader
	if err := h.SetEDNS0(size, 0, false); err != nil {
		t.Fatal(err)
	}
	h.TTL |= version << 16
	return dnsmessage.Resource{Header: h, Body: &dnsmessage.OPTResource{}}
}

func TestEDNS(t *testing.T) {
	s := &Server{Zone: &zone{}}
	with := func(size int, version uint32) func(*dnsmessage.Message) {
		return func(m *dnsmessage.Message) { m.Additionals = append(m.Additionals, opt(t, size, version)) }
	}
	m := read(t, s.Answer(ask(t, "denied.example.", dnsmessage.TypeA, with(4096, 0)), false))
	if len(m.Additionals) != 1 || m.Additionals[0].Header.Class != ednsSize {
		t.Fatalf("no OPT record: %v", m.GoString())
	}
	options := m.Additionals[0].Body.(*dnsmessage.OPTResource).Options
	if len(options) != 1 || options[0].Code != extendedError || !strings.Contains(string(options[0].Data), "no rule allows denied.example") {
		t.Errorf("the reason is not told: %v", options)
	}
	m = read(t, s.Answer(ask(t, "a.allowed.example.", dnsmessage.TypeA, with(1232, 1)), false))
	if code := m.Additionals[0].Header.ExtendedRCode(m.RCode); code != badVersion || len(m.Answers) > 0 {
		t.Errorf("version 1 of EDNS: code %v, %d answers", code, len(m.Answers))
	}
	if m = read(t, s.Answer(ask(t, "a.allowed.example.", dnsmessage.TypeA, nil), false)); len(m.Additionals) > 0 {
		t.Error("an OPT record nobody asked for")
	}
}

// TestSize checks that a reason that is too long for the datagram is dropped rather than the
// answer.
func TestSize(t *testing.T) {
	long := strings.Repeat("long.", 40) + "example."
	s := &Server{Zone: &verbose{}}
	b := s.Answer(ask(t, long, dnsmessage.TypeA, func(m *dnsmessage.Message) { m.Additionals = append(m.Additionals, opt(t, 512, 0)) }), false)
	if m := read(t, b); len(b) > plainSize || m.RCode != dnsmessage.RCodeNameError || !m.Truncated {
		t.Errorf("%d bytes: %v", len(b), m.GoString())
	}
	if b := s.Answer(ask(t, long, dnsmessage.TypeA, func(m *dnsmessage.Message) { m.Additionals = append(m.Additionals, opt(t, 512, 0)) }), true); len(b) <= plainSize {
		t.Error("over TCP there is no such limit")
	}
}

type verbose struct{ zone }

func (verbose) Lookup(string) (a, b netip.Addr, err error) {
	return a, b, errors.New(strings.Repeat("because ", 100))
}

// TestRefused checks that only ASCII letters have two cases. Invalid names are refused, and the
// zone is told once, as it is of unreadable messages.
func TestRefused(t *testing.T) {
	for _, name := range []string{
		"\u212aernel.allowed.example.", "git.a\u017fllowed.example.", "\xe2\x84\xaa.allowed.example.", "\uff47it.allowed.example.",
		"\x1b[2J.allowed.example.", "a\nb.allowed.example.", "\x9b.allowed.example.", "a b.allowed.example.",
	} {
		z := &zone{}
		m := read(t, (&Server{Zone: z}).Answer(ask(t, name, dnsmessage.TypeA, nil), false))
		if m.RCode != dnsmessage.RCodeNameError || len(m.Answers) > 0 || len(z.asked) > 0 {
			t.Errorf("%q: %v, and %q are looked up", name, m.RCode, z.asked)
		}
		if len(z.refused) != 1 || !strings.HasPrefix(z.refused[0], strings.TrimSuffix(name, ".")+": ") {
			t.Errorf("%q: %q is told", name, z.refused)
		}
	}
	whole := ask(t, "git.allowed.example.", dnsmessage.TypeA, nil)
	for what, message := range map[string][]byte{"nothing": nil, "half a head": whole[:7], "half a question": whole[:20]} {
		z := &zone{}
		(&Server{Zone: z}).Answer(message, false)
		if len(z.refused) != 1 {
			t.Errorf("%s: %q is told", what, z.refused)
		}
	}
	z := &zone{}
	(&Server{Zone: z}).Answer(ask(t, "GIT.Allowed.example.", dnsmessage.TypeA, nil), false)
	if len(z.refused) > 0 || len(z.asked) != 1 || z.asked[0] != "git.allowed.example" {
		t.Errorf("%q are looked up, %q refused", z.asked, z.refused)
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add(ask(f, "git.allowed.example.", dnsmessage.TypeA, nil))
	f.Add(ask(f, "0.1.18.198.in-addr.arpa.", dnsmessage.TypePTR, nil))
	f.Add(ask(f, "denied.example.", dnsmessage.TypeTXT, func(m *dnsmessage.Message) { m.Additionals = append(m.Additionals, opt(f, 4096, 0)) }))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, message []byte) {
		z := &zone{}
		s := &Server{Zone: z}
		for _, tcp := range []bool{false, true} {
			b := s.Answer(message, tcp)
			if b == nil {
				continue
			}
			m := read(t, b)
			if !m.Response || len(m.Answers) > 1 || len(m.Questions) > 1 || !tcp && len(b) > ednsSize {
				t.Errorf("%x is answered with %v", message, m.GoString())
			}
		}
		for _, name := range z.asked {
			if !wellFormed(name) || name != strings.ToLower(name) {
				t.Errorf("%q was looked up", name)
			}
		}
	})
}
