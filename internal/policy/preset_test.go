package policy

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

// presetHosts returns the hosts that a preset allows.
func presetHosts(t *testing.T, name string) []string {
	t.Helper()
	p, err := FindPreset(name)
	if err != nil {
		t.Fatal(err)
	}
	var hosts []string
	for _, r := range p.Block.Allow {
		if !slices.Contains(hosts, r.Target.Name) {
			hosts = append(hosts, r.Target.Name)
		}
	}
	return hosts
}

func TestPresets(t *testing.T) {
	want := []string{"ai-dev-kit", "anthropic", "cargo", "claude", "codex", "copilot", "cursor", "debian", "gemini", "github-read", "github-write", "go", "google", "jetbrains", "none", "npm", "open", "openai", "opencode", "openrouter", "pypi", "vscode", "zed"}
	if got := PresetNames(); !slices.Equal(got, want) {
		t.Errorf("presets are %v", got)
	}
	for _, name := range want {
		p, err := FindPreset(name)
		if err != nil {
			t.Error(err)
			continue
		}
		if p.Name != name || p.About == "" {
			t.Errorf("preset %s: %+v", name, p)
		}
		for _, r := range slices.Concat(p.Block.Allow, p.Block.Deny) {
			if r.Why == "" || !r.Until.IsZero() {
				t.Errorf("preset %s: %s has no reason, or ends", name, &r)
			}
		}
		for _, l := range p.LeftOut {
			if l.Host == "" || l.Why == "" {
				t.Errorf("preset %s leaves out %+v", name, l)
			}
		}
		compile(t, Input{LayerUser, Block{Presets: []string{name}}})
	}
	if _, err := FindPreset("../none"); !errors.Is(err, spec.ErrNotFound) {
		t.Errorf("preset ../none: %v", err)
	}
}

// TestPresetsHaveNoTelemetry checks that no preset contains telemetry, except the one that
// copies a third party's whole list.
func TestPresetsHaveNoTelemetry(t *testing.T) {
	for _, name := range PresetNames() {
		if name == presetOpen || name == "ai-dev-kit" {
			continue
		}
		p := compile(t, Input{LayerSandbox, Block{Presets: []string{name}}})
		expect(t, p,
			"-lookup http-intake.logs.us5.datadoghq.com", "-lookup play.googleapis.com", "-lookup ab.chatgpt.com", "-lookup cdn.growthbook.io",
			"-lookup collector.github.com", "-lookup telemetry.individual.githubcopilot.com", "-lookup copilot-telemetry.githubusercontent.com", "-lookup default.exp-tas.com", "-lookup statsig.anthropic.com", "-lookup popcon.debian.org",
			"-POST https://api.anthropic.com/api/event_logging/batch",
		)
	}
}

// aiDevKit are the domains that ai-dev-kit's page whitelists, word for word.
const aiDevKit = `
| api.anthropic.com | Claude API |
| statsig.anthropic.com, statsig.com | Feature flags |
| sentry.io | Error reporting |
| *.npmjs.org, *.yarnpkg.com | npm/yarn packages |
| github.com, *.github.com | Git operations |
| *.githubusercontent.com | GitHub raw content |
`

// TestPresetAIDevKit checks that one preset has the whole list: each domain with any method and path,
// and no other domain.
func TestPresetAIDevKit(t *testing.T) {
	var want []string
	p := compile(t, Input{LayerSandbox, Block{Presets: []string{"ai-dev-kit"}}})
	for row := range strings.Lines(strings.TrimSpace(aiDevKit)) {
		for host := range strings.SplitSeq(strings.Split(row, "|")[1], ",") {
			host = strings.TrimSpace(host)
			want = append(want, host)
			host = strings.Replace(host, "*.", "any.", 1)
			expect(t, p, "+connect "+host+":443", "+DELETE https://"+host+"/any/path?any=query", "+lookup "+host, "-connect "+host+":80", "-connect "+host+":22", "-lookup "+host+".example")
		}
	}
	found, err := FindPreset("ai-dev-kit")
	if err != nil {
		t.Fatal(err)
	}
	var hosts []string
	for _, r := range found.Block.Allow {
		hosts = append(hosts, strings.TrimSuffix(r.Target.String(), ":443"))
	}
	if !slices.Equal(hosts, want) {
		t.Errorf("it allows %q, the list has %q", hosts, want)
	}
	expect(t, p, "-lookup api.openai.com", "-lookup claude.ai", "-lookup yarnpkg.com", "-lookup githubusercontent.com", "-lookup o1.ingest.sentry.io")
}

func TestPresetGitHub(t *testing.T) {
	read := compile(t, Input{LayerSandbox, Block{Presets: []string{"github-read"}}})
	clone := []string{
		"+GET https://github.com/acme/app/info/refs?service=git-upload-pack", "+GET https://github.com/acme/app.git/info/refs?service=git-upload-pack",
		"+POST https://github.com/acme/app.git/git-upload-pack", "+GET https://github.com/acme/app/archive/refs/tags/v1.tar.gz",
		"+GET https://codeload.github.com/acme/app/tar.gz/refs/tags/v1", "+GET https://github.com/acme/app/releases/download/v1/app.tar.gz",
		"+GET https://release-assets.githubusercontent.com/github-production-release-asset/1/x?sp=r", "+GET https://raw.githubusercontent.com/acme/app/main/README.md",
		"+GET https://api.github.com/repos/acme/app/pulls?state=all",
	}
	push := []string{
		"GET https://github.com/acme/app/info/refs?service=git-receive-pack", "POST https://github.com/acme/app/git-receive-pack",
		"POST https://api.github.com/repos/acme/app/issues", "DELETE https://api.github.com/repos/acme/app/git/refs/heads/x", "POST https://api.github.com/graphql",
	}
	never := []string{
		"-GET https://github.com/acme/app/info/refs", "-GET https://github.com/acme/app/info/refs?service=git-upload-pack&service=git-receive-pack",
		"-POST https://api.github.com/gists", "-POST https://api.github.com/user/repos", "-PUT https://gist.github.com/x", "-POST https://github.com/login",
		"-POST https://github.com/acme/app.git/info/lfs/objects/batch", "-POST https://uploads.github.com/repos/acme/app/releases/1/assets", "-connect github.com:22",
		"-POST https://github.com/acme/app/git-upload-pack/../git-receive-pack", "-POST https://github.com/a/b/c/git-receive-pack",
	}
	expect(t, read, clone...)
	expect(t, read, never...)
	write := compile(t, Input{LayerSandbox, Block{Presets: []string{"github-write"}}})
	expect(t, write, clone...)
	expect(t, write, never...)
	for _, q := range push {
		expect(t, read, "-"+q)
		expect(t, write, "+"+q)
	}
}

// TestPresetCopilot checks that the preset allows model requests, but not GitHub requests
// with the user's rights.
func TestPresetCopilot(t *testing.T) {
	p := compile(t, Input{LayerSandbox, Block{Presets: []string{"copilot"}}})
	expect(t, p,
		"+GET https://api.github.com/copilot_internal/user", "+GET https://api.individual.githubcopilot.com/models",
		"+POST https://api.business.githubcopilot.com/chat/completions", "+POST https://api.githubcopilot.com/responses",
		"-POST https://api.individual.githubcopilot.com/mcp", "-POST https://api.individual.githubcopilot.com/mcp/readonly",
		"-POST https://api.github.com/copilot_internal/user", "-GET https://api.github.com/user", "-POST https://api.github.com/graphql",
		"-lookup evil.githubcopilot.com", "-POST https://github.com/login/device/code",
	)
}
