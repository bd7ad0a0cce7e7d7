package gateway

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/bothy-dev/bothy/internal/gateway/namelimit"
	"github.com/bothy-dev/bothy/spec"
)

// question asks the gateway's name server as a program inside would.
func (w *world) question(t testing.TB, name string, kind dnsmessage.Type) dnsmessage.Message {
	t.Helper()
	q := dnsmessage.Message{Header: dnsmessage.Header{ID: 7, RecursionDesired: true}, Questions: []dnsmessage.Question{
		{Name: dnsmessage.MustNewName(name + "."), Type: kind, Class: dnsmessage.ClassINET},
	}}
	b, err := q.Pack()
	must(t, err)
	var m dnsmessage.Message
	must(t, m.Unpack(w.server.Answer(b, false)))
	return m
}

// address returns the one IPv4 address of an answer.
func address(t testing.TB, m dnsmessage.Message) netip.Addr {
	t.Helper()
	if len(m.Answers) != 1 {
		t.Fatalf("no answer: %s", m.GoString())
	}
	a, ok := m.Answers[0].Body.(*dnsmessage.AResource)
	if !ok {
		t.Fatalf("no address: %s", m.GoString())
	}
	return netip.AddrFrom4(a.A)
}

// TestSpelledNamesAreNotRationed checks that a name that a rule spells out is not counted, whatever
// else lets it be looked up.
func TestSpelledNamesAreNotRationed(t *testing.T) {
	for _, yaml := range []string{"allow: [api.example.com, '**.example.com']\n", "default: allow\nallow: [api.example.com]\n", "presets: [open]\nallow: [api.example.com]\n"} {
		w := start(t, document(t, 1, yaml), nil)
		z, n := zone{w.Gateway}, 0
		for ; n < 2*namelimit.Burst; n++ {
			if _, _, err := z.Lookup(fmt.Sprintf("n%d.example.com", n)); err != nil {
				break
			}
		}
		if n == 2*namelimit.Burst {
			t.Fatalf("%q: the ration is never used up", yaml)
		}
		if _, _, err := z.Lookup("api.example.com"); err != nil {
			t.Errorf("%q: a name that is spelled out: %v", yaml, err)
		}
	}
}

// TestAddressesOutliveTheirAnswer checks that an address keeps its name forever, also when the
// ration of names is used up: programs keep addresses longer than an answer says. The policy
// decides at each connection whether it may be reached.
func TestAddressesOutliveTheirAnswer(t *testing.T) {
	port, seen := echo(t, "")
	w := start(t, document(t, 1, "allow: ['*.wide.example']\n"), map[string][]string{"a.wide.example": here, "b.wide.example": here})
	a := address(t, w.question(t, "a.wide.example", dnsmessage.TypeA))
	refused := 0
	for n := range 2 * namelimit.Burst {
		if m := w.question(t, fmt.Sprintf("n%d.wide.example", n), dnsmessage.TypeA); m.RCode == dnsmessage.RCodeNameError {
			refused++
		}
	}
	if refused == 0 {
		t.Fatal("the ration is never used up")
	}
	if m := w.question(t, "b.wide.example", dnsmessage.TypeA); m.RCode != dnsmessage.RCodeNameError {
		t.Errorf("a new name, behind the ration: %s", m.GoString())
	}
	if r := w.record(t, "it", func(r spec.NetworkRecord) bool { return r.Name == "b.wide.example" }); r.Verdict != spec.VerdictDeny ||
		r.Rule != "*.wide.example" || r.Generation != 1 || r.Suggest != "bothy policy allow b.wide.example:443 --sandbox box" {
		t.Errorf("the record of a name behind the ration is %+v", r)
	}
	if again := address(t, w.question(t, "a.wide.example", dnsmessage.TypeA)); again != a {
		t.Errorf("%v was the name's address, then %v", a, again)
	}
	connect := func() error {
		c, err := w.in.Dial(t.Context(), netip.AddrPortFrom(a, port))
		if err == nil {
			_ = c.CloseWrite()
			_, err = c.Read(make([]byte, 1)) // its end, as the server says nothing
			_ = c.Close()
			if errors.Is(err, io.EOF) {
				err = nil
			}
		}
		return err
	}
	if err := connect(); err != nil || seen() != 1 {
		t.Errorf("its address, not looked up again: %v, and the server saw %d calls", err, seen())
	}
	if asked := w.asked(); len(asked) == 0 || asked[0] != "a.wide.example" {
		t.Errorf("the host's resolver was asked for %q", asked)
	}
	w.SetPolicy(document(t, 2, "allow: [other.example]\n"))
	if err := connect(); err == nil || seen() != 1 {
		t.Errorf("the rule is gone: %v, and the server saw %d calls", err, seen())
	}
	if m := w.question(t, "a.wide.example", dnsmessage.TypeA); m.RCode != dnsmessage.RCodeNameError {
		t.Errorf("the rule is gone: %s", m.GoString())
	}
	w.SetPolicy(document(t, 3, "allow: [a.wide.example]\n"))
	if again := address(t, w.question(t, "a.wide.example", dnsmessage.TypeA)); again != a {
		t.Errorf("%v was the name's address, then %v", a, again)
	}
	if err := connect(); err != nil || seen() != 2 {
		t.Errorf("the rule is back: %v, and the server saw %d calls", err, seen())
	}
}

// TestSearchLists checks names that a resolver asks for only because of a search list. They do not
// exist, which may be cached for a moment. No query goes outside, and the resolver goes on to the
// name itself.
func TestSearchLists(t *testing.T) {
	w := start(t, document(t, 1, "allow: [api.example.com]\n"), apiHosts)
	for _, suffix := range []string{"lan", "corp.example", "svc.cluster.local", "example.com", "bothy", "localdomain", "ec2.internal"} {
		for _, name := range []string{"api.example.com", "api"} {
			if name += "." + suffix; name == "api.example.com" {
				continue
			}
			for _, kind := range []dnsmessage.Type{dnsmessage.TypeA, dnsmessage.TypeAAAA} {
				m := w.question(t, name, kind)
				if m.RCode != dnsmessage.RCodeNameError || len(m.Answers) > 0 || len(m.Authorities) != 1 {
					t.Errorf("%s: %s", name, m.GoString())
					continue
				}
				soa, ok := m.Authorities[0].Body.(*dnsmessage.SOAResource)
				if ttl := m.Authorities[0].Header.TTL; !ok || ttl != 1 || soa.MinTTL != 1 {
					t.Errorf("%s: it is believed for %d s: %s", name, ttl, m.GoString())
				}
			}
		}
	}
	m := w.question(t, "api.example.com", dnsmessage.TypeA)
	if !address(t, m).IsValid() || m.Answers[0].Header.TTL != 300 {
		t.Errorf("the name itself: %s", m.GoString())
	}
	if asked := w.asked(); len(asked) > 0 {
		t.Errorf("the host's resolver was asked for %q", asked)
	}
}
