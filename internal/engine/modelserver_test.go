package engine

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/netrules"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/spec"
)

// TestBarredBeginning checks that opencode gets no model of its maker's if the rules keep the
// sandbox from the maker, and gets it if they do not.
func TestBarredBeginning(t *testing.T) {
	e, _, _ := signedIn(t)
	for _, open := range []bool{false, true} {
		sb := wish(t.TempDir())
		sb.Name, sb.Agent = "opencode", "opencode"
		var rules policy.Block
		if open {
			r, err := policy.ParseRule(policy.Allow, "opencode.ai:443")
			must(t, err)
			rules.Allow = append(rules.Allow, r)
		}
		must(t, e.Create(t.Context(), sb, netrules.First(rules)))
		must(t, e.Homes().Furnish(sb))
		text, _ := os.ReadFile(filepath.Join(e.Store.Sandbox(sb.ID).Home(), ".config/opencode/opencode.json"))
		if off := strings.Contains(string(text), `"disabled_providers":["opencode"]`); off == open {
			t.Errorf("its host allowed: %v; %s", open, text)
		}
		must(t, e.Remove(t.Context(), sb, true))
	}
}

// TestServerInHome checks that a home names the sandbox's model server to its agent at every start,
// and a model if the user named one.
func TestServerInHome(t *testing.T) {
	e, _, _ := signedIn(t)
	for _, tt := range []struct{ agent, model, file, has, hasNot string }{
		{"codex", "", ".codex/config.toml", `base_url = "http://host.bothy:4000/v1"`, "\nmodel = "},
		{"codex", "m", ".codex/config.toml", `model = "m"`, "placeholder"},
		{"opencode", "m", ".config/opencode/opencode.json", `"baseURL":"http://host.bothy:4000/v1"`, "disabled_providers"},
		{"gemini", "", ".gemini/settings.json", `"gemini-api-key"`, "oauth"},
		{"claude", "", ".claude.json", `"hasCompletedOnboarding":true`, "customApiKeyResponses"},
	} {
		sb := wish(t.TempDir())
		sb.Name, sb.Agent = tt.agent, tt.agent
		s, err := spec.NewModelServer("http://localhost:4000", "", tt.model)
		must(t, err)
		of, err := e.Agents.Find(tt.agent)
		must(t, err)
		var rules policy.Block
		must(t, netrules.Serve(sb, of, s, &rules))
		must(t, e.Create(t.Context(), sb, netrules.First(rules)))
		must(t, e.Homes().Furnish(sb))
		must(t, e.Homes().Refurnish(sb))
		text, err := os.ReadFile(filepath.Join(e.Store.Sandbox(sb.ID).Home(), tt.file))
		if err != nil || !strings.Contains(string(text), tt.has) || strings.Contains(string(text), tt.hasNot) {
			t.Errorf("%s: %s, %v", tt.agent, text, err)
		}
		if !slices.Contains(sb.HostPorts, 4000) || len(rules.Allow) > 0 {
			t.Errorf("%s: open are %v, %v", tt.agent, sb.HostPorts, rules.Allow)
		}
		must(t, e.Remove(t.Context(), sb, true))
	}
}
