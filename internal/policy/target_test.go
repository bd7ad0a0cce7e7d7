package policy

import "testing"

// TestAsks checks that at a literal address only deny rules judge the name in a
// ClientHello.
func TestAsks(t *testing.T) {
	p := policyOf(t, LayerUser, `{deny: ["**.evil.example", "a.example:443", {host: b.example, methods: [GET]}, {host: c.example, until: "2026-11-20T11:00:00Z"}]}`)
	none := policyOf(t, LayerUser, `{allow: [a.example]}`)
	for name, want := range map[string]bool{
		"x.evil.example": false, "X.Evil.Example.": false, "a.example": false, "b.example": false, "no name": false,
		"evil.example": true, "c.example": true, "d.example": true, "localhost": true,
	} {
		if d := p.Asks(name, 443, noon); d.Allowed() != want {
			t.Errorf("%s: %s", name, d.Reason())
		}
		if d := none.Asks(name, 443, noon); !d.Allowed() {
			t.Errorf("%s, where nothing is denied: %s", name, d.Reason())
		}
	}
	if d := p.Asks("a.example", 8443, noon); !d.Allowed() {
		t.Errorf("at another port: %s", d.Reason())
	}
	for yaml, want := range map[string]bool{
		`{deny: [10.0.0.0/8]}`: true, `{deny: ["a.example:8443"]}`: true, `{deny: [{host: a.example, until: "2026-11-20T11:00:00Z"}]}`: true,
		`{deny: [a.example]}`: false, `{deny: ["*.a.example"]}`: false, `{deny: [10.0.0.0/8, "**.a.example:443"]}`: false, `{deny: ["**"]}`: false,
	} {
		if d := policyOf(t, LayerUser, yaml).Asks("no name", 443, noon); d.Allowed() != want {
			t.Errorf("a name that is none, by %s: %s", yaml, d.Reason())
		}
	}
}
