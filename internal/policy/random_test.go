package policy

import (
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/policy/gitrepo"
	"github.com/bothy-dev/bothy/internal/policy/hostname"
	"github.com/bothy-dev/bothy/internal/policy/rpccall"
)

// choice picks a number below n: from a random source, or from the bytes of a fuzzer.
type choice func(n int) int

func randomly(seed uint64) choice {
	r := rand.New(rand.NewPCG(seed, 1))
	return r.IntN
}

func fromBytes(data []byte) choice {
	return func(n int) int {
		if len(data) == 0 {
			return 0
		}
		b := data[0]
		data = data[1:]
		return int(b) % n
	}
}

func pick[T any](c choice, list ...T) T { return list[c(len(list))] }

// few returns up to n elements, mostly none.
func few[T any](c choice, n int, list ...T) []T {
	var out []T
	for range c(2) * c(n+1) {
		if v := pick(c, list...); !slices.ContainsFunc(out, func(o T) bool { return any(o) == any(v) }) {
			out = append(out, v)
		}
	}
	return out
}

// The worlds are small, so that rules and questions meet.
var (
	randomTargets = []string{
		"example.com", "a.example.com", "b.a.example.com", "*.example.com", "**.example.com", "*.a.example.com", "**.com", "*.com",
		"**", "db", "host.internal", "*.internal", "10.0.0.0/8", "10.1.0.0/16", "10.1.2.3", "0.0.0.0/0", "93.184.0.0/16", "93.184.216.34",
		"169.254.169.254", "169.254.0.0/16", "127.0.0.1", "[::/0]", "[2606:2800::/32]", "[fc00::/7]", "[64:ff9b::/96]", "[2002::/16]", "224.0.0.1",
	}
	randomPorts = []string{"", "", ":443", ":443", ":80", ":22"}
	randomNames = []string{
		"example.com", "a.example.com", "b.a.example.com", "c.b.a.example.com", "evilexample.com", "example.org", "db", "host.internal",
		"EXAMPLE.com.", "127.1", "localhost", "policy.bothy", "a..b", "",
	}
	randomAddrs = []string{
		"10.1.2.3", "10.9.9.9", "93.184.216.34", "8.8.8.8", "127.0.0.1", "169.254.169.254", "169.254.1.1", "224.0.0.1", "0.0.0.0",
		"2606:2800::1", "fd00::1", "::1", "::ffff:10.1.2.3", "::ffff:8.8.8.8", "64:ff9b::a01:203", "64:ff9b::5db8:d822", "2002:a01:203::1", "2002:808:808::1",
	}
	randomMethods      = []string{"GET", "POST", "DELETE"}
	randomCalls        = []string{"a", "b*", "*", "tools/list", "tools/call", "tools/call x*", "tools/*", rpccall.Answer}
	randomPaths        = []string{"/a", "/a/**", "/*/b", "/**", "/a/b/", "/A"}
	randomRepositories = []string{"acme/app", "acme/*", "*/*", "**", "~me/*", "app"}
)

func randomRule(c choice, a Action) Rule {
	text := pick(c, randomTargets...) + pick(c, randomPorts...)
	r, err := ParseRule(a, text)
	if err != nil {
		panic(err)
	}
	r.HTTP.Methods = few(c, 2, randomMethods...)
	r.HTTP.Paths = few(c, 2, randomPaths...)
	r.HTTP.Queries = few(c, 1, "x=1", "x=1&y=2")
	if c(8) == 0 {
		r.HTTP.Headers = map[string]string{"accept": pick(c, "*", "text/html")}
	}
	if c(4) == 0 {
		r.Until = noon.Add(time.Duration(c(3)-1) * time.Hour)
	}
	if a == Allow {
		r.HTTP.MaxBody = pick(c, int64(0), 0, 0, 10, 1000)
		r.HTTP.WebSocket = c(4) == 0
		r.MaxUpload = pick(c, int64(0), 0, 0, 10, 1000)
		if r.HTTP.RPC = few(c, 3, randomCalls...); len(r.HTTP.RPC) > 0 {
			r.HTTP.WebSocket = false
			r.HTTP.Methods = pick(c, nil, nil, []string{"POST"}, []string{"GET", "POST"})
		}
		if c(5) == 0 && r.Target.Port != 0 {
			r.HTTP = Conditions{Git: []string{pick(c, randomRepositories...)}, Push: c(2) == 0, User: pick(c, "", "", "git", "me")}
		}
	}
	return r
}

func randomRules(c choice, a Action, n int) []Rule {
	var list []Rule
	for range c(n + 1) {
		r := randomRule(c, a)
		if !slices.ContainsFunc(list, func(o Rule) bool { return o.Key() == r.Key() }) {
			list = append(list, r)
		}
	}
	return list
}

func randomInputs(c choice) []Input {
	var inputs []Input
	for _, l := range []Layer{LayerUser, LayerSandbox, LayerCommand, LayerProject} {
		b := Block{
			Default: pick(c, 0, 0, 0, Allow, Deny), InspectAll: c(8) == 0,
			Allow: randomRules(c, Allow, 4), Deny: randomRules(c, Deny, 2),
		}
		if l == LayerProject {
			if b.Default == Allow {
				b.Default = 0
			}
			if c(2) == 0 {
				b.Allow = nil
			}
			for i := range b.Allow {
				b.Allow[i].MaxUpload = 0
			}
		}
		inputs = append(inputs, Input{l, b})
	}
	return inputs
}

func randomQuery(c choice) Query {
	q := Query{Stage: Stage(1 + c(5)), Now: noon}
	literal := q.Stage == StageDial || q.Stage != StageLookup && c(3) == 0
	if literal {
		q.Addr = netip.MustParseAddr(pick(c, randomAddrs...))
	}
	if !literal || q.Stage == StageDial {
		q.Name = pick(c, randomNames...)
	}
	if q.Stage != StageLookup {
		q.Port = pick(c, uint16(443), 443, 80, 22)
	}
	if q.Stage == StageRequest {
		q.Request = randomRequest(c, q)
	}
	if q.Stage == StageGit || q.Stage == StageDial && c(3) == 0 {
		q.Git = &GitRequest{
			Service:    pick(c, gitrepo.Fetch, gitrepo.Fetch, gitrepo.Push, "git-upload-archive"),
			Repository: pick(c, "acme/app", "/acme/app.git", "acme/other", "a/b/c", "app", "~me/x", "~you/x", "acme/../app", "acme/app.git/x"),
			User:       pick(c, "git", "git", "me", "-x", ""),
		}
	}
	return q
}

func randomRequest(c choice, q Query) *Request {
	r := &Request{
		Method: pick(c, "GET", "POST", "DELETE", "get", "CONNECT", "OPTIONS"),
		Path:   pick(c, "/a", "/a/", "/a/b", "/A/B/", "/x/b", "/a%2fb", "/a/../b", "/a b", "/", "*"),
		Query:  pick(c, "", "", "x=1", "y=2&x=1", "x=1&y=2", "%78=1", "x=%zz", "method=a"),
		Body:   pick(c, int64(0), 5, 100, -1),
	}
	if c(2) == 0 {
		r.Method = "POST"
		r.RPC = few(c, 3, "a", "b", "bb", "tools/list", "tools/call x", "tools/call xy", "tools/call y", rpccall.Answer, "no call")
	}
	switch {
	case c(10) == 0:
		r.Host = "other.example"
	case q.Addr.IsValid() && q.Addr.Is6():
		r.Host = "[" + q.Addr.String() + "]"
	case q.Addr.IsValid():
		r.Host = q.Addr.String()
	default:
		r.Host, _ = hostname.Clean(q.Name)
	}
	if c(6) == 0 {
		r.Header = map[string][]string{"accept": few(c, 2, "text/html", "text/plain")}
	}
	if c(12) == 0 {
		r.Header = map[string][]string{"X-HTTP-Method-Override": {"DELETE"}}
	}
	if c(12) == 0 {
		r.Header = map[string][]string{pick(c, "X-Original-Url", "x_Rewrite_Url"): {"/x"}}
	}
	r.MethodInBody = c(12) == 0
	if c(8) == 0 {
		r.Upgrade = pick(c, "websocket", "WebSocket", "h2c")
	}
	return r
}

// sound reports whether the reference understands a question.
func sound(q Query) bool {
	named := q.Name != ""
	if q.Stage == StageLookup || q.Stage == StageDial {
		return named
	}
	return named != q.Addr.IsValid()
}

func compare(t *testing.T, inputs []Input, q Query) {
	t.Helper()
	p, err := Compile(1, inputs...)
	if err != nil {
		t.Skip(err) // a project that widens
	}
	d := p.Decide(q)
	want := refused
	if sound(q) {
		want = (&reference{inputs}).decide(q)
	}
	got := answer{d.Allowed(), d.Inspection == InspectMust, d.MaxBody, 0}
	if got.allowed {
		got.room = d.Budget.roomFor()
	}
	if got.allowed && want.allowed && !want.must {
		got.must = false // marks and inspect may ask for more; they have tests of their own
	}
	if got != want {
		t.Errorf("%+v\nis %+v by reference, but %+v: %s", q, want, got, d.Reason())
		if q.Request != nil {
			t.Logf("request %+v", *q.Request)
		}
		for _, r := range p.Rules() {
			t.Logf("%s %s (%s)", r.Action, &r, r.Source)
		}
	}
	if d.Budget != nil {
		for _, sent := range []int64{0, d.Budget.Limit, 1 << 40, math.MaxInt64} {
			no := d.UsedUp(sent)
			if s := no.Suggest(); no.Allowed() || no.Cause != CauseUpload || no.Reason() == "" || no.Budget != nil || (s.Args == nil && s.Note == "") {
				t.Errorf("%+v: used up it is %s: %s; %+v", q, no.Cause, no.Reason(), s)
			}
		}
	}
	if d.Reason() == "" || (d.Rule == nil) != (d.Cause != CauseRule) {
		t.Errorf("%+v: cause %s, rule %v, reason %q", q, d.Cause, d.Rule, d.Reason())
	}
	d.Suggest()
	x := p.Explain(q)
	if x.Decision.Action != d.Action || x.Text("NAME") == "" {
		t.Errorf("%+v is explained as %s", q, x.Text("NAME"))
	}
}

// FuzzDecide compares the tables with the reference.
func FuzzDecide(f *testing.F) {
	for i := range uint64(8) {
		c := randomly(i)
		data := make([]byte, 400)
		for j := range data {
			data[j] = byte(c(256))
		}
		f.Add(data)
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		c := fromBytes(data)
		q := randomQuery(c)
		compare(t, randomInputs(c), q)
	})
}
