package risk

import (
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/review/beneath"
)

func TestFlags(t *testing.T) {
	file := beneath.Entry{Form: beneath.File, Mode: 0o644}
	for path, want := range map[string]string{
		"main.go": "", "src/readme.txt": "", "make/file": "", "mygit/config": "", "a.git": "", "head/x": "", "overhead": "", "docs/agents/x": "",
		"Makefile": "make", "sub/makefile": "make", "x.mk": "make", "package.json": "npm", "a/b/package.json": "npm",
		".git/hooks/pre-commit": "git runs", ".git/config": "git runs", ".git/info/attributes": "git runs", "sub/.git/config": "git runs",
		".GIT/Config": "git runs", ".git": "git takes", "vendor/x/.git": "git takes", ".git/modules/x/config": "git runs",
		".git/objects/info/alternates": "git runs", ".git/objects/ab/cd": "what git keeps", ".git/index": "what git keeps", ".git/HEAD": "what git keeps",
		".git/commondir": "git runs", ".git/config.worktree": "git runs", ".git/worktrees/x/gitdir": "git runs",
		".gitattributes": "git runs", "sub/.gitmodules": "git fetches", ".github/workflows/ci.yml": "CI", "x/.github/workflows/a/b": "CI",
		".envrc": "direnv", ".vscode/tasks.json": "editor", ".claude/settings.json": "agents", "CLAUDE.md": "agents", "sub/AGENTS.md": "agents",
		".mcp.json": "agents", ".cursor/rules/x": "agents", ".npmrc": "npm", ".cargo/config.toml": "cargo", "build.rs": "cargo",
		".pre-commit-config.yaml": "pre-commit", "Dockerfile": "docker", "Dockerfile.dev": "docker", ".devcontainer/devcontainer.json": "editor",
		"run.sh": "script", "setup.py": "pip", "node_modules/x/index.js": "programs", "docker-compose.override.yml": "docker", "vite.config.ts": "tools",
		"HEAD": "git takes", "sub/HEAD": "git takes", "bare.git/config": "git runs", "x/Bare.GIT/hooks/update": "git runs",
		"__pycache__/main.cpython-313.pyc": "python", "a.pyc": "python", "lib/x.so": "program", "a.node": "node", "x.JAR": "java",
		"yarn.lock": "yarn", "pnpm-lock.yaml": "pnpm", "requirements-dev.txt": "pip", "main.tf.json": "terraform",
		"App.csproj": "msbuild", "Directory.Build.props": "msbuild", "x.targets": "msbuild", "NuGet.Config": "nuget",
		".pylintrc": "pylint", "pylintrc": "pylint", ".prettierrc.js": "prettier", "mise.local.toml": "mise", ".mise.dev.toml": "mise",
		"x.sublime-project": "editor", ".helix/config.toml": "editor", ".bash_aliases": "shell", ".bash_login": "shell",
		"BUILD": "bazel", "x/WORKSPACE": "bazel", "build/x": "", "workspace/x": "", "go.mod": "go fetches", "x/go.work": "go fetches", "SConstruct": "scons", "src/SConscript": "scons",
		"wscript": "waf", "Earthfile": "earthly", "gradle.properties": "gradle", "Cargo.lock": "cargo", "Gemfile.lock": "bundler", ".irbrc": "irb", ".pryrc": "pry",
		"pytest.ini": "pytest", "Pipfile": "pipenv", "Pipfile.lock": "pipenv", "poetry.lock": "poetry", "uv.lock": "uv", "devbox.json": "devbox", "composer.lock": "composer",
		"bun.lock": "bun", "bun.lockb": "bun", ".mocharc.yml": "mocha", ".stylelintrc.json": "stylelint", ".lintstagedrc": "lint-staged", "turbo.json": "turbo", "nx.json": "nx",
		".config/mise/config.toml": "mise", ".config/mise/conf.d/x.toml": "mise", ".config/mise.toml": "mise", ".python-version": "version manager", ".node-version": "version manager",
		".ruby-version": "version manager", ".nvmrc": "version manager", ".tool-versions": "version manager",
		".hg/hgrc": "hg runs", ".hg/store/x": "", ".jj/repo/config.toml": "jj runs", "lefthook-local.yml": "hooks", ".lefthook.yml": "hooks", "lefthook.toml": "hooks", ".huskyrc": "hooks",
		".simple-git-hooks.json": "hooks", ".overcommit.yml": "hooks", ".config/git/config": "git", ".Rprofile": "R runs", ".ghci": "ghci", ".ocamlinit": "ocaml", ".iex.exs": "iex", ".pdbrc": "pdb",
		".dir-locals-2.el": "editor", ".lvimrc": "editor", ".mise/config.toml": "mise", "mise/config.toml": "mise", "mise/x.go": "", ".sdkmanrc": "version manager", ".appveyor.yml": "CI", ".cirrus.yml": "CI",
		"cloudbuild.yaml": "CI", "buildspec.yml": "CI", ".semaphore/x.yml": "CI", ".teamcity/settings.kts": "CI", ".build.yml": "CI", ".builds/x.yml": "CI", ".clinerules/x.md": "agents", ".clinerules": "agents",
		".github/hooks/x.json": "agents", ".github/agents/x.md": "agents", "crush.json": "agents", ".qwen/settings.json": "agents", "QWEN.md": "agents", "AGENTS.override.md": "agents", ".goosehints": "agents",
		"libssl.so.3": "program", "x.dll": "program", "x.dylib": "program", "x.pyd": "python", "x.class": "java", "ansible.cfg": "ansible", "mypy.ini": "mypy", ".coveragerc": "coverage", "uv.toml": "uv",
		".rspec": "rspec", ".rubocop.yml": "rubocop", "babel.config.json": "babel", ".commitlintrc.js": "commitlint", "karma.conf.js": "tools", ".golangci.yml": "golangci", "config.nims": "nim",
		"rebar.config": "rebar", ".formatter.exs": "mix", "classes/x": "", "also.so": "program", "so.txt": "",
		".zprofile": "shell", ".zlogin": "shell", ".kiro/x": "agents", ".roo/x": "agents", ".agents/x": "agents",
	} {
		got := flagsOf(Case{Path: path, New: file})
		if (want == "") != (len(got) == 0) || want != "" && !strings.Contains(got[0].Why, want) {
			t.Errorf("%s: %v, want %q", path, got, want)
		}
	}
	kept := flagsOf(Case{Path: ".git/refs/heads/main", New: file})
	if len(kept) != 1 || !kept[0].Git {
		t.Errorf("%v", kept)
	}
	for _, path := range []string{".git/objects", ".git/objects/info"} {
		led := flagsOf(Case{Path: path, Old: beneath.Entry{Form: beneath.Directory}, New: beneath.Entry{Form: beneath.Link, Target: "x"}})
		if len(led) != 1 || led[0].Git {
			t.Errorf("%s as a link: %v", path, led)
		}
	}
	for _, tt := range []struct {
		name   string
		c      Case
		script bool
		want   bool
	}{
		{"an executable", Case{Path: "x", New: beneath.Entry{Form: beneath.File, Mode: 0o755}}, false, true},
		{"it became executable", Case{Path: "x", SameContent: true, Old: file, New: beneath.Entry{Form: beneath.File, Mode: 0o755}}, false, true},
		{"it is none any more", Case{Path: "x", SameContent: true, Old: beneath.Entry{Form: beneath.File, Mode: 0o755}, New: file}, true, false},
		{"it is executable on the host", Case{Path: "x", Old: beneath.Entry{Form: beneath.File, Mode: 0o755}, New: file}, false, true},
		{"a script", Case{Path: "x", New: file}, true, true},
		{"deleted", Case{Path: "Makefile", Old: file}, false, false},
		{"a hook deleted", Case{Path: ".git/hooks/x", Old: file}, false, true},
		{"what bounds sandboxes deleted", Case{Path: "bothy.yaml", Old: file}, false, true},
		{"pinned versions deleted", Case{Path: "web/package-lock.json", Old: file}, false, true},
		{"settings deleted", Case{Path: ".npmrc", Old: file}, false, true},
		{"settings in a directory deleted", Case{Path: ".cargo/config.toml", Old: file}, false, true},
		{"a link that has workflows", Case{Path: ".github", New: beneath.Entry{Form: beneath.Link, Target: "docs"}}, false, true},
		{"a link that has a wrapper", Case{Path: "sub/gradle", Old: beneath.Entry{Form: beneath.Directory}, New: beneath.Entry{Form: beneath.Link, Target: "g"}}, false, true},
		{"a link that is a repository", Case{Path: "x.git", New: beneath.Entry{Form: beneath.Link, Target: "y"}}, false, true},
		{"a file of that name", Case{Path: "gradle", New: file}, false, false},
		{"a link within", Case{Path: "a/b", New: beneath.Entry{Form: beneath.Link, Target: "../c"}}, false, false},
		{"a link out", Case{Path: "a/b", New: beneath.Entry{Form: beneath.Link, Target: "../../c"}}, false, true},
		{"a link to the top", Case{Path: "a", New: beneath.Entry{Form: beneath.Link, Target: "."}}, false, false},
		{"a link above", Case{Path: "a", New: beneath.Entry{Form: beneath.Link, Target: ".."}}, false, true},
		{"an absolute link", Case{Path: "a", New: beneath.Entry{Form: beneath.Link, Target: "/etc"}}, false, true},
		{"a link by way of another", Case{Path: "a", New: beneath.Entry{Form: beneath.Link, Target: "b/../c"}}, false, true},
		{"a link with dots in names", Case{Path: "a/b/c", New: beneath.Entry{Form: beneath.Link, Target: ".././..//..x/y"}}, false, false},
		{"a directory that others can write to", Case{Path: "x", SameContent: true, Old: beneath.Entry{Form: beneath.Directory, Mode: 0o755}, New: beneath.Entry{Form: beneath.Directory, Mode: 0o757}}, false, true},
		{"one that they could", Case{Path: "x", SameContent: true, Old: beneath.Entry{Form: beneath.Directory, Mode: 0o777}, New: beneath.Entry{Form: beneath.Directory, Mode: 0o722}}, false, false},
		{"a file that others can write to", Case{Path: "x", SameContent: true, Old: file, New: beneath.Entry{Form: beneath.File, Mode: 0o664}}, false, true},
		{"an empty directory", Case{Path: ".vscode", New: beneath.Entry{Form: beneath.Directory, Mode: 0o755}}, false, false},
	} {
		if tt.script {
			tt.c.NewHead = aScript
		}
		if got := flagsOf(tt.c); (len(got) > 0) != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}
