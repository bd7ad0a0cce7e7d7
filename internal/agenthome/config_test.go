package agenthome

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/credential/credentialtest"
	"github.com/bothy-dev/bothy/spec"
)

// TestServersElsewhere checks that an agent's MCP servers are read where its own variables put them.
func TestServersElsewhere(t *testing.T) {
	const open = `{"%":{"mine":{"command":"x"}}}`
	for name, c := range map[string]struct{ variable, file, text string }{
		"claude":   {"CLAUDE_CONFIG_DIR", ".claude.json", strings.ReplaceAll(open, "%", "mcpServers")},
		"codex":    {"CODEX_HOME", "config.toml", "[mcp_servers.mine]\ncommand = \"x\"\n"},
		"gemini":   {"GEMINI_CLI_HOME", ".gemini/settings.json", strings.ReplaceAll(open, "%", "mcpServers")},
		"copilot":  {"COPILOT_HOME", "mcp-config.json", strings.ReplaceAll(open, "%", "mcpServers")},
		"opencode": {"XDG_CONFIG_HOME", "opencode/opencode.json", `{"mcp":{"mine":{"type":"local","command":["x"]}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			h, said := signedIn(t)
			sb := &spec.Sandbox{Agent: name, Config: true}
			if got := h.servers(sb); len(got) != 0 || len(*said) != 0 {
				t.Fatalf("before there is any: %v, said %q", got, *said)
			}
			t.Setenv(c.variable, filepath.Join(os.Getenv("HOME"), "elsewhere"))
			credentialtest.PutHome(t, "elsewhere/"+c.file, c.text, 0o600)
			if got := h.servers(sb); len(got) != 1 || len(*said) != 0 {
				t.Errorf("%v, said %q", got, *said)
			}
			credentialtest.PutHome(t, "elsewhere/"+c.file, "[", 0o600)
			if got := h.servers(sb); len(got) != 0 || !slices.ContainsFunc(*said, func(s string) bool { return strings.Contains(s, "~/elsewhere/"+c.file+" are not brought in") }) {
				t.Errorf("%v, said %q", got, *said)
			}
		})
	}
}

// TestServersOfProject checks that an agent's servers for a project are found by the host's directory of
// the project, whatever its path inside, or by that of its repository.
func TestServersOfProject(t *testing.T) {
	h, said := signedIn(t)
	work := t.TempDir()
	repository := filepath.Join(work, "repository")
	for _, dir := range []string{"plain/below", "repository/.git", "repository/below"} {
		if err := os.MkdirAll(filepath.Join(work, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	credentialtest.PutHome(t, ".claude.json", `{"projects":{
		"`+work+`/plain":{"mcpServers":{"plain":{"command":"x"}}},
		"`+repository+`":{"mcpServers":{"repository":{"command":"x"}}}}}`, 0o600)
	for name, c := range map[string]struct{ source, workdir, want string }{
		"its own":                {"plain", "", "plain"},
		"one below":              {"plain/below", "", ""},
		"a repository":           {"repository", "", "repository"},
		"a part of one":          {"repository/below", "", "repository"},
		"one that it begins in":  {"repository", "/inside/below", "repository"},
		"one that it begins at":  {"", "/inside/plain", "plain"},
		"nothing of the host's":  {"plain", "/elsewhere", ""},
		"another with its begin": {"plain", "/insideplain", ""},
	} {
		t.Run(name, func(t *testing.T) {
			sb := &spec.Sandbox{Agent: "claude", Config: true, Workdir: c.workdir, Workspaces: []spec.Mount{{Source: filepath.Join(work, c.source), Target: "/inside"}}}
			if got := slices.Sorted(maps.Keys(h.servers(sb))); strings.Join(got, " ") != c.want || len(*said) != 0 {
				t.Errorf("%v, said %q", got, *said)
			}
		})
	}
}

// TestConfigElsewhere checks that an agent's instructions are also read from the directory that the
// variable names, and not from another agent's, and that links are not followed.
func TestConfigElsewhere(t *testing.T) {
	for name, c := range map[string]struct{ variable, file, inside string }{
		"claude":   {"CLAUDE_CONFIG_DIR", "CLAUDE.md", ".claude/CLAUDE.md"},
		"codex":    {"CODEX_HOME", "AGENTS.md", ".codex/AGENTS.md"},
		"gemini":   {"GEMINI_CLI_HOME", ".gemini/GEMINI.md", ".gemini/GEMINI.md"},
		"copilot":  {"COPILOT_HOME", "copilot-instructions.md", ".copilot/copilot-instructions.md"},
		"opencode": {"XDG_CONFIG_HOME", "opencode/AGENTS.md", ".config/opencode/AGENTS.md"},
	} {
		t.Run(name, func(t *testing.T) {
			h, said := signedIn(t)
			home := os.Getenv("HOME")
			sb := &spec.Sandbox{Agent: name, Config: true}
			credentialtest.PutHome(t, c.inside, "as usual", 0o600)
			for dir, source := range map[string]string{
				"":                               filepath.Join(home, c.inside),
				filepath.Join(home, "elsewhere"): filepath.Join(home, "elsewhere", c.file),
			} {
				t.Setenv(c.variable, dir)
				credentialtest.PutHome(t, "elsewhere/"+c.file, "otherwise", 0o600)
				got := h.Config(sb, "/home/agent")
				if len(got) != 1 || got[0].Source != source || got[0].Target != "/home/agent/"+c.inside || !got[0].ReadOnly || len(*said) != 0 {
					t.Errorf("with %q: %+v, said %q", dir, got, *said)
				}
			}
			must(t, os.Symlink("elsewhere", filepath.Join(home, "link")))
			t.Setenv(c.variable, filepath.Join(home, "link"))
			if got := h.Config(sb, "/home/agent"); len(got) != 0 || len(*said) != 1 || !strings.Contains((*said)[0], "~/link/"+c.file+" is not brought into") {
				t.Errorf("behind a link: %+v, said %q", got, *said)
			}
		})
	}
}
