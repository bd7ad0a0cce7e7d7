package policy

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

// What is proposed allows what was refused, and nothing beside it.
func TestLearn(t *testing.T) {
	now := noon
	p := policyOf(t, LayerUser, `
allow: [known.example.com, {host: api.example.com, methods: [GET], paths: ["/open/**"]}]
deny: [never.example.com]
`)
	l := NewLearner(p, now)
	deny := func(r spec.NetworkRecord) {
		r.Verdict, r.Time = spec.VerdictDeny, now
		l.See(&r)
	}
	deny(spec.NetworkRecord{Event: spec.NetworkLookup, Name: "new.example.com", Count: 7})
	deny(spec.NetworkRecord{Event: spec.NetworkFlow, Name: "new.example.com", Port: 443})
	deny(spec.NetworkRecord{Event: spec.NetworkFlow, Name: "git.example.com", Port: 22, Count: 3})
	deny(spec.NetworkRecord{Event: spec.NetworkFlow, Addr: netip.MustParseAddr("93.184.216.34"), Port: 8080})
	deny(spec.NetworkRecord{Event: spec.NetworkRequest, Name: "api.example.com", Port: 443, Method: "POST", Path: "/open/x", Addr: netip.MustParseAddr("93.184.216.34")})
	deny(spec.NetworkRecord{Event: spec.NetworkRequest, Name: "api.example.com", Port: 443, Method: "GET", Path: "/closed"})
	deny(spec.NetworkRecord{Event: spec.NetworkRequest, Name: "api.example.com", Port: 443, Method: "GET", Path: "/" + strings.Repeat("x", 512) + "…"})
	// Nothing to propose: allowed by now, denied on purpose, not outwards, a
	// secret's, no name at all, never to be opened, no TCP, allowed.
	deny(spec.NetworkRecord{Event: spec.NetworkFlow, Name: "known.example.com", Port: 443})
	deny(spec.NetworkRecord{Event: spec.NetworkFlow, Name: "never.example.com", Port: 443})
	deny(spec.NetworkRecord{Event: spec.NetworkFlow, Direction: spec.DirectionIn, Addr: netip.MustParseAddr("10.0.0.1"), Port: 80})
	deny(spec.NetworkRecord{Event: spec.NetworkRequest, Name: "leak.example.com", Port: 443, Method: "GET", Path: "/", Secret: "s"})
	deny(spec.NetworkRecord{Event: spec.NetworkLookup, Name: "bad name; rm -rf /"})
	deny(spec.NetworkRecord{Event: spec.NetworkFlow, Addr: netip.MustParseAddr("169.254.169.254"), Port: 80})
	deny(spec.NetworkRecord{Event: spec.NetworkFlow, Name: "quic.example.com", Port: 443, Protocol: spec.ProtocolUDP})
	deny(spec.NetworkRecord{Event: spec.NetworkFlow, Addr: netip.MustParseAddr("93.184.216.34"), Protocol: spec.ProtocolICMP})
	l.See(&spec.NetworkRecord{Event: spec.NetworkFlow, Name: "ok.example.com", Port: 443, Verdict: spec.VerdictAllow})
	got := map[string]int64{}
	for _, x := range l.Proposals() {
		got[x.Rule.String()] = x.Count
		if x.Rule.Action != Allow || !x.Last.Equal(now) {
			t.Errorf("%+v", x)
		}
	}
	want := map[string]int64{
		"new.example.com:443": 8, "git.example.com:22 git **": 3, "93.184.216.34:8080": 1,
		"api.example.com:443 POST /open/x": 1, "api.example.com:443 GET /closed": 1,
	}
	if len(got) != len(want) {
		t.Errorf("proposed are %v", got)
	}
	for rule, n := range want {
		if got[rule] != n {
			t.Errorf("%q is wanted %d times, not %d of %v", rule, n, got[rule], got)
		}
	}
	if list := l.Proposals(); len(list) == 0 || list[0].Rule.String() != "new.example.com:443" {
		t.Error("the most wanted is not the first")
	}
}
