package lint

import (
	"slices"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/policy"
)

// TestLintGit checks that the linter names tunnels, and rules that let data go to anyone.
func TestLintGit(t *testing.T) {
	for rule, want := range map[string]Kind{
		`"github.com:22"`: KindTunnel,
		`"10.1.2.3:22"`:   KindTunnel,
		`{host: "github.com:22", git: [acme/app]}`:             "",
		`{host: "github.com:22", git: ["**"]}`:                 "",
		`{host: "github.com:22", git: [acme/app], push: true}`: "",
		`{host: "github.com:22", git: ["acme/*"], push: true}`: "",
		`{host: "github.com:22", git: ["*/*"], push: true}`:    KindWide,
		`{host: "github.com:22", git: ["**"], push: true}`:     KindWide,
		`{host: "github.com:22", methods: [GET], paths: [/x]}`: "",
		`{host: "github.com:22", inspect: true}`:               "",
		`"github.com:443"`:                                     "",
	} {
		found, err := Rules(time.Now(), policy.Input{Layer: policy.LayerUser, Block: blockOf(t, `{allow: [`+rule+`]}`)})
		if err != nil {
			t.Fatal(err)
		}
		kinds := []Kind{}
		for _, f := range found {
			kinds = append(kinds, f.Kind)
		}
		if want == "" && len(kinds) > 0 || want != "" && !slices.Equal(kinds, []Kind{want}) {
			t.Errorf("%s: %v", rule, found)
		}
	}
	found, err := Rules(time.Now(), policy.Input{Layer: policy.LayerUser, Block: blockOf(t, `{allow: ["github.com:22", {host: "github.com:22", git: [acme/app]}]}`)})
	if err != nil || !slices.ContainsFunc(found, func(f Finding) bool { return f.Kind == KindShadowed && len(f.Rule.HTTP.Git) > 0 }) {
		t.Errorf("a rule about git beside a tunnel: %v, %v", found, err)
	}
}
