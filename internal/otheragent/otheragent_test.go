package otheragent

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/modelmock"
	"github.com/bothy-dev/bothy/internal/netrules"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/spec"
)

// TestRulesFor checks that the rules for one agent are replaced by those for another, and that the
// user's own rules stay.
func TestRulesFor(t *testing.T) {
	e := newEngine(t)
	worker, other := &spec.Agent{Presets: []string{"claude", "npm"}, Allow: []string{"worker.example"}}, &spec.Agent{Presets: []string{"codex", "debian"}, Allow: []string{"other.example"}}
	for _, tt := range []struct{ own, want, allow []string }{
		{[]string{"claude", "npm", "debian"}, []string{"debian", "codex"}, []string{"a.example", "other.example"}},
		{nil, []string{"codex", "debian"}, []string{"other.example"}},
		{[]string{"none"}, []string{"none"}, []string{"a.example"}},
	} {
		b := policy.Block{Default: policy.Deny, Presets: tt.own}
		if tt.own != nil {
			b.Allow, b.Deny = []policy.Rule{rule(t, policy.Allow, "a.example"), rule(t, policy.Allow, "worker.example")}, []policy.Rule{rule(t, policy.Deny, "b.example")}
		}
		sb := wish(t.TempDir())
		must(t, e.Create(t.Context(), sb, netrules.First(b)))
		got, err := rulesFor(e, sb, worker, other)
		must(t, err)
		var allow []string
		for _, r := range got.Allow {
			allow = append(allow, r.Target.String())
		}
		if !slices.Equal(got.Presets, tt.want) || got.Default != policy.Deny || !slices.Equal(allow, tt.allow) || len(got.Deny) != len(b.Deny) {
			t.Errorf("of %v comes %+v", tt.own, got)
		}
	}
}

// TestOfAgent checks that ofAgent returns the variables that a sandbox has for its agent, and no
// other.
func TestOfAgent(t *testing.T) {
	worker := &spec.Agent{Env: map[string]string{"A": "1", "B": "2"}, Credentials: []string{"groq"}}
	m, err := modelmock.Like(&spec.Sandbox{Mock: &spec.Mock{Script: "/script"}}, worker)
	must(t, err)
	sb := &spec.Sandbox{Env: []string{"A=1", "B=2", "A=3", "MINE=1"}}
	m.Apply(sb)
	if len(sb.Env) < 5 {
		t.Fatalf("it has no key: %v", sb.Env)
	}
	if got := without(sb.Env, ofAgent(sb, worker)); !slices.Equal(got, []string{"A=3", "MINE=1"}) {
		t.Errorf("left are %v", got)
	}
	played, err := modelmock.Like(sb, &spec.Agent{Credentials: []string{"anthropic"}})
	must(t, err)
	if played.Keys["anthropic"] == "" || played.Keys["groq"] != "" || played.Script != "/script" {
		t.Errorf("it is played by %+v", played)
	}
	if none, err := modelmock.Like(&spec.Sandbox{}, worker); none != nil || err != nil {
		t.Errorf("without a mock it is %v, %v", none, err)
	}
}

// TestMockTells checks that agents get the settings that they need when a script plays their provider.
// Claude Code holds its tools back until they are searched for; then a script could not ask for them by
// name.
func TestMockTells(t *testing.T) {
	e := newEngine(t)
	e.Agents = agent.NewCatalog("")
	claude, err := e.Agents.Find("claude")
	must(t, err)
	paths, err := e.Paths()
	must(t, err)
	script := filepath.Join(t.TempDir(), "script.yaml")
	must(t, os.WriteFile(script, []byte("turns: [{text: hello}]\n"), 0o600))
	own := &spec.Agent{Name: "tool", Title: "Tool", Credentials: []string{"openai"}, Mock: &spec.AgentMock{Env: map[string]string{"KEY": "{key}"}}}
	for want, a := range map[string]*spec.Agent{"ENABLE_TOOL_SEARCH=false": claude, "KEY=sk-": own} {
		m, err := modelmock.Read(paths, script, a)
		must(t, err)
		sb := wish(t.TempDir())
		sb.Agent = a.Name
		m.Apply(sb)
		has := func(env []string) bool {
			return slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, want) })
		}
		if !has(sb.Env) || !has(ofAgent(sb, a)) {
			t.Errorf("%s is not among %q, %q", want, sb.Env, ofAgent(sb, a))
		}
		sb.Mock = nil
		if has(ofAgent(sb, a)) {
			t.Errorf("%s is set without a mock", want)
		}
	}
}
