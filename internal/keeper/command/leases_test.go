package command

import (
	"slices"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

func lease(id string) spec.Lease {
	return spec.Lease{ID: id, Placeholder: "placeholder-" + id, Env: []string{"TOKEN_" + strings.ToUpper(id)}}
}

// TestPlaceholders checks that programs find leases in their variables, unless the user has set them.
func TestPlaceholders(t *testing.T) {
	m := preparing()
	m.Spec.Env = []string{"TOKEN_USER=theirs"}
	env := m.environment(m.Account, wire.Command{}, []spec.Lease{lease("a"), lease("user")}, false)
	for _, want := range []string{"TOKEN_A=placeholder-a", "TOKEN_USER=theirs"} {
		if !slices.Contains(env, want) {
			t.Errorf("%s is missing in %q", want, env)
		}
	}
	if s := strings.Join(env, " "); strings.Contains(s, "placeholder-user") {
		t.Errorf("too much in %q", env)
	}
}

// TestSettings checks that programs find leases in the variables that they read, besides the usual ones.
func TestSettings(t *testing.T) {
	m := preparing()
	one, two := lease("one"), lease("two")
	one.Settings = []spec.Setting{{Kind: spec.SettingVariable, Name: "INDEXES", Text: "https://{placeholder}@a"}, {Kind: spec.SettingGit, Name: "credential.https://a.helper", Text: "!{placeholder}"}, {Kind: spec.SettingNpm, Text: "x"}}
	two.Settings = []spec.Setting{{Kind: spec.SettingVariable, Name: "INDEXES", Text: "b https://{placeholder}@c"}, {Kind: spec.SettingGit, Name: "credential.https://c.helper", Text: "!{placeholder:base64}"}}
	env := m.environment(m.Account, wire.Command{}, []spec.Lease{one, two}, false)
	for _, want := range []string{
		"INDEXES=https://placeholder-one@a b https://placeholder-two@c",
		"GIT_CONFIG_COUNT=4", "GIT_CONFIG_KEY_0=core.checkStat", "GIT_CONFIG_VALUE_0=minimal",
		"GIT_CONFIG_KEY_2=credential.https://a.helper", "GIT_CONFIG_VALUE_2=!placeholder-one",
		"GIT_CONFIG_KEY_3=credential.https://c.helper", "GIT_CONFIG_VALUE_3=!cGxhY2Vob2xkZXItdHdv",
	} {
		if !slices.Contains(env, want) {
			t.Errorf("%s is missing in %q", want, env)
		}
	}
	env = m.environment(m.Account, wire.Command{}, []spec.Lease{two}, false)
	for _, want := range []string{"INDEXES=b https://placeholder-two@c", "GIT_CONFIG_COUNT=3"} {
		if !slices.Contains(env, want) {
			t.Errorf("with one lease %s is missing in %q", want, env)
		}
	}
}
