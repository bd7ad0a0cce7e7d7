package policy

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/policy/urlpath"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// thousand returns a policy of 1,000 rules of every kind.
func thousand(tb testing.TB) *Policy {
	tb.Helper()
	var b Block
	for i := range 250 {
		for _, text := range []string{
			fmt.Sprintf("host%d.example.com:443", i),
			fmt.Sprintf("*.one%d.example.net", i),
			fmt.Sprintf("10.%d.0.0/%d", i, 16+i%9),
		} {
			b.Allow = append(b.Allow, rule(tb, Allow, text))
		}
		b.Deny = append(b.Deny, rule(tb, Deny, fmt.Sprintf("**.deep%d.example.org", i)))
	}
	for i := range b.Allow {
		switch {
		case i%10 == 0:
			b.Allow[i].HTTP.Methods = []string{"GET", "HEAD"}
			b.Allow[i].HTTP.Paths = []string{"/repos/acme/**", "/users/*"}
		case i%10 == 5:
			b.Allow[i].Until = noon.Add(time.Duration(i) * time.Minute)
		}
	}
	return compile(tb, Input{LayerUser, b})
}

func rule(tb testing.TB, a Action, text string) Rule {
	tb.Helper()
	r, err := ParseRule(a, text)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func compile(tb testing.TB, inputs ...Input) *Policy {
	tb.Helper()
	p, err := Compile(1, inputs...)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

var benchQueries = []struct {
	name string
	q    Query
	want Action
}{
	{"lookup", Query{Stage: StageLookup, Name: "host77.example.com"}, Allow},
	{"connect", Query{Stage: StageConnect, Name: "host77.example.com", Port: 443}, Allow},
	{"wildcard", Query{Stage: StageConnect, Name: "a.one99.example.net", Port: 22}, Allow},
	{"miss", Query{Stage: StageConnect, Name: "a.b.c.d.e.f.evil.example", Port: 443}, Deny},
	{"denied", Query{Stage: StageConnect, Name: "x.y.z.deep200.example.org", Port: 443}, Deny},
	{"literal", Query{Stage: StageConnect, Addr: netip.MustParseAddr("10.77.0.1"), Port: 5432}, Allow},
	{"dial", Query{Stage: StageDial, Name: "host77.example.com", Addr: netip.MustParseAddr("93.184.216.34"), Port: 443}, Allow},
	{"dial6", Query{Stage: StageDial, Name: "host77.example.com", Addr: netip.MustParseAddr("2606:2800:220:1::1"), Port: 443}, Allow},
	{"request", Query{Stage: StageRequest, Name: "host10.example.com", Port: 443, Request: &Request{
		Method: "GET", Host: "host10.example.com", Path: "/repos/acme/app/pulls", Query: "state=open",
		Header: map[string][]string{"Accept": {"*/*"}, "User-Agent": {"curl/8"}, "Authorization": {"x"}, "Content-Type": {"text/plain"}},
	}}, Allow},
	{"request denied", Query{Stage: StageRequest, Name: "host10.example.com", Port: 443, Request: &Request{
		Method: "POST", Host: "host10.example.com", Path: "/repos/acme/app/pulls",
	}}, Deny},
}

func BenchmarkDecide(b *testing.B) {
	p := thousand(b)
	for _, bb := range benchQueries {
		b.Run(bb.name, func(b *testing.B) {
			q := bb.q
			q.Now = noon
			if d := p.Decide(q); d.Action != bb.want {
				b.Fatal(d.Reason())
			}
			b.ReportAllocs()
			for b.Loop() {
				p.Decide(q)
			}
		})
	}
}

// BenchmarkDecideOneHost measures the worst case of a thousand rules: all are about one
// host, and none holds.
func BenchmarkDecideOneHost(b *testing.B) {
	for _, a := range []Action{Allow, Deny} {
		b.Run(a.String(), func(b *testing.B) { oneHost(b, a) })
	}
}

func oneHost(b *testing.B, a Action) {
	var block Block
	for i := range 1000 {
		r := rule(b, a, "api.example.com:443")
		r.HTTP.Methods = []string{"GET"}
		r.HTTP.Paths = []string{fmt.Sprintf("/repos/acme/app%d/**", i)}
		if a == Allow {
			block.Allow = append(block.Allow, r)
		} else {
			block.Deny = append(block.Deny, r)
		}
	}
	p := compile(b, Input{LayerUser, block})
	q := Query{Stage: StageRequest, Name: "api.example.com", Port: 443, Now: noon, Request: &Request{
		Method: "GET", Host: "api.example.com", Path: "/repos/acme/other/pulls",
	}}
	b.ReportAllocs()
	for b.Loop() {
		if p.Decide(q).Action == Allow {
			b.Fatal("allowed")
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	rules := thousand(b).Rules()
	var block Block
	for _, r := range rules {
		if r.Action == Allow {
			block.Allow = append(block.Allow, r)
		} else {
			block.Deny = append(block.Deny, r)
		}
	}
	for b.Loop() {
		compile(b, Input{LayerUser, block})
	}
}

func BenchmarkNormalizePath(b *testing.B) {
	for _, path := range []string{"/repos/acme/app/pulls", "/a%20b/%7Euser/%C3%A4"} {
		b.Run(path, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := urlpath.Normalize(path); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestDecideDoesNotAllocate checks that decisions about clean input leave nothing for the garbage
// collector: they are made for every packet of a new flow and every request.
func TestDecideDoesNotAllocate(t *testing.T) {
	p := thousand(t)
	for _, bb := range benchQueries {
		q := bb.q
		q.Now = noon
		if n := testing.AllocsPerRun(100, func() { p.Decide(q) }); n > 0 {
			t.Errorf("%s: %v allocations", bb.name, n)
		}
	}
}
