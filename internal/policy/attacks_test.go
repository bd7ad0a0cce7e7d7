package policy

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/policy/target"
)

// The cases of the attack list that this package decides. Where a case needs packets, the gateway has
// the test; these check the decision.

// TestAttackA1DataInNames checks data in the labels of a name that is not allowed (A1).
func TestAttackA1DataInNames(t *testing.T) {
	p := policyOf(t, LayerUser, `{allow: ["example.com:443", "*.cdn.example.com:443"]}`)
	expect(t, p,
		"-lookup c2VjcmV0.attacker.example", "-lookup attacker.example", "-lookup c2VjcmV0.example.com", "-lookup a.b.cdn.example.com",
		"+lookup example.com", "+lookup a.cdn.example.com",
		// resolvers that would answer over TLS or HTTPS
		"-lookup dns.google", "-connect 8.8.8.8:53", "-connect 8.8.8.8:853", "-connect 1.1.1.1:443", "-connect [2606:4700:4700::1111]:443",
		"-connect cloudflare-dns.com:443",
	)
}

// TestAttackA2JudgedBeforeResolving checks that a name is judged before it is resolved: a denial needs
// no address (A2).
func TestAttackA2JudgedBeforeResolving(t *testing.T) {
	p := policyOf(t, LayerUser, `{allow: [example.com]}`)
	expect(t, p, "-lookup evil.example", "-connect evil.example:443")
}

// TestAttackA6Contradictions checks that a contradiction is an error, not a silent choice (A6).
func TestAttackA6Contradictions(t *testing.T) {
	for _, text := range []string{
		`presets: [none, npm]`, `presets: [npm, npm]`, `{allow: [{host: a.example, passthrough: true, inspect: true}]}`,
		`{allow: [{host: a.example, passthrough: true, methods: [GET]}]}`, `{deny: [{host: a.example, passthrough: true}]}`,
	} {
		if b, err := decodeBlock(text); err == nil {
			t.Errorf("%s is read as %+v", text, b)
		}
	}
}

// TestAttackA7Families checks that one policy applies to IPv4 and IPv6, mapped and translated (A7).
func TestAttackA7Families(t *testing.T) {
	open := policyOf(t, LayerUser, `{default: allow, deny: ["93.184.216.34", "10.0.0.0/8"], allow: ["[64:ff9b::/96]", "[2002::/16]"]}`)
	expect(t, open,
		"-connect 93.184.216.34:443", "-connect [64:ff9b::5db8:d822]:443", "-connect [2002:5db8:d822::1]:443",
		"-dial example.com:443 93.184.216.34", "-dial example.com:443 64:ff9b::5db8:d822", "-dial example.com:443 ::ffff:93.184.216.34",
		"-connect [64:ff9b::a00:1]:443", "-connect [2002:a00:1::]:443", "-dial example.com:443 2002:a00:1::",
		"-connect [64:ff9b::c0a8:1]:443", "-connect [2002:7f00:1::]:443", "-dial example.com:443 64:ff9b::a9fe:a9fe",
		"+connect [64:ff9b::808:808]:443", "+dial example.com:443 64:ff9b::808:808",
	)
	for _, a := range []string{"::ffff:8.8.8.8", "::ffff:10.0.0.1", "::ffff:127.0.0.1"} {
		q := Query{Stage: StageConnect, Addr: netip.MustParseAddr(a), Port: 443, Now: noon}
		if d := open.Decide(q); d.Allowed() {
			t.Errorf("%s: %s", a, d.Reason())
		}
	}
}

// TestAttackA9Rebinding checks an allowed name that resolves to a sinkhole, a private address or a
// metadata service, at once or after a while (A9).
func TestAttackA9Rebinding(t *testing.T) {
	p := policyOf(t, LayerUser, `{allow: ["**.example.com", "**"]}`)
	for _, a := range []string{
		"0.0.0.0", "10.0.0.1", "100.64.0.1", "127.0.0.1", "127.0.0.53", "169.254.169.254", "172.16.0.1", "192.0.0.1", "192.168.1.1", "198.18.0.1",
		"224.0.0.1", "240.0.0.1", "255.255.255.255", "::", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::1", "100::1", "2001::1", "2001:db8::1",
		"2002:7f00:1::", "fc00::1", "fd00:ec2::254", "fe80::1", "fec0::1", "ff02::1",
	} {
		expect(t, p, "-dial a.example.com:443 "+a)
	}
	expect(t, p, "+dial a.example.com:443 93.184.216.34", "+dial a.example.com:443 2606:2800::1")
}

// TestAttackA10LiteralWithAllowedName checks that only CIDR rules allow a literal address, whatever name
// a client shows there (A10).
func TestAttackA10LiteralWithAllowedName(t *testing.T) {
	p := policyOf(t, LayerUser, `{allow: [example.com]}`)
	expect(t, p, "-connect 93.184.216.34:443", "-GET https://93.184.216.34/")
	q := ask(t, "GET https://93.184.216.34/")
	q.Request.Host = "example.com"
	if d := policyOf(t, LayerUser, `{allow: [example.com, 93.184.216.34]}`).Decide(q); d.Allowed() {
		t.Errorf("the address answers for the name: %s", d.Reason())
	}
}

// TestAttackA12Suffixes checks suffixes without a dot, prefixes, and wildcards that match the apex or
// the wrong depth, in both directions (A12).
func TestAttackA12Suffixes(t *testing.T) {
	allow := policyOf(t, LayerUser, `{allow: [allowed.example, "*.one.example", "**.deep.example"]}`)
	expect(t, allow,
		"+connect allowed.example:443", "-connect evilallowed.example:443", "-connect allowed.example.evil.example:443", "-connect a.allowed.example:443",
		"-connect allowed.exampl:443", "-connect xallowed.example:443", "-connect allowed-example.com:443",
		"+connect a.one.example:443", "-connect one.example:443", "-connect b.a.one.example:443", "-connect evilone.example:443", "-connect a.evilone.example:443",
		"+connect b.a.deep.example:443", "-connect deep.example:443", "-connect evildeep.example:443", "-connect a.deep.example.evil.example:443",
	)
	deny := policyOf(t, LayerUser, `{default: allow, deny: [denied.example, "*.one.example", "**.deep.example"]}`)
	expect(t, deny,
		"-connect denied.example:443", "-connect DENIED.example.:443", "+connect notdenied.example:443", "+connect denied.example.org:443",
		"-connect a.one.example:443", "+connect one.example:443", "-connect c.b.a.deep.example:443",
	)
	for _, name := range []string{"DENIED.EXAMPLE", "denied.example.", "Denied.Example.", "denied.example..", "denied.example\x00", " denied.example", "denied。example"} {
		if d := deny.Decide(Query{Stage: StageConnect, Name: name, Port: 443, Now: noon}); d.Allowed() {
			t.Errorf("%q: %s", name, d.Reason())
		}
	}
}

// TestAttackA13PlainHTTP checks that port 80 is judged like any other (A13).
func TestAttackA13PlainHTTP(t *testing.T) {
	p := policyOf(t, LayerUser, `{allow: ["example.com:443"]}`)
	expect(t, p, "-connect example.com:80", "-GET http://example.com/", "-GET http://example.com:8080/", "+GET https://example.com/")
}

// TestAttackA15Metadata checks metadata services in every preset: by name, by literal address, by
// rebinding, and in odd notations (A15).
func TestAttackA15Metadata(t *testing.T) {
	addrs := []string{
		"169.254.169.254", "169.254.170.2", "169.254.170.23", "168.63.129.16", "100.100.100.200", "192.0.0.192", "fd00:ec2::254", "fd00:ec2::23",
		"fd20:ce::254", "fe80::a9fe:a9fe", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::", "::ffff:169.254.169.254", "::169.254.169.254",
	}
	names := []string{
		"metadata.google.internal", "metadata.google.internal.", "METADATA.google.internal", "metadata", "instance-data", "instance-data.ec2.internal",
		"169.254.169.254", "169.254.169.254.", "0xa9fea9fe", "2852039166", "0251.0376.0251.0376", "169.254.43518", "0xa9.0xfe.0xa9.0xfe",
	}
	for _, preset := range PresetNames() {
		p := compile(t, Input{LayerSandbox, Block{Presets: []string{preset}}})
		for _, a := range addrs {
			addr := netip.MustParseAddr(a)
			for _, q := range []Query{
				{Stage: StageConnect, Addr: addr, Port: 80, Now: noon},
				{Stage: StageDial, Name: "api.anthropic.com", Addr: addr, Port: 443, Now: noon},
				{Stage: StageDial, Name: "registry.npmjs.org", Addr: addr, Port: 443, Now: noon},
			} {
				if d := p.Decide(q); d.Allowed() {
					t.Errorf("preset %s: %+v: %s", preset, q, d.Reason())
				}
			}
		}
		for _, name := range names {
			for _, q := range []Query{{Stage: StageLookup, Name: name, Now: noon}, {Stage: StageConnect, Name: name, Port: 80, Now: noon}} {
				if d := p.Decide(q); d.Allowed() {
					t.Errorf("preset %s: %+v: %s", preset, q, d.Reason())
				}
			}
		}
	}
	// A rule for a whole range does not open them either; one for the very address does.
	expect(t, policyOf(t, LayerUser, `{allow: ["169.254.0.0/16", "0.0.0.0/0", "[fd00::/8]", "100.64.0.0/10"]}`),
		"-connect 169.254.169.254:80", "+connect 169.254.1.1:80", "-connect [fd00:ec2::254]:80", "+connect [fd00:ec2::1]:80", "-connect 100.100.100.200:80", "-connect 168.63.129.16:80")
	expect(t, policyOf(t, LayerUser, `{allow: ["169.254.169.254:80"]}`), "+connect 169.254.169.254:80", "-connect 169.254.169.254:443")
}

// TestAttackA16B5FlowsEndOnReload checks that the gateway is told to close flows that the new policy
// does not allow (A16, B5).
func TestAttackA16B5FlowsEndOnReload(t *testing.T) {
	flow := Flow{Name: "example.com", Addr: netip.MustParseAddr("93.184.216.34"), Port: 443}
	old := policyOf(t, LayerUser, `{allow: [example.com]}`)
	if d := old.Still(flow, noon); !d.Allowed() {
		t.Fatal(d.Reason())
	}
	next, err := Compile(old.Generation()+1, Input{LayerUser, blockOf(t, `{allow: [example.org]}`)})
	if err != nil {
		t.Fatal(err)
	}
	if d := next.Still(flow, noon); d.Allowed() || d.Generation != 2 {
		t.Errorf("generation %d: %s", d.Generation, d.Reason())
	}
}

// TestAttackA17NoSSH checks that no preset opens SSH, whose content cannot be judged (A17).
func TestAttackA17NoSSH(t *testing.T) {
	for _, preset := range PresetNames() {
		if preset == presetOpen {
			continue
		}
		p := compile(t, Input{LayerSandbox, Block{Presets: []string{preset}}})
		for _, name := range append(presetHosts(t, preset), "github.com", "ssh.github.com") {
			for _, port := range []uint16{22, 2222, 9418, 3128} {
				if d := p.Decide(Query{Stage: StageConnect, Name: name, Port: port, Now: noon}); d.Allowed() {
					t.Errorf("preset %s: %s", preset, d.Reason())
				}
			}
		}
	}
}

// TestAttackA18MultiTenant checks parts of an allowed service that store data for anyone with a key
// (A18).
func TestAttackA18MultiTenant(t *testing.T) {
	for preset, questions := range map[string][]string{
		"claude": {
			"+POST https://api.anthropic.com/v1/messages?beta=true", "-POST https://api.anthropic.com/v1/files", "-POST https://api.anthropic.com/v1/messages/batches",
			"-GET https://api.anthropic.com/v1/files/file_1/content", "-POST https://api.anthropic.com/api/event_logging/batch", "-POST https://api.anthropic.com/v1/messages/../files",
			"-POST https://api.anthropic.com/v1/messages%2f..%2ffiles", "-PUT https://api.anthropic.com/v1/messages",
		},
		"codex": {
			"+POST https://api.openai.com/v1/responses", "+GET wss://api.openai.com/v1/responses", "-GET wss://api.openai.com/v1/realtime", "-POST https://api.openai.com/v1/files",
			"-GET https://api.openai.com/v1/responses/resp_1", "-POST https://chatgpt.com/backend-api/conversation",
		},
		"gemini": {
			"+POST https://generativelanguage.googleapis.com/v1beta/models/gemini-3:streamGenerateContent?alt=sse", "-POST https://generativelanguage.googleapis.com/upload/v1beta/files",
			"-POST https://generativelanguage.googleapis.com/v1beta/cachedContents",
		},
		"npm":    {"+GET https://registry.npmjs.org/@types%2fnode", "-PUT https://registry.npmjs.org/evil", "-POST https://registry.npmjs.org/-/npm/v1/security/advisories/bulk"},
		"pypi":   {"+GET https://pypi.org/simple/requests/", "-POST https://pypi.org/legacy/", "-POST https://upload.pypi.org/legacy/"},
		"go":     {"+GET https://proxy.golang.org/golang.org/x/sys/@v/list", "-GET https://storage.googleapis.com/evil/x", "-PUT https://storage.googleapis.com/proxy-golang-org-prod/x"},
		"cargo":  {"+GET https://index.crates.io/se/rd/serde", "-PUT https://crates.io/api/v1/crates/new"},
		"debian": {"+GET http://deb.debian.org/debian/pool/main/g/gcc/libstdc%2b%2b6.deb", "-POST http://deb.debian.org/debian/"},
	} {
		expect(t, compile(t, Input{LayerSandbox, Block{Presets: []string{preset}}}), questions...)
	}
}

// TestAttackA19PresetsAreNarrow checks that no preset lets a request write to a place that anyone can
// read, unless a path rule narrows it. Presets that announce this are excepted (A19).
func TestAttackA19PresetsAreNarrow(t *testing.T) {
	for _, name := range PresetNames() {
		p, err := FindPreset(name)
		if err != nil {
			t.Fatal(err)
		}
		if name == presetOpen || name == "ai-dev-kit" { // they announce it
			continue
		}
		if p.Block.Default == Allow {
			t.Errorf("preset %s allows by default", name)
		}
		for _, r := range p.Block.Allow {
			writes := len(r.HTTP.Methods) == 0 || slices.ContainsFunc(r.HTTP.Methods, func(m string) bool { return m != "GET" && m != "HEAD" })
			if r.Target.Kind != target.Exact || r.Target.Port == 0 || r.HTTP.IsEmpty() || writes && len(r.HTTP.Paths) == 0 {
				t.Errorf("preset %s: %s is too wide", name, &r)
			}
			if slices.Contains(r.HTTP.Paths, "/**") {
				t.Errorf("preset %s: %s has a path that is none", name, &r)
			}
		}
	}
}

// TestAttackA20HostAndLAN checks that no preset reaches the host, the LAN or other sandboxes (A20).
func TestAttackA20HostAndLAN(t *testing.T) {
	for _, preset := range PresetNames() {
		p := compile(t, Input{LayerSandbox, Block{Presets: []string{preset}}})
		expect(t, p,
			"-connect 127.0.0.1:22", "-connect [::1]:22", "-connect 10.0.2.2:22", "-connect 192.168.1.1:80", "-connect 172.17.0.1:2375", "-connect [fe80::1]:22",
			"-dial registry.npmjs.org:443 127.0.0.1", "-dial registry.npmjs.org:443 172.17.0.1",
		)
		for _, name := range []string{"localhost", "a.localhost", "host.docker.internal", "gateway.docker.internal", "host.bothy", "keeper.bothy", "bothy", "db", "printer.local"} {
			if d := p.Decide(Query{Stage: StageLookup, Name: name, Now: noon}); d.Allowed() {
				t.Errorf("preset %s: %s", preset, d.Reason())
			}
		}
	}
}

// TestAttackA21NarrowAllowWideDeny checks that a narrow allow does not pierce a wider deny in any layer,
// that a locked sandbox stays locked, and that contradicting rules are reported when they are written
// (A21).
func TestAttackA21NarrowAllowWideDeny(t *testing.T) {
	layers := []Layer{LayerUser, LayerSandbox, LayerCommand, LayerProject}
	for _, denying := range layers {
		for _, allowing := range layers[:3] {
			p := policyOf(t, denying, `{deny: ["**.example.com", "93.184.0.0/16"]}`, allowing, `{allow: ["api.example.com:443", "93.184.216.34:443", {host: b.example.com, methods: [GET]}]}`)
			expect(t, p, "-connect api.example.com:443", "-connect 93.184.216.34:443", "-lookup api.example.com", "-GET https://b.example.com/")
		}
	}
	locked := policyOf(t, LayerUser, `{allow: [example.com], presets: [claude, npm]}`, LayerSandbox, `presets: [none]`, LayerCommand, `{default: allow, allow: ["**", 8.8.8.8]}`)
	expect(t, locked, "-connect example.com:443", "-POST https://api.anthropic.com/v1/messages", "-connect 8.8.8.8:53", "-lookup example.com")
}

// TestAttackB2Upgrade checks an upgrade to a protocol that the gateway does not parse (B2).
func TestAttackB2Upgrade(t *testing.T) {
	p := policyOf(t, LayerUser, `{default: allow, allow: [{host: example.com, websocket: true}]}`)
	for upgrade, want := range map[string]bool{"": true, "websocket": true, "WebSocket": true, "h2c": false, "connect-udp": false, "websocket, h2c": false, "TLS/1.0": false} {
		q := ask(t, "GET https://example.com/")
		q.Request.Upgrade = upgrade
		if d := p.Decide(q); d.Allowed() != want {
			t.Errorf("upgrade %q: %s", upgrade, d.Reason())
		}
	}
}

// TestAttackB3MethodOverride checks requests whose first line has another method than the server will
// use (B3).
func TestAttackB3MethodOverride(t *testing.T) {
	p := policyOf(t, LayerUser, `{allow: [{host: example.com, methods: [GET]}, full.example], deny: [{host: full.example, methods: [DELETE]}]}`)
	expect(t, p, "+GET https://example.com/", "-GET https://example.com/?_method=DELETE", "-GET https://example.com/?%5fmethod=DELETE", "+GET https://example.com/?my_method=x",
		"+GET https://full.example/", "-DELETE https://full.example/", "-delete https://full.example/", "-GET https://full.example/?_METHOD=x",
		"-get https://example.com/", "-CONNECT https://full.example/", "-connect example.com.evil:1")
	for _, name := range []string{"X-HTTP-Method-Override", "x-http-method", "X-Method-Override"} {
		for _, url := range []string{"https://example.com/", "https://full.example/"} {
			q := ask(t, "GET "+url)
			q.Request.Header = map[string][]string{name: {"DELETE"}}
			if d := p.Decide(q); d.Allowed() {
				t.Errorf("%s: %s", name, d.Reason())
			}
		}
	}
	for _, m := range []string{"", "GE T", "GET\r\nX: y", "G\x00", "GÉT"} {
		q := ask(t, "GET https://full.example/")
		q.Request.Method = m
		if d := p.Decide(q); d.Allowed() || d.Cause != CauseMethod {
			t.Errorf("%q: %s", m, d.Reason())
		}
	}
}

// TestAttackB3MethodInDisguise checks parameter names that PHP reads alike, and a body that the gateway
// has read (B3).
func TestAttackB3MethodInDisguise(t *testing.T) {
	p := policyOf(t, LayerUser, `{allow: [{host: example.com, methods: [POST]}, {host: all.example}], deny: [{host: all.example, methods: [DELETE]}]}`)
	for _, host := range []string{"example.com", "all.example"} {
		for _, query := range []string{
			"_method=x", ".method=x", "%2emethod=x", "+_method=x", "%20.Method=x", "_method%00y=x", "a=b&_method", "a;.method",
			"_method%00%zz=DELETE", "_method%00%=x", "%u005fmethod=x", "%zz", "a=b&c%4", strings.Repeat("+", 40) + "_method=x", strings.Repeat("%20", 40) + "_method=x",
			"[_method]=x", "_method[]=x", "_method%5B0%5D=x", strings.Repeat("%5b", 40) + "_method=x",
		} {
			expect(t, p, "-POST https://"+host+"/?"+query)
		}
		for _, query := range []string{"method=x", "a.method=x", "my_method=x", "_methods=x", "%00_method=x", "a=%zz", "a=b%&c=%", "a[_method]=x", "a=b&", "%25=x"} {
			expect(t, p, "+POST https://"+host+"/?"+query)
		}
		q := ask(t, "POST https://"+host+"/")
		q.Request.MethodInBody = true
		if d := p.Decide(q); d.Allowed() {
			t.Errorf("%s: %s", host, d.Reason())
		}
	}
}

// TestAttackB3PathOverride checks the paths in request fields that some servers use (B3).
func TestAttackB3PathOverride(t *testing.T) {
	p := policyOf(t, LayerUser, `
allow:
  - {host: paths.example, paths: [/ok]}
  - {host: query.example, query: [a=b]}
  - {host: methods.example, methods: [GET]}
  - plain.example
  - denied.example
  - asked.example
deny:
  - {host: denied.example, paths: [/admin]}
  - {host: asked.example, query: [a=b]}
`)
	for host, want := range map[string]bool{
		"paths.example/ok": false, "query.example/?a=b": false, "denied.example/x": false, "asked.example/?c=d": false,
		"methods.example/x": true, "plain.example/x": true,
	} {
		for _, name := range []string{"X-Original-URL", "x-rewrite-url", "X_Original_Url", "X-Forwarded-Uri", "X-Original-Uri"} {
			q := ask(t, "GET https://"+host)
			if d := p.Decide(q); !d.Allowed() {
				t.Errorf("%s, as it is: %s", host, d.Reason())
			}
			q.Request.Header = map[string][]string{name: {"/admin"}}
			if d := p.Decide(q); d.Allowed() != want {
				t.Errorf("%s with %s: %s", host, name, d.Reason())
			}
		}
	}
	q := ask(t, "GET https://paths.example/ok")
	q.Request.Header = map[string][]string{"X-Original-Url": {"/admin"}}
	if d := p.Decide(q); d.Reason() != `field X-Original-Url asks for another path; paths.example:443 is allowed, but not this request: GET paths.example:443/ok; rule "paths.example /ok" (user) does not cover it` {
		t.Error(d.Reason())
	}
	q = ask(t, "GET https://denied.example/x")
	q.Request.Header = map[string][]string{"X-Original-Url": {"/admin"}}
	if d := p.Decide(q); d.Reason() != `rule "denied.example /admin" (user) denies GET denied.example:443/x: field X-Original-Url asks for another path` {
		t.Error(d.Reason())
	}
}

// TestAsterisk checks requests about the server as a whole. They match no allowed path and
// every denied path.
func TestAsterisk(t *testing.T) {
	p := policyOf(t, LayerUser, `
allow:
  - {host: paths.example, paths: [/ok, "/*"], methods: [OPTIONS]}
  - {host: methods.example, methods: [OPTIONS]}
  - {host: every.example, methods: [OPTIONS], paths: ["/**"]}
  - plain.example
  - denied.example
deny:
  - {host: denied.example, paths: [/admin]}
`)
	for host, want := range map[string]bool{"paths.example": false, "methods.example": true, "every.example": true, "plain.example": true, "denied.example": false} {
		q := ask(t, "OPTIONS https://"+host+"/")
		q.Request.Path = "*"
		if d := p.Decide(q); d.Allowed() != want {
			t.Errorf("OPTIONS * of %s: %s", host, d.Reason())
		}
		q.Request.Method = "GET"
		if d := p.Decide(q); d.Allowed() || d.Cause != CausePath {
			t.Errorf("GET * of %s: %s", host, d.Reason())
		}
	}
}

// TestAttackB4WebSocket checks that on a host with conditions a rule must ask for WebSocket, because
// traffic on an open WebSocket is not judged (B4).
func TestAttackB4WebSocket(t *testing.T) {
	p := policyOf(t, LayerUser, `
allow:
  - {host: paths.example, paths: ["/**"], methods: [GET]}
  - {host: wants.example, paths: [/chat], websocket: true}
  - plain.example
  - denied.example
deny:
  - {host: denied.example, paths: [/admin]}
`)
	expect(t, p, "+GET https://paths.example/x", "-GET wss://paths.example/x", "+GET wss://wants.example/chat", "-GET wss://wants.example/x",
		"+GET wss://plain.example/x", "-GET wss://denied.example/x", "+GET https://denied.example/x")
}

// TestAttackB6C8OtherHost checks that the new host is judged, wherever a redirect or a base URL leads
// (B6, C8).
func TestAttackB6C8OtherHost(t *testing.T) {
	p := compile(t, Input{LayerSandbox, Block{Presets: []string{"claude", "github-read"}}})
	expect(t, p, "-POST https://evil.example/v1/messages", "-GET https://evil.example/", "-GET https://gist.githubusercontent.com/a/b/raw", "-GET https://evil.githubusercontent.com/")
}

// TestAttackPathNormalisation checks that no path trick leaves the allowed subtree or evades a deny.
func TestAttackPathNormalisation(t *testing.T) {
	allow := policyOf(t, LayerUser, `{allow: [{host: api.example, paths: ["/repos/acme/**"]}]}`)
	deny := policyOf(t, LayerUser, `{allow: [api.example], deny: [{host: api.example, paths: ["/admin/**"]}]}`)
	for _, path := range []string{
		"/repos/acme/../evil", "/repos/acme/%2e%2e/evil", "/repos/acme/..%2fevil", "/repos/acme%2f..%2fevil", "/repos/acme/..%5cevil", "/repos/acme/%252e%252e/evil",
		"/repos/acme/..;/evil", "//repos/acme/x", "/repos//acme/x", "/./repos/acme/x", "/repos/acme/%c0%ae%c0%ae/evil", "/repos/acme/．．/evil", "/repos/acme/%ef%bc%8e%ef%bc%8e/evil",
		"/repos/acme/x\x00", "/repos/acme/%00", "/repos/acme/x%0d%0aHost:%20evil", "/REPOS/acme/x", "/repos/acmeevil", "/repos/acme",
	} {
		q := ask(t, "GET https://api.example/")
		q.Request.Path = path
		if d := allow.Decide(q); d.Allowed() {
			t.Errorf("%q: %s", path, d.Reason())
		}
	}
	for _, path := range []string{
		"/admin", "/admin/", "/admin/x", "/ADMIN/x", "/%61dmin/x", "/%41dmin", "/admin;x=1/y", "/admin%3bx/y", "//admin/x", "/./admin/x", "/x/../admin/x", "/x/%2e%2e/admin",
		"/x/..%2fadmin/x", "/%2fadmin", "/admin%2fx", `/admin\x`, "/;/admin", "/admin%00", "/admin/%20", "/%c0%afadmin",
	} {
		q := ask(t, "GET https://api.example/")
		q.Request.Path = path
		if d := deny.Decide(q); d.Allowed() {
			t.Errorf("%q: %s", path, d.Reason())
		}
	}
}

// TestAttackB1QueryInjection checks a query that would end the request line (B1).
func TestAttackB1QueryInjection(t *testing.T) {
	p := policyOf(t, LayerUser, `default: allow`)
	for _, query := range []string{"a b", "a\r\nHost: evil", "\x00", "a#b", "\x7f", "é"} {
		q := ask(t, "GET https://example.com/")
		q.Request.Query = query
		if d := p.Decide(q); d.Allowed() || d.Cause != CauseQueryString {
			t.Errorf("%q: %s", query, d.Reason())
		}
	}
}

// TestAttackC12Expiry checks that expired rules refuse new requests and end flows (C12).
func TestAttackC12Expiry(t *testing.T) {
	p := policyOf(t, LayerUser, `{allow: [{host: example.com, until: "2026-11-20T13:00:00Z"}]}`)
	flow := Flow{Name: "example.com", Addr: netip.MustParseAddr("93.184.216.34"), Port: 443}
	end, ok := p.NextExpiry(noon)
	if d := p.Still(flow, end.Add(-time.Second)); !ok || !d.Allowed() {
		t.Error(d.Reason())
	}
	if d := p.Still(flow, end); d.Allowed() || !strings.Contains(d.Reason(), "ended") {
		t.Error(d.Reason())
	}
}

// TestAttackTerminalText checks a project that puts control characters into text that users read.
func TestAttackTerminalText(t *testing.T) {
	for _, why := range []string{"\x1b[2J", "a\nb", "\u202egnp.exe", "a\x00", strings.Repeat("x", 301), "\xff"} {
		r := rule(t, Allow, "example.com")
		r.Why = why
		if err := r.Check(); err == nil {
			t.Errorf("why may be %q", why)
		}
	}
	p := policyOf(t, LayerUser, `{allow: [{host: example.com, methods: [GET]}]}`)
	for _, q := range []Query{
		{Stage: StageConnect, Name: "\x1b[2Jevil", Port: 443, Now: noon},
		{Stage: StageRequest, Name: "example.com", Port: 443, Now: noon, Request: &Request{Method: "\x1b[2J", Host: "example.com", Path: "/"}},
		{Stage: StageRequest, Name: "example.com", Port: 443, Now: noon, Request: &Request{Method: "GET", Host: "\x1b[2J", Path: "/"}},
		{Stage: StageRequest, Name: "example.com", Port: 443, Now: noon, Request: &Request{Method: "POST", Host: "example.com", Path: "/%1b[2J\x1b"}},
		{Stage: StageRequest, Name: "example.com", Port: 443, Now: noon, Request: &Request{Method: "POST", Host: "example.com", Path: "/a%2f\xff", Upgrade: "\x1b"}},
		{Stage: StageRequest, Name: "example.com", Port: 443, Now: noon, Request: &Request{Method: "POST", Host: "example.com", Path: "/", Query: "\x1b"}},
	} {
		d := p.Decide(q)
		x := p.Explain(q)
		s := d.Suggest()
		for _, text := range []string{d.Reason(), x.Target, s.Command("box"), s.Note} {
			if strings.ContainsFunc(text, notPrintable) {
				t.Errorf("%+v gives %q", q, text)
			}
		}
	}
}

// TestAttackB3OtherHost checks a request that some servers route to another host. It must
// not pass a rule with a path, query or method, because that rule was written for this
// host.
func TestAttackB3OtherHost(t *testing.T) {
	p := policyOf(t, LayerUser, `
allow:
  - {host: paths.example, paths: [/ok]}
  - {host: query.example, query: [a=b]}
  - {host: methods.example, methods: [GET]}
  - plain.example
  - denied.example
deny:
  - {host: denied.example, paths: [/admin]}
`)
	for host, want := range map[string]bool{
		"paths.example/ok": false, "query.example/?a=b": false, "denied.example/x": false, "methods.example/x": false, "plain.example/x": true,
	} {
		for name, value := range map[string]string{
			"X-Forwarded-Host": "other.example", "x_forwarded_host": "other.example", "X-Original-Host": "other.example",
			"X-HTTP-Host-Override": "other.example", "X-Host": "other.example", "X-Forwarded-Server": "other.example",
			"Forwarded": "for=10.0.0.1; Host=other.example", "forwarded": `for=a, proto=https;host="other.example"`,
		} {
			q := ask(t, "GET https://"+host)
			q.Request.Header = map[string][]string{name: {value}}
			if d := p.Decide(q); d.Allowed() != want {
				t.Errorf("%s with %s: %s", host, name, d.Reason())
			}
		}
		q := ask(t, "GET https://"+host)
		q.Request.Header = map[string][]string{"Forwarded": {"for=10.0.0.1;proto=https"}, "X-Forwarded-For": {"10.0.0.1"}}
		if d := p.Decide(q); !d.Allowed() {
			t.Errorf("%s, forwarded by a proxy: %s", host, d.Reason())
		}
	}
}

// TestAttackPathReadings checks paths that servers read differently. If one server reads
// the path as a denied one, it is denied. If one server reads other segments, it matches no
// allowed path.
func TestAttackPathReadings(t *testing.T) {
	p := policyOf(t, LayerUser, `
allow:
  - denied.example
  - {host: allowed.example, paths: ["/files/*"]}
deny:
  - {host: denied.example, paths: ["/admin/**", "/old.txt"]}
`)
	for _, path := range []string{
		"/admin", "/admin.", "/admin...", "/admin%20", "/admin.%20.", "/admin%c2%a0", "/admin%e3%80%80", "/admin%e2%80%8b", "/ad%c2%admin",
		"/ADMIN", "/%ef%bd%81dmin", "/adm%c4%b1n", "/admin;x", "/admin;x.", "/admin.;x", "/admin::$DATA", "/admin:$I30:$INDEX_ALLOCATION", "/admin%3a%3a$data",
		"/admin./x", "/admin%20/x", "/admin%c2%a0/x/y", "/Admin/x.", "//admin", "/./admin", "/x/../admin", "/x/..;/admin", "/admin%2fx", "/admin%5cx",
		"/%2561dmin", "/%c1%a1dmin", "/x/...%c2%a0/admin", "/OLD.TXT.", "/old.txt%20", "/old.txt::$DATA", "/old%ef%bc%8etxt",
	} {
		if d := p.Decide(ask(t, "GET https://denied.example"+path)); d.Allowed() {
			t.Errorf("%s passes", path)
		}
	}
	for _, path := range []string{"/", "/admins", "/administration", "/x/admin", "/old.txt.bak", "/v1/models/gemini:generate", "/admi%C3%B1"} {
		if d := p.Decide(ask(t, "GET https://denied.example"+path)); !d.Allowed() {
			t.Errorf("%s: %s", path, d.Reason())
		}
	}
	for _, path := range []string{"/files/...", "/files/%20", "/files/%c2%a0", "/files/.%20", "/files/..%e2%80%8b", "/files/%e2%80%8b;x"} {
		if d := p.Decide(ask(t, "GET https://allowed.example"+path)); d.Allowed() {
			t.Errorf("%s passes", path)
		}
	}
	for _, path := range []string{"/files/a", "/files/a.b", "/files/.a", "/files/%C3%A4", "/files/a%20b"} {
		if d := p.Decide(ask(t, "GET https://allowed.example"+path)); !d.Allowed() {
			t.Errorf("%s: %s", path, d.Reason())
		}
	}
}

// TestAttackA11Fronting checks a request for another name than its connection's, which is allowed (A11).
func TestAttackA11Fronting(t *testing.T) {
	p := policyOf(t, LayerUser, `{allow: [example.com, evil.example]}`)
	for host, want := range map[string]bool{
		"example.com": true, "example.com:443": true, "EXAMPLE.com": true, "example.com.": true,
		"evil.example": false, "example.com:80": false, "example.com:0443": false, "example.com:": false, "": false, "example.com@evil.example": false,
		"evil.example:443": false, "example.com evil.example": false, "example.com,evil.example": false, "[example.com]": false, "93.184.216.34": false,
		"example.com/": false, "example.com\x00": false, "a.example.com": false, "xample.com": false,
	} {
		q := ask(t, "GET https://example.com/")
		q.Request.Host = host
		if d := p.Decide(q); d.Allowed() != want || !want && d.Cause != CauseAuthority {
			t.Errorf("host %q: %s %s", host, d.Action, d.Reason())
		}
	}
}

// TestAttackA5NoRules checks that a policy without rules allows nothing (A5).
func TestAttackA5NoRules(t *testing.T) {
	expect(t, compile(t, Input{LayerUser, Block{}}), "-connect example.com:443", "-lookup example.com")
}
