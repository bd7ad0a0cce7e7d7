package learn

import (
	"maps"
	"net/netip"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/spec"
)

// TestLearn checks that a proposal allows the refused request and nothing else.
func TestLearn(t *testing.T) {
	now := noon
	p := policyOf(t, `
allow: [known.example.com, {host: api.example.com, methods: [GET], paths: ["/open/**"]}]
deny: [never.example.com]
`)
	l := New(p, now)
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
	deny(spec.NetworkRecord{Event: spec.NetworkFlow, Addr: netip.MustParseAddr("10.1.2.3"), Port: 5432})
	// No proposal: allowed by now, denied on purpose, not outwards, a secret's, no name at all, never to
	// be opened, the sandbox's own network, not TCP, allowed.
	deny(spec.NetworkRecord{Event: spec.NetworkFlow, Name: "known.example.com", Port: 443})
	deny(spec.NetworkRecord{Event: spec.NetworkFlow, Name: "never.example.com", Port: 443})
	deny(spec.NetworkRecord{Event: spec.NetworkFlow, Direction: spec.DirectionIn, Addr: netip.MustParseAddr("10.0.0.1"), Port: 80})
	deny(spec.NetworkRecord{Event: spec.NetworkRequest, Name: "leak.example.com", Port: 443, Method: "GET", Path: "/", Secret: "s"})
	deny(spec.NetworkRecord{Event: spec.NetworkLookup, Name: "bad name; rm -rf /"})
	deny(spec.NetworkRecord{Event: spec.NetworkFlow, Addr: netip.MustParseAddr("169.254.169.254"), Port: 80})
	deny(spec.NetworkRecord{Event: spec.NetworkFlow, Addr: netip.MustParseAddr("198.18.0.1"), Port: 22})
	deny(spec.NetworkRecord{Event: spec.NetworkFlow, Addr: netip.MustParseAddr("fd62:6f74:6879::7:7"), Port: 443})
	deny(spec.NetworkRecord{Event: spec.NetworkFlow, Name: "quic.example.com", Port: 443, Protocol: spec.ProtocolUDP})
	deny(spec.NetworkRecord{Event: spec.NetworkFlow, Addr: netip.MustParseAddr("93.184.216.34"), Protocol: spec.ProtocolICMP})
	deny(spec.NetworkRecord{Event: spec.NetworkFlow, Addr: netip.MustParseAddr("93.184.216.34"), Protocol: spec.ProtocolIP})
	if !l.Inner() {
		t.Error("that the gateway itself was tried is not known")
	}
	l.See(&spec.NetworkRecord{Event: spec.NetworkFlow, Name: "ok.example.com", Port: 443, Verdict: spec.VerdictAllow})
	got := map[string]int64{}
	for _, x := range l.Proposals() {
		got[x.Rule.String()] = x.Count
		if x.Rule.Action != policy.Allow || !x.Last.Equal(now) {
			t.Errorf("%+v", x)
		}
		if closed := strings.HasPrefix(x.Rule.String(), "10."); closed != strings.Contains(x.Note, "a private address") {
			t.Errorf("with %s goes %q", x.Rule.String(), x.Note)
		}
	}
	want := map[string]int64{
		"new.example.com:443": 8, "git.example.com:22 git **": 3, "93.184.216.34:8080": 1, "10.1.2.3:5432": 1,
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

// TestLearnLongBody checks proposals for refused bodies that were too long, whether or not
// the request declared its length.
func TestLearnLongBody(t *testing.T) {
	l := New(policyOf(t, `{allow: [{host: api.example.com, methods: [POST], paths: [/in], max_body: 10}]}`), noon)
	for _, n := range []int64{0, 10, 11, 12} {
		l.See(&spec.NetworkRecord{Event: spec.NetworkRequest, Verdict: spec.VerdictDeny, Name: "api.example.com", Port: 443, Method: "POST", Path: "/in", Body: n})
	}
	if got := l.Proposals(); len(got) != 1 || got[0].Count != 2 || got[0].Rule.String() != "api.example.com:443 POST /in" {
		t.Errorf("proposed are %+v", got)
	}
}

// TestLearnLookup checks refused lookups. The wanted port shows only when a connection is
// refused; until then the proposal says that the port is unknown.
func TestLearnLookup(t *testing.T) {
	l := New(policyOf(t, "deny: [never.example.com]"), noon)
	see := func(event, name string, port uint16) {
		l.See(&spec.NetworkRecord{Event: event, Verdict: spec.VerdictDeny, Time: noon, Name: name, Port: port})
	}
	see(spec.NetworkLookup, "db.example.com", 0)
	see(spec.NetworkFlow, "other.example.com", 5432)
	see(spec.NetworkLookup, "web.example.com", 0)
	see(spec.NetworkFlow, "web.example.com", 443)
	see(spec.NetworkFlow, "late.example.com", 443)
	see(spec.NetworkLookup, "late.example.com", 0)
	got := map[string]string{}
	for _, p := range l.Proposals() {
		got[p.Rule.String()] = p.Note
	}
	want := map[string]string{"db.example.com:443": policy.OnlyLookedUp, "other.example.com:5432": "", "web.example.com:443": "", "late.example.com:443": ""}
	if !maps.Equal(got, want) {
		t.Errorf("proposed are %q", got)
	}
}

// TestLearnForeign checks traffic that was refused because it does not speak HTTP. The
// proposal is passthrough if that would help, with a note about the risk.
func TestLearnForeign(t *testing.T) {
	l := New(policyOf(t, `
allow:
  - {host: db.example.com, methods: [GET]}
  - {host: bounded.example.com, methods: [GET], max_upload: 5MiB}
  - open.example.com
`), noon)
	for name, more := range map[string]string{"db.example.com": "", "bounded.example.com": " --max-upload 5MiB", "open.example.com": ""} {
		r := spec.NetworkRecord{Event: spec.NetworkFlow, Verdict: spec.VerdictDeny, Sandbox: "box", Name: name, Port: 5432}
		l.See(&r) // no rule would change this refusal
		r.Suggest, r.Count = "bothy policy allow "+name+":5432 --passthrough"+more+" --sandbox box", 2
		l.See(&r)
	}
	got := map[string]int64{}
	for _, p := range l.Proposals() {
		got[p.Rule.String()] = p.Count
		if !p.Rule.Passthrough || !strings.Contains(p.Note, "cannot see") || !strings.Contains(p.Command("box"), " --passthrough") {
			t.Errorf("%+v", p)
		}
	}
	want := map[string]int64{"db.example.com:5432 passthrough": 2, "bounded.example.com:5432 passthrough upload up to 5MiB in all": 2}
	if !maps.Equal(got, want) {
		t.Errorf("proposed are %v", got)
	}
}

// TestInner checks that no proposal is about an address of the sandbox's own network.
func TestInner(t *testing.T) {
	l := New(policyOf(t, "deny: [never.example.com]"), noon)
	see := func(a string) {
		l.See(&spec.NetworkRecord{Event: spec.NetworkFlow, Verdict: spec.VerdictDeny, Time: noon, Addr: netip.MustParseAddr(a), Port: 22})
	}
	if see("fd62:6f74:6879:1::1"); l.Inner() || len(l.Proposals()) != 1 {
		t.Error("the network beside it is taken for it")
	}
	if see("fd62:6f74:6879::1"); !l.Inner() || len(l.Proposals()) != 1 {
		t.Error("a rule for the gateway is proposed")
	}
}
