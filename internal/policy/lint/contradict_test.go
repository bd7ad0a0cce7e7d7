package lint

import (
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/policy"
)

// TestAttackA21ContradictionsAreTold checks that an allow rule within a deny rule is reported when it is
// written, whatever their layers and their order (A21).
func TestAttackA21ContradictionsAreTold(t *testing.T) {
	for _, tt := range []struct {
		user, sandbox string
		want          []string
	}{
		{`{deny: ["**.example.com"]}`, `{allow: [api.example.com, "api.example.com:443", example.com]}`, []string{"api.example.com", "api.example.com:443"}},
		{`{allow: [api.example.com]}`, `{deny: ["*.example.com"]}`, []string{"api.example.com"}},
		{`{presets: [none]}`, `{allow: [10.0.0.0/8, "**"]}`, []string{"10.0.0.0/8", "**"}},
		{`{deny: ["api.example.com:443"]}`, `{allow: [api.example.com]}`, nil},
		{`{deny: [{host: api.example.com, methods: [POST]}]}`, `{allow: [api.example.com]}`, nil},
		{`{deny: [{host: api.example.com, until: 2001-01-01T00:00:00Z}]}`, `{allow: [api.example.com]}`, nil},
		{`{deny: [registry.npmjs.org]}`, `{presets: [npm]}`, nil},
	} {
		found, err := Contradictions(noon, policy.Input{Layer: policy.LayerUser, Block: blockOf(t, tt.user)}, policy.Input{Layer: policy.LayerSandbox, Block: blockOf(t, tt.sandbox)})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range found {
			got = append(got, c.Allow.Target.String())
			if s := c.String(); !strings.Contains(s, "never counts") || !strings.Contains(s, c.Deny.Target.String()) {
				t.Errorf("it is told as %q", s)
			}
		}
		if strings.Join(got, " ") != strings.Join(tt.want, " ") {
			t.Errorf("%s and %s: %q, want %q", tt.user, tt.sandbox, got, tt.want)
		}
	}
}
