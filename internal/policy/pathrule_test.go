package policy

import "testing"

// TestPathPatternDenies checks that a deny rule is read broadly: a path that some server
// takes for the denied path is denied.
func TestPathPatternDenies(t *testing.T) {
	tests := []struct {
		pattern string
		yes, no []string
	}{
		{"/admin", []string{"/admin", "/ADMIN", "/Admin/", "/admin;x=y", "/admin;a/", "/%61dmin"}, []string{"/admin/x", "/admins", "/"}},
		{"/admin/", []string{"/admin", "/admin/"}, []string{"/admin/x"}},
		{"/admin/**", []string{"/admin", "/admin/", "/admin/x", "/ADMIN/x/y", "/admin;x/y"}, []string{"/admins", "/x/admin"}},
		{"/*/keys", []string{"/acme/keys", "/acme/KEYS/", "/acme;x/keys"}, []string{"/keys", "/a/b/keys"}},
		{"/", []string{"/"}, []string{"/a"}},
	}
	for _, tt := range tests {
		r := rule(t, Deny, "example.com")
		r.HTTP.Paths = []string{tt.pattern}
		p := compile(t, Input{LayerUser, Block{Default: Allow, Deny: []Rule{r}}})
		for want, list := range map[Action][]string{Deny: tt.yes, Allow: tt.no} {
			for _, s := range list {
				d := p.Decide(Query{Stage: StageRequest, Name: "example.com", Port: 443, Now: noon, Request: &Request{Method: "GET", Host: "example.com", Path: s}})
				if d.Action != want {
					t.Errorf("deny %s: %s is %s: %s", tt.pattern, s, d.Action, d.Reason())
				}
			}
		}
	}
}
