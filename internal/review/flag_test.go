package review

import (
	"os"
	"strings"
	"testing"
)

func TestFlags(t *testing.T) {
	file := Entry{Form: File, Mode: 0o644}
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
		c := &Change{Path: path, Kind: Added, New: file}
		got := flagsOf(c, heads{})
		if (want == "") != (len(got) == 0) || want != "" && !strings.Contains(got[0].Why, want) {
			t.Errorf("%s: %v, want %q", path, got, want)
		}
	}
	kept := flagsOf(&Change{Path: ".git/refs/heads/main", Kind: Modified, New: file}, heads{})
	if len(kept) != 1 || !kept[0].Git {
		t.Errorf("%v", kept)
	}
	for path, want := range map[string]bool{
		".git/refs/heads/main": true, ".git/packed-refs": true, ".git/HEAD": true, "sub/.GIT/HEAD": true, ".git/worktrees/x/HEAD": true,
		".git/index": false, ".git/logs/HEAD": false, ".git/ORIG_HEAD": false, ".git/objects/ab/cd": false,
	} {
		c := Change{Path: path, Kind: Modified, New: file}
		if c.Flags = flagsOf(&c, heads{}); c.Matters() != want {
			t.Errorf("%s matters: %v", path, c.Matters())
		}
	}
	for _, path := range []string{".git/objects", ".git/objects/info"} {
		led := flagsOf(&Change{Path: path, Kind: Type, Old: Entry{Form: Directory}, New: Entry{Form: Link, Target: "x"}}, heads{})
		if len(led) != 1 || led[0].Git {
			t.Errorf("%s as a link: %v", path, led)
		}
	}
	for _, tt := range []struct {
		name   string
		c      Change
		script bool
		want   bool
	}{
		{"an executable", Change{Path: "x", Kind: Added, New: Entry{Form: File, Mode: 0o755}}, false, true},
		{"it became executable", Change{Path: "x", Kind: Mode, Old: file, New: Entry{Form: File, Mode: 0o755}}, false, true},
		{"it is none any more", Change{Path: "x", Kind: Mode, Old: Entry{Form: File, Mode: 0o755}, New: file}, true, false},
		{"it is executable on the host", Change{Path: "x", Kind: Modified, Old: Entry{Form: File, Mode: 0o755}, New: file}, false, true},
		{"a script", Change{Path: "x", Kind: Added, New: file}, true, true},
		{"deleted", Change{Path: "Makefile", Kind: Deleted, Old: file}, false, false},
		{"a hook deleted", Change{Path: ".git/hooks/x", Kind: Deleted, Old: file}, false, true},
		{"what bounds sandboxes deleted", Change{Path: "bothy.yaml", Kind: Deleted, Old: file}, false, true},
		{"pinned versions deleted", Change{Path: "web/package-lock.json", Kind: Deleted, Old: file}, false, true},
		{"settings deleted", Change{Path: ".npmrc", Kind: Deleted, Old: file}, false, true},
		{"settings in a directory deleted", Change{Path: ".cargo/config.toml", Kind: Deleted, Old: file}, false, true},
		{"a link that has workflows", Change{Path: ".github", Kind: Added, New: Entry{Form: Link, Target: "docs"}}, false, true},
		{"a link that has a wrapper", Change{Path: "sub/gradle", Kind: Type, Old: Entry{Form: Directory}, New: Entry{Form: Link, Target: "g"}}, false, true},
		{"a link that is a repository", Change{Path: "x.git", Kind: Added, New: Entry{Form: Link, Target: "y"}}, false, true},
		{"a file of that name", Change{Path: "gradle", Kind: Added, New: file}, false, false},
		{"a link within", Change{Path: "a/b", Kind: Added, New: Entry{Form: Link, Target: "../c"}}, false, false},
		{"a link out", Change{Path: "a/b", Kind: Added, New: Entry{Form: Link, Target: "../../c"}}, false, true},
		{"a link to the top", Change{Path: "a", Kind: Added, New: Entry{Form: Link, Target: "."}}, false, false},
		{"a link above", Change{Path: "a", Kind: Added, New: Entry{Form: Link, Target: ".."}}, false, true},
		{"an absolute link", Change{Path: "a", Kind: Added, New: Entry{Form: Link, Target: "/etc"}}, false, true},
		{"a link by way of another", Change{Path: "a", Kind: Added, New: Entry{Form: Link, Target: "b/../c"}}, false, true},
		{"a link with dots in names", Change{Path: "a/b/c", Kind: Added, New: Entry{Form: Link, Target: ".././..//..x/y"}}, false, false},
		{"a directory that others can write to", Change{Path: "x", Kind: Mode, Old: Entry{Form: Directory, Mode: 0o755}, New: Entry{Form: Directory, Mode: 0o757}}, false, true},
		{"one that they could", Change{Path: "x", Kind: Mode, Old: Entry{Form: Directory, Mode: 0o777}, New: Entry{Form: Directory, Mode: 0o722}}, false, false},
		{"a file that others can write to", Change{Path: "x", Kind: Mode, Old: file, New: Entry{Form: File, Mode: 0o664}}, false, true},
		{"an empty directory", Change{Path: ".vscode", Kind: Added, New: Entry{Form: Directory, Mode: 0o755}}, false, false},
	} {
		var head heads
		if tt.script {
			head.now = aScript
		}
		if got := flagsOf(&tt.c, head); (len(got) > 0) != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

// TestFlagsOfPart checks the flags when only a part of a file is applied: the host keeps the mode
// and the first line, so a part of an executable or a script of the host has a flag.
func TestFlagsOfPart(t *testing.T) {
	text := "#!/bin/sh\n" + strings.Repeat("# line\n", 20)
	p := fresh(t, map[string]string{"tool": text, "script": text, "plain": text[2:], "less": text})
	must(t, os.Chmod(p.path("tool"), 0o755))
	must(t, os.Chmod(p.path("less"), 0o755))
	pause()
	must(t, os.RemoveAll(p.w.Layer.record()))
	p.start()
	pause()
	p.inside(`for f in tool script plain; do sed -i 1d $f; echo echo evil >>$f; done; chmod 644 tool less`)
	for _, c := range p.wants("mode less\nmodified plain\nmodified script\nmodified tool\n") {
		if want := c.Path == "tool" || c.Path == "script"; want != (len(c.Flags) > 0) {
			t.Errorf("%s has the flags %v", c.Path, c.Flags)
		}
	}
}

// TestFlagsByBeginning checks that a program is recognized by its first bytes, under any name,
// and that a text is not taken for one.
func TestFlagsByBeginning(t *testing.T) {
	p := fresh(t, map[string]string{"host": "\x7fELF\x02host\n"})
	p.inside(`printf '\177ELF\002' >elf; printf 'MZ\220\000\003' >pe; printf '\317\372\355\376' >mac; printf '\312\376\272\276' >fat
		printf '#!/bin/sh\n' >script; printf 'MZ is a text\n' >text; printf 'x\177ELF' >late; printf 'M' >short; : >empty; echo x >host`)
	const compiled = "it begins as a compiled program does"
	for _, c := range p.changes() {
		want := map[string]string{
			"elf": compiled, "pe": compiled, "mac": compiled, "fat": compiled,
			"script": "it begins as a script does", "host": compiled + " on this host",
		}[c.Path]
		if got := reasonsOf(c); got != want {
			t.Errorf("%s: %q, want %q", c.Path, got, want)
		}
	}
}

func reasonsOf(c Change) string {
	var list []string
	for _, f := range c.Flags {
		list = append(list, f.Why)
	}
	return strings.Join(list, "; ")
}

// TestModeComesAlone checks that an apply of a new mode, which has no flags because the text was
// the same, brings neither another text nor a part of it.
func TestModeComesAlone(t *testing.T) {
	p := fresh(t, map[string]string{"tool": "#!/bin/sh\n# 1\n"})
	must(t, os.Chmod(p.path("tool"), 0o755))
	pause()
	must(t, os.RemoveAll(p.w.Layer.record()))
	p.start()
	pause()
	p.inside("chmod 700 tool; sed -i 's/^# 1/evil/' tool; truncate -s 14 tool")
	c := p.wants("modified tool\n")[0]
	c.Kind = Mode // as it was before the write through memory
	for _, tt := range []struct {
		pick Pick
		want Result
		mode os.FileMode
	}{{Only(0), Unmatched, 0o755}, {nil, Applied, 0o700}} {
		got := p.order([]Order{{Change: c, Pick: tt.pick}}, false)
		st, err := os.Stat(p.path("tool"))
		must(t, err)
		if now := p.get("tool"); got["tool"] != tt.want || now != "#!/bin/sh\n# 1\n" || st.Mode() != tt.mode {
			t.Errorf("%v, %q, %v", got, now, st.Mode())
		}
	}
}

func TestQuote(t *testing.T) {
	for path, want := range map[string]string{
		"plain": "plain", "with space": "with space", "naïve/日本": "naïve/日本", "a\nb": `"a\nb"`, "\x1b[2J": `"\033[2J"`, `q"u`: `"q\"u"`,
		`b\s`: `"b\\s"`, "bad\xff": `"bad\377"`, "rtl\u202e": `"rtl\342\200\256"`, "nbsp\u00a0": `"nbsp\302\240"`, "\ufffd": "\ufffd", "": `""`,
		"a\u3164": `"a\343\205\244"`, "a\ufe0f": `"a\357\270\217"`, "\u2764\ufe0f": "\u2764\ufe0f", "a\u2800": `"a\342\240\200"`,
	} {
		got := Quote(path)
		if got != want {
			t.Errorf("Quote(%q) = %s, want %s", path, got, want)
		}
		if back, err := Unquote(got); err != nil || back != path {
			t.Errorf("Unquote(%s) = %q, %v", got, back, err)
		}
	}
}

// TestShow checks that Show makes every character of a line visible.
func TestShow(t *testing.T) {
	for line, want := range map[string]string{
		"plain\r\n": "plain\r\n", "\tna\u00efve \u65e5\u672c\n": "\tna\u00efve \u65e5\u672c\n", "a\x1b[m\xff\n": `a\x1b[m\xff` + "\n", "a\u202eb": `a\u202eb`,
		"eval(\ufe00\ufe0f\U000e0100)": `eval(\ufe00\ufe0f\U000e0100)`, "x\u3164\u115f\u1160\uffa0\u034f\u2800\u2028": `x\u3164\u115f\u1160\uffa0\u034f\u2800\u2028`,
		"\u2764\ufe0f\ufe0f": "\u2764\ufe0f" + `\ufe0f`, "a\u3000b": "a\u3000b",
	} {
		if got := Show(line); got != want {
			t.Errorf("Show(%q) = %q, want %q", line, got, want)
		}
	}
}

func FuzzQuote(f *testing.F) {
	f.Add("a\x00b\xff\u202e\"\\")
	f.Fuzz(func(t *testing.T, path string) {
		q := Quote(path)
		if back, err := Unquote(q); err != nil || back != path {
			t.Fatalf("%q becomes %s and then %q, %v", path, q, back, err)
		}
		for _, r := range q + Show(path) {
			if r < 0x20 && r != '\t' && r != '\n' && r != '\r' || r >= 0x7f && r < 0xa0 || r == 0x202e {
				t.Fatalf("%q has %q in it", q, r)
			}
		}
	})
}
