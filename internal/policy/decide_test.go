package policy

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/policy/document"
)

// blockOf reads a block in the form of a file.
func blockOf(tb testing.TB, yaml string) Block {
	tb.Helper()
	b, err := decodeBlock(yaml)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func decodeBlock(yaml string) (Block, error) {
	n, err := document.ParseYAML([]byte(yaml))
	if err != nil {
		return Block{}, err
	}
	return ReadBlock(n, "the block")
}

// policyOf compiles blocks that are given as layer and YAML in turn.
func policyOf(tb testing.TB, layers ...any) *Policy {
	tb.Helper()
	var inputs []Input
	for i := 0; i < len(layers); i += 2 {
		inputs = append(inputs, Input{layers[i].(Layer), blockOf(tb, layers[i+1].(string))})
	}
	return compile(tb, inputs...)
}

// ask reads a question: "lookup NAME", "connect TARGET", "dial NAME:PORT ADDR",
// or "METHOD URL".
func ask(tb testing.TB, text string) Query {
	tb.Helper()
	words := strings.Fields(text)
	switch words[0] {
	case "lookup":
		return Query{Stage: StageLookup, Name: words[1], Now: noon}
	case "connect":
		q, err := ParseQuery(words[1], "", noon)
		if err != nil {
			tb.Fatal(err)
		}
		return q
	case "dial":
		q := ask(tb, "connect "+words[1])
		q.Stage, q.Addr = StageDial, netip.MustParseAddr(words[2])
		return q
	}
	q, err := ParseQuery(words[1], words[0], noon)
	if err != nil {
		tb.Fatal(err)
	}
	return q
}

// expect asks questions: those after "+" must be allowed, those after "-" must not.
func expect(t *testing.T, p *Policy, questions ...string) {
	t.Helper()
	for _, text := range questions {
		q := ask(t, text[1:])
		if d := p.Decide(q); d.Allowed() != (text[0] == '+') {
			t.Errorf("%s: %s", text, d.Reason())
		}
	}
}

func TestDefaultIsDeny(t *testing.T) {
	p := compile(t)
	expect(t, p, "-lookup example.com", "-connect example.com:443", "-connect 8.8.8.8:53", "-GET https://example.com/")
	if p.Default() != Deny {
		t.Errorf("the default is %s", p.Default())
	}
	var none Decision
	if none.Allowed() {
		t.Error("the zero decision allows")
	}
}

func TestPrecedence(t *testing.T) {
	p := policyOf(t,
		LayerUser, `{deny: ["**.evil.example", "example.com:22", "93.184.216.0/24"]}`,
		LayerSandbox, `{allow: ["**.example", "example.com", "api.evil.example:443", "93.184.216.34"]}`,
	)
	expect(t, p,
		"+connect a.example:80", "+connect example.com:443", "-connect example.com:22", "+lookup example.com",
		"-connect api.evil.example:443", "-lookup api.evil.example", "+connect evil.example:443",
		"-connect 93.184.216.34:443", "-dial a.example:443 93.184.216.34", "+dial a.example:443 93.184.217.1",
	)
}

func TestDefaultDenyWins(t *testing.T) {
	for _, layers := range [][]any{
		{LayerUser, "default: deny", LayerSandbox, "default: allow"},
		{LayerUser, "default: allow", LayerSandbox, "default: deny"},
		{LayerUser, "default: deny", LayerSandbox, "presets: [open]"},
		{LayerUser, "default: allow", LayerProject, "default: deny"},
	} {
		expect(t, policyOf(t, layers...), "-connect example.com:443")
	}
	expect(t, policyOf(t, LayerUser, "default: allow"), "+connect example.com:443", "+connect 8.8.8.8:443", "+lookup example.com")
}

func TestPrivateNamesNeedARule(t *testing.T) {
	open := policyOf(t, LayerUser, `{default: allow, allow: ["**"]}`)
	for _, name := range []string{"db", "printer.local", "db.internal", "git.corp", "nas.lan", "x.home.arpa", "abc.onion"} {
		expect(t, open, "-lookup "+name, "-connect "+name+":443")
		p := policyOf(t, LayerUser, `{allow: ["`+name+`"]}`)
		expect(t, p, "+lookup "+name, "+connect "+name+":443")
	}
	expect(t, policyOf(t, LayerUser, `{allow: ["**.corp.internal:443"]}`), "+connect a.corp.internal:443", "-connect b.internal:443")
}

func TestSpecialAddressesNeedARule(t *testing.T) {
	wide := policyOf(t, LayerUser, `{default: allow, allow: ["**", "0.0.0.0/0", "[::/0]", "8.0.0.0/5"]}`)
	expect(t, wide, "+connect 8.8.8.8:443", "+connect [2606:2800::1]:443", "-connect 10.0.0.1:443", "-connect [fd00::1]:443",
		"-dial example.com:443 10.0.0.1", "+dial example.com:443 8.8.8.8")
	p := policyOf(t, LayerUser, `{allow: ["example.com", "10.1.0.0/16:5432", "[fd00:1::/32]"]}`)
	expect(t, p,
		"+connect 10.1.2.3:5432", "-connect 10.1.2.3:22", "-connect 10.2.0.1:5432", "+connect [fd00:1::9]:22", "-connect [fd00:2::9]:22",
		"+dial example.com:5432 10.1.2.3", "-dial example.com:22 10.1.2.3", "-dial example.com:5432 10.2.0.1",
		"+dial example.com:443 8.8.8.8", "-connect 8.8.8.8:443",
	)
	never := policyOf(t, LayerUser, `{allow: [example.com, 224.0.0.1, 0.0.0.0, 255.255.255.255, "[ff02::1]", "[::]"]}`)
	expect(t, never, "-connect 224.0.0.1:80", "-connect 0.0.0.0:80", "-connect 255.255.255.255:80", "-connect [ff02::1]:80", "-connect [::]:80", "-dial example.com:80 0.0.0.0")
	// The stage of dialling cannot judge a condition.
	expect(t, policyOf(t, LayerUser, `{allow: [example.com, {host: 10.1.2.3, methods: [GET]}]}`),
		"-dial example.com:80 10.1.2.3", "+connect 10.1.2.3:80", "+GET http://10.1.2.3/", "-POST http://10.1.2.3/")
}

func TestLookup(t *testing.T) {
	p := policyOf(t, LayerUser, `{allow: ["a.example:443", "b.example", {host: c.example, methods: [GET]}, "d.example:22"], deny: ["b.example:22", "d.example:22", {host: a.example, methods: [POST]}]}`)
	expect(t, p, "+lookup a.example", "+lookup b.example", "+lookup c.example", "-lookup d.example", "-lookup e.example")
	p = policyOf(t, LayerUser, `{allow: ["**.example"]}`, LayerProject, `{allow: ["a.example:443", "b.example:22"], deny: ["b.example:22"]}`)
	expect(t, p, "+lookup a.example", "-lookup b.example", "-lookup c.example")
}

// TestLookupOfWhatIsSpelledOut checks that a rule with the exact name lets it be looked up,
// even where the default already would.
func TestLookupOfWhatIsSpelledOut(t *testing.T) {
	const rules = `allow: ["a.example:443", "**.example", {host: "b.example:22", until: "2026-11-20T11:00:00Z"}, "c.example:25"], deny: ["c.example:25"]}`
	for what, p := range map[string]*Policy{
		"by default": policyOf(t, LayerUser, `{default: allow, `+rules),
		"by preset":  policyOf(t, LayerUser, `{presets: [open], `+rules),
	} {
		for name, want := range map[string]string{"a.example": "a.example:443", "b.example": "", "c.example": "", "d.example": ""} {
			d, got := p.Decide(ask(t, "lookup "+name)), ""
			if d.Rule != nil {
				got = d.Rule.String()
			}
			if !d.Allowed() || got != want {
				t.Errorf("open %s, %s: rule %q, want %q: %s", what, name, got, want, d.Reason())
			}
		}
	}
}

func TestProject(t *testing.T) {
	p := policyOf(t,
		LayerUser, `{presets: [npm], allow: ["**.example.com", {host: api.example.net, max_body: 100}]}`,
		LayerProject, `{allow: ["a.example.com:443", evil.example, {host: api.example.net, methods: [POST], max_body: 50}], deny: ["**.a.example.com"]}`,
	)
	expect(t, p,
		"+connect a.example.com:443", "-connect a.example.com:80", "-connect b.example.com:443", "-connect x.a.example.com:443",
		"-connect evil.example:443", "-lookup evil.example", "-GET https://registry.npmjs.org/left-pad",
		"+POST https://api.example.net/", "-GET https://api.example.net/",
	)
	if d := p.Decide(ask(t, "POST https://api.example.net/")); d.MaxBody != 50 {
		t.Errorf("the body may have %d bytes", d.MaxBody)
	}
	d := p.Decide(ask(t, "connect b.example.com:443"))
	if d.Cause != CauseProject || !strings.Contains(d.Suggest().Note, "bothy.yaml") {
		t.Errorf("%s: %s", d.Cause, d.Suggest().Note)
	}
	for _, yaml := range []string{
		`default: allow`, `presets: [open]`, `{allow: [{host: example.com, passthrough: true}]}`,
	} {
		if _, err := Compile(1, Input{LayerProject, blockOf(t, yaml)}); err == nil {
			t.Errorf("a project may say %s", yaml)
		}
	}
	// Its conditions are those of the connection, and its wide rules are wide.
	p = policyOf(t, LayerUser, `{allow: [a.example, db, "10.1.2.3:22"]}`, LayerProject, `{allow: ["**", {host: a.example, methods: [GET]}]}`)
	expect(t, p, "+connect db:22", "+connect 10.1.2.3:22", "-connect 10.1.2.4:22", "+POST https://a.example/")
	p = policyOf(t, LayerUser, `allow: [a.example]`, LayerProject, `{allow: [{host: a.example, methods: [GET]}]}`)
	expect(t, p, "+GET https://a.example/", "-POST https://a.example/")
	if d := p.Decide(ask(t, "connect a.example:443")); d.Inspection != InspectMust {
		t.Errorf("inspection is %s", d.Inspection)
	}
	// A list of presets also counts as a list, and its rules stay the project's.
	p = policyOf(t, LayerUser, `{presets: [npm], allow: ["**.example.com"]}`, LayerProject, `presets: [npm, pypi]`)
	expect(t, p, "+GET https://registry.npmjs.org/left-pad", "-connect a.example.com:443", "-GET https://pypi.org/simple/x")
}

func TestHTTPConditions(t *testing.T) {
	p := policyOf(t, LayerUser, `
allow:
  - {host: "api.example.com:443", methods: [GET, HEAD], paths: ["/repos/acme/**"]}
  - {host: "api.example.com:443", methods: [POST], paths: [/upload], max_body: 10}
  - {host: "git.example.com:443", methods: [GET], paths: ["/*/info/refs"], query: [service=git-upload-pack]}
  - {host: h.example.com, headers: {accept: text/html, x-any: "*"}}
  - full.example.com
deny:
  - {host: "**.example.com", methods: [DELETE]}
  - {host: full.example.com, query: ["a=1&b=2"]}
  - {host: full.example.com, headers: {x-bad: evil}}
`)
	expect(t, p,
		"+GET https://api.example.com/repos/acme/app", "+HEAD https://api.example.com/repos/acme/app?x=y",
		"-GET https://api.example.com/repos/evil/app", "-POST https://api.example.com/repos/acme/app", "-GET https://api.example.com/",
		"-GET https://api.example.com/repos/acme/..%2fevil", "-GET https://api.example.com/repos/acme/../evil", "-GET http://api.example.com/repos/acme/app",
		"+POST https://api.example.com/upload",
		"+GET https://git.example.com/app/info/refs?service=git-upload-pack",
		"-GET https://git.example.com/app/info/refs?service=git-receive-pack", "-GET https://git.example.com/app/info/refs",
		"-GET https://git.example.com/app/info/refs?service=git-upload-pack&service=git-receive-pack",
		"-GET https://git.example.com/app/info/refs?service=git-upload-pack&x=1", "-GET https://git.example.com/app/info/refs?service=git%2dupload-pack",
		"+GET https://full.example.com/anything%2fat/all", "-DELETE https://full.example.com/", "-GET https://full.example.com/?b=2&x&a=1",
		"-GET https://full.example.com/?%61=1;B=2", "+GET https://full.example.com/?a=1", "-GET https://full.example.com/?a=%zz",
		"-GET https://h.example.com/",
	)
	for _, tt := range []struct {
		name string
		h    map[string][]string
		want bool
	}{
		{"both", map[string][]string{"Accept": {"text/html"}, "X-Any": {"1"}}, true},
		{"one", map[string][]string{"Accept": {"text/html"}}, false},
		{"other value", map[string][]string{"Accept": {"text/plain"}, "X-Any": {"1"}}, false},
		{"twice", map[string][]string{"Accept": {"text/html", "text/html"}, "X-Any": {"1"}}, false},
		{"twice in two spellings", map[string][]string{"Accept": {"text/html"}, "accept": {"x"}, "X-Any": {"1"}}, false},
	} {
		q := ask(t, "GET https://h.example.com/")
		q.Request.Header = tt.h
		if d := p.Decide(q); d.Allowed() != tt.want {
			t.Errorf("%s: %s", tt.name, d.Reason())
		}
	}
	q := ask(t, "GET https://full.example.com/")
	q.Request.Header = map[string][]string{"x-BAD": {"fine", "EVIL; q=1"}}
	if d := p.Decide(q); d.Allowed() {
		t.Error(d.Reason())
	}
	q = ask(t, "POST https://api.example.com/upload")
	for size, want := range map[int64]bool{0: true, 10: true, 11: false, -1: true} {
		q.Request.Body = size
		if d := p.Decide(q); d.Allowed() != want || want && d.MaxBody != 10 {
			t.Errorf("body of %d bytes: %s, at most %d", size, d.Action, d.MaxBody)
		}
	}
}

func TestInspection(t *testing.T) {
	p := policyOf(t, LayerUser, `
allow:
  - plain.example.com
  - {host: cond.example.com, methods: [GET]}
  - {host: both.example.com, methods: [GET]}
  - both.example.com:443
  - {host: seen.example.com, inspect: true}
  - {host: pinned.example.com, passthrough: true}
  - {host: torn.example.com, passthrough: true}
  - some.example.com
  - {host: every.example.com, paths: ["/**"]}
deny:
  - {host: torn.example.com, methods: [POST]}
  - {host: some.example.com:443, paths: [/admin]}
`)
	all := policyOf(t, LayerUser, `{inspect: all, allow: [plain.example.com, {host: pinned.example.com, passthrough: true}]}`)
	for _, tt := range []struct {
		p    *Policy
		q    string
		want Inspection
	}{
		{p, "plain.example.com:443", InspectNo},
		{p, "cond.example.com:443", InspectMust},
		{p, "both.example.com:443", InspectNo},
		{p, "both.example.com:80", InspectMust},
		{p, "seen.example.com:443", InspectMust},
		{p, "pinned.example.com:443", InspectNever},
		{p, "torn.example.com:443", InspectMust},
		{p, "some.example.com:443", InspectMust},
		{p, "some.example.com:80", InspectNo},
		{p, "every.example.com:80", InspectNo},
		{all, "plain.example.com:443", InspectHTTP},
		{all, "pinned.example.com:443", InspectNever},
	} {
		d := tt.p.Decide(ask(t, "connect "+tt.q))
		if !d.Allowed() || d.Inspection != tt.want {
			t.Errorf("%s: %s, inspection %s, want %s", tt.q, d.Reason(), d.Inspection, tt.want)
		}
	}
}

func TestExpiryOfARule(t *testing.T) {
	p := policyOf(t, LayerUser, `{allow: [{host: example.com, until: "2026-11-20T13:00:00Z"}, {host: example.org, until: "2026-11-20T14:00:00Z"}], deny: [{host: example.org, until: "2026-11-20T13:00:00Z"}]}`)
	at := func(name string, hour, minute int) bool {
		d := p.Decide(Query{Stage: StageConnect, Name: name, Port: 443, Now: time.Date(2026, 11, 20, hour, minute, 0, 0, time.UTC)})
		return d.Allowed()
	}
	for _, tt := range []struct {
		name         string
		hour, minute int
		want         bool
	}{
		{"example.com", 12, 59, true},
		{"example.com", 13, 0, false},
		{"example.org", 12, 59, false},
		{"example.org", 13, 0, true},
		{"example.org", 14, 0, false},
	} {
		if got := at(tt.name, tt.hour, tt.minute); got != tt.want {
			t.Errorf("%s at %d:%02d is allowed: %t", tt.name, tt.hour, tt.minute, got)
		}
	}
	one, two := noon.Add(time.Hour), noon.Add(2*time.Hour)
	if next, ok := p.NextExpiry(noon); !ok || !next.Equal(one) {
		t.Errorf("next is %s, %t", next, ok)
	}
	if next, ok := p.NextExpiry(one); !ok || !next.Equal(two) {
		t.Errorf("then %s, %t", next, ok)
	}
	if _, ok := p.NextExpiry(two); ok {
		t.Error("and then another")
	}
	d := p.Decide(Query{Stage: StageConnect, Name: "example.com", Port: 443, Now: two})
	if !strings.Contains(d.Reason(), "ended at 2026-11-20T13:00:00Z") {
		t.Errorf("the reason is %q", d.Reason())
	}
}

// TestQuestionsThatDoNotFit checks that a question that does not fit its stage is denied. Above all,
// this applies to a missing time: without it rules would never end.
func TestQuestionsThatDoNotFit(t *testing.T) {
	p := policyOf(t, LayerUser, `{default: allow, allow: ["**"]}`)
	addr := netip.MustParseAddr("8.8.8.8")
	req := &Request{Method: "GET", Host: "example.com", Path: "/"}
	for _, q := range []Query{
		{},
		{Stage: StageConnect, Name: "example.com", Port: 443},
		{Name: "example.com", Port: 443, Now: noon},
		{Stage: 9, Name: "example.com", Port: 443, Now: noon},
		{Stage: StageLookup, Now: noon},
		{Stage: StageLookup, Name: "example.com", Port: 443, Now: noon},
		{Stage: StageLookup, Name: "example.com", Addr: addr, Now: noon},
		{Stage: StageConnect, Name: "example.com", Now: noon},
		{Stage: StageConnect, Name: "example.com", Addr: addr, Port: 443, Now: noon},
		{Stage: StageConnect, Port: 443, Now: noon},
		{Stage: StageConnect, Name: "example.com", Port: 443, Now: noon, Request: req},
		{Stage: StageDial, Name: "example.com", Port: 443, Now: noon},
		{Stage: StageDial, Addr: addr, Port: 443, Now: noon},
		{Stage: StageRequest, Name: "example.com", Port: 443, Now: noon},
		{Stage: StageConnect, Addr: netip.MustParseAddr("fe80::1%eth0"), Port: 443, Now: noon},
	} {
		if d := p.Decide(q); d.Allowed() || d.Cause != CauseQuestion {
			t.Errorf("%+v: %s %s", q, d.Action, d.Cause)
		}
	}
}

func TestStill(t *testing.T) {
	addr := netip.MustParseAddr("93.184.216.34")
	flow := Flow{Name: "example.com", Addr: addr, Port: 443}
	seen := flow
	seen.Seen = true
	posting := seen
	posting.Active = &Request{Method: "POST", Host: "example.com", Path: "/x"}
	for _, tt := range []struct {
		name, policy string
		flow         Flow
		want         bool
	}{
		{"as before", `{allow: [example.com]}`, flow, true},
		{"removed", `{allow: [example.org]}`, flow, false},
		{"denied", `{allow: [example.com], deny: [example.com]}`, flow, false},
		{"address denied", `{allow: [example.com], deny: [93.184.216.0/24]}`, flow, false},
		{"now conditional, unseen", `{allow: [{host: example.com, methods: [GET]}]}`, flow, false},
		{"now conditional, seen", `{allow: [{host: example.com, methods: [GET]}]}`, seen, true},
		{"request under way denied", `{allow: [{host: example.com, methods: [GET]}]}`, posting, false},
		{"request under way allowed", `{allow: [{host: example.com, methods: [POST]}]}`, posting, true},
	} {
		d := policyOf(t, LayerUser, tt.policy).Still(tt.flow, noon)
		if d.Allowed() != tt.want {
			t.Errorf("%s: %s", tt.name, d.Reason())
		}
	}
}

func TestReasonsAndSuggestions(t *testing.T) {
	p := policyOf(t,
		LayerUser, `
allow:
  - example.com:443
  - {host: api.example.com:443, methods: [GET]}
deny:
  - {host: "**.evil.example", why: took data once}
`,
		LayerSandbox, `{deny: ["bad.example"]}`,
		LayerProject, `{deny: ["worse.example"]}`,
	)
	for _, tt := range []struct{ q, reason, command string }{
		{"connect example.org:8443", "no rule allows example.org:8443", "bothy policy allow example.org:8443 --sandbox box"},
		{"lookup example.org", "no rule allows example.org", "bothy policy allow example.org:443 --sandbox box"},
		{"connect 8.8.8.8:53", "no rule allows 8.8.8.8:53", "bothy policy allow 8.8.8.8:53 --sandbox box"},
		{"connect [2606:2800::1]:53", "no rule allows [2606:2800::1]:53", "bothy policy allow '[2606:2800::1]:53' --sandbox box"},
		{"connect db:5432", "no rule allows db:5432, a private name that a rule has to name", "bothy policy allow db:5432 --sandbox box"},
		{"connect a.evil.example:443", `rule "**.evil.example" (user) denies a.evil.example:443 (took data once)`, "bothy policy rm --id " + ruleID(t, Deny, "**.evil.example") + " && bothy policy allow a.evil.example:443 --sandbox box"},
		{"connect bad.example:443", `rule "bad.example" (sandbox) denies bad.example:443`, "bothy policy rm --id " + ruleID(t, Deny, "bad.example") + " --sandbox box && bothy policy allow bad.example:443 --sandbox box"},
		{"connect worse.example:443", `rule "worse.example" (project) denies worse.example:443`, ""},
		{"POST https://api.example.com/x%20y?q=secret", `api.example.com:443 is allowed, but not this request: POST api.example.com:443/x%20y?…; rule "api.example.com:443 GET" (user) does not cover it`, "bothy policy allow api.example.com:443 --method POST --path /x%20y --sandbox box"},
		{"POST https://api.example.com/a'b/*/$(id)", `api.example.com:443 is allowed, but not this request: POST api.example.com:443/a'b/%2A/$(id); rule "api.example.com:443 GET" (user) does not cover it`, `bothy policy allow api.example.com:443 --method POST --path '/a'\''b/%2A/$(id)' --sandbox box`},
		{"dial example.com:443 10.0.0.1", "example.com:443 leads to 10.0.0.1, a private address (RFC 1918), which only a rule within that range reaches", "bothy policy allow 10.0.0.1:443 --sandbox box"},
		{"connect 169.254.169.254:80", "169.254.169.254:80 is the metadata service of a cloud, which only a rule for that very address reaches", ""},
		{"connect [64:ff9b::a00:1]:80", "no rule allows [64:ff9b::a00:1]:80", "bothy policy allow '[64:ff9b::a00:1]:80' --sandbox box && bothy policy allow 10.0.0.1:80 --sandbox box"},
		{"connect 224.0.0.1:80", "224.0.0.1:80 is a multicast address (RFC 5771), which is never reached", ""},
	} {
		d := p.Decide(ask(t, tt.q))
		s := d.Suggest()
		if d.Allowed() || d.Reason() != tt.reason || s.Command("box") != tt.command {
			t.Errorf("%s:\n%q\n%q\nwant\n%q\n%q", tt.q, d.Reason(), s.Command("box"), tt.reason, tt.command)
		}
		if tt.command != "" && strings.HasSuffix(s.Command(""), "--sandbox box") {
			t.Errorf("%s: for all sandboxes: %s", tt.q, s.Command(""))
		}
	}
	d := p.Decide(ask(t, "connect example.com:443"))
	if d.Reason() != `rule "example.com:443" (user) allows example.com:443` || d.Suggest().Args != nil {
		t.Errorf("%s, %v", d.Reason(), d.Suggest())
	}
}

// TestSuggestionsHelp checks that a suggestion allows the denied question and no other
// host.
func TestSuggestionsHelp(t *testing.T) {
	base := Input{LayerUser, blockOf(t, `{allow: ["example.com", {host: api.example.com, paths: [/x]}]}`)}
	p := compile(t, base)
	for _, text := range []string{
		"connect example.org:8443", "lookup example.org", "connect 8.8.8.8:53", "dial example.com:443 10.0.0.1", "connect 10.0.0.1:22",
		"POST https://api.example.com/y", "GET https://api.example.com/*/b", "GET https://api.example.com/a%2fb", "connect db:5432",
	} {
		q := ask(t, text)
		before := p.Decide(q)
		s := before.Suggest()
		if before.Allowed() || len(s.Args) < 3 || s.Args[1] != "allow" {
			t.Errorf("%s: %v", text, s)
			continue
		}
		r := rule(t, Allow, s.Args[2])
		for i := 3; i < len(s.Args); i += 2 {
			if s.Args[i] == "--method" {
				r.HTTP.Methods = []string{s.Args[i+1]}
			} else {
				r.HTTP.Paths = []string{s.Args[i+1]}
			}
		}
		after := compile(t, base, Input{LayerSandbox, Block{Allow: []Rule{r}}})
		if d := after.Decide(q); !d.Allowed() {
			t.Errorf("%s: %v does not help: %s", text, s.Args, d.Reason())
		}
		expect(t, after, "-connect other.example:443")
		if s.Note == "" { // otherwise it warns that it is wide
			expect(t, after, "-GET https://api.example.com/other/x")
		}
	}
}

func ruleID(t *testing.T, a Action, text string) string {
	t.Helper()
	r := rule(t, a, text)
	return r.ID()
}

// TestInner checks addresses of the sandbox's own network. They belong to the gateway, so
// no rule is about them and no command is proposed. A name outside may resolve to the same
// addresses.
func TestInner(t *testing.T) {
	p := policyOf(t, LayerUser, `{default: allow, allow: ["198.18.0.0/15", "198.18.0.1:22", "[fd62:6f74:6879::1]", named.example.com]}`)
	for _, a := range []string{"198.18.0.1", "198.19.255.255", "fd62:6f74:6879::1"} {
		d := p.Decide(Query{Stage: StageConnect, Addr: netip.MustParseAddr(a), Port: 22, Now: noon})
		if s := d.Suggest(); d.Allowed() || s.Command("box") != "" || !strings.Contains(d.Reason(), "own network, about which no rule decides") {
			t.Errorf("%s: %v, %s; %s", a, d.Action, d.Reason(), s.Command("box"))
		}
	}
	x := p.Explain(Query{Stage: StageConnect, Addr: netip.MustParseAddr("198.18.0.1"), Port: 22, Now: noon})
	if text := x.Text("box"); strings.Contains(text, "too wide") || !strings.Contains(text, "where a name may lead") {
		t.Errorf("explained is %s", text)
	}
	expect(t, p, "+dial named.example.com:443 198.18.0.1", "+dial named.example.com:443 fd62:6f74:6879::1")
}
