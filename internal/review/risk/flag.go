// Package risk tells why a change of a file may make something run on the host later. It judges names,
// permissions, and the first bytes of files; it does not read programs.
package risk

import (
	"bytes"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/review/beneath"
)

// Flag is a reason why a file may make something run on the host later.
type Flag struct {
	Why string `json:"why"`
	// Git marks git's own files (objects, references, the index). They stay in the sandbox unless
	// the user asks for them by name: they add nothing to the files, and git commands in the
	// sandbox change them all the time.
	Git bool `json:"git,omitempty"`
}

// A rule flags files by the end of their path, in lower case: names between slashes, with * for anything
// in one name. A trailing slash means a directory and everything in it. The first rule with a pattern
// that matches gives the reason.
type rule struct{ why, patterns string }

// rules match files by which programs of the host run something that they were not told to run.
var rules = []rule{
	{"git runs filters and diff programs by it", ".gitattributes"},
	{"git fetches the repositories that it names, and may run their files", ".gitmodules"},
	{"git-lfs connects and logs in by it", ".lfsconfig"},
	{"settings of git can run programs", ".gitconfig .config/git/"},
	{"hg runs programs by its hooks and settings", ".hg/hgrc* .hg/sharedpath"},
	{"jj runs programs by its settings", ".jj/*.toml .jj/repo/*.toml .jj/repo/config*"},
	{"hooks run when git does", `
		.githooks/ .husky/ lefthook*.y*ml lefthook*.toml lefthook*.json .lefthook*.y*ml .lefthook*.toml
		.lefthook*.json .lefthook/ .huskyrc* .simple-git-hooks.* simple-git-hooks.* .overcommit.yml`},
	{"pre-commit installs and runs the programs that it names", ".pre-commit-config.yaml"},
	{"pre-commit runs the programs that it names", ".pre-commit-hooks.yaml"},
	{"git takes a directory with it for a repository, and runs programs by its settings", "head"},
	{"git runs programs by the hooks and settings of a repository", "*.git/*/"},
	{"CI runs it, with your secrets", ".github/workflows/ .github/actions/"},
	{"CI runs it", "action.yml action.yaml"},
	{"CI runs it, with your secrets", `
		.gitlab-ci.yml .gitlab/ci/ .circleci/ .buildkite/ .forgejo/ .gitea/ .woodpecker/ .woodpecker.y*ml
		.drone.y*ml .travis.yml`},
	{"CI runs it", ".ci/"},
	{"CI runs it, with your secrets", `
		azure-pipelines*.y*ml bitbucket-pipelines.yml jenkinsfile appveyor.yml .appveyor.yml .cirrus.y*ml
		.cirrus.star cloudbuild*.y*ml buildspec*.y*ml .semaphore/ .teamcity/ .build.yml .builds/ .tekton/
		.pipelines/`},
	{"make runs its commands", "makefile gnumakefile *.mk makefile.*"},
	{"cmake runs its commands", "cmakelists.txt *.cmake"},
	{"meson runs its commands", "meson.build"},
	{"just runs its commands", "justfile .justfile"},
	{"task runs its commands", "taskfile.y*ml"},
	{"rake runs its commands", "rakefile *.rake"},
	{"bundler runs it as a program", "gemfile"},
	{"bundler installs the packages that it names, and runs their extensions", "gemfile.lock"},
	{"irb runs it when it starts here", ".irbrc"},
	{"pry runs it when it starts here", ".pryrc"},
	{"bundler runs it as a program", "*.gemspec"},
	{"rspec loads the modules that it names", ".rspec"},
	{"rubocop loads the modules that it names", ".rubocop.y*ml"},
	{"bundler's settings say from where it installs", ".bundle/"},
	{"gradle runs it as a program", "build.gradle* settings.gradle*"},
	{"the wrapper is a program", "gradle/wrapper/"},
	{"maven loads extensions and options by it", ".mvn/"},
	{"maven runs the plugins it names", "pom.xml"},
	{"msbuild runs its commands", "*.csproj *.props *.targets"},
	{"nuget installs from where it says", "nuget.config"},
	{"ant runs its commands", "build.xml"},
	{"sbt runs it as a program", "build.sbt project/*.sbt"},
	{"bazel loads it", "build workspace build.bazel workspace.bazel module.bazel"},
	{"bazel loads it as a program", "*.bzl"},
	{"bazel's options can run programs", ".bazelrc"},
	{"go fetches, and runs, the toolchain and the tools it names", "go.mod go.work"},
	{"golangci-lint loads the plugins it names", ".golangci.*"},
	{"scons runs it as a program", "sconstruct sconscript"},
	{"waf runs it as a program", "wscript"},
	{"earthly runs its commands", "earthfile"},
	{"gradle starts java with the options it names", "gradle.properties"},
	{"cargo runs it when it builds", "build.rs"},
	{"zig runs it when it builds", "build.zig"},
	{"cargo runs build scripts and macros of the packages that it names", "cargo.toml"},
	{"cargo fetches the packages that it names, and runs their build scripts", "cargo.lock"},
	{"cargo's settings name programs it runs", ".cargo/"},
	{"rustup installs and runs the toolchain it names", "rust-toolchain rust-toolchain.toml"},
	{"pip runs it as a program", "setup.py"},
	{"its hooks run when the package is built", "setup.cfg"},
	{"the build backend and tools it names run", "pyproject.toml"},
	{"pytest loads the plugins it names", "pytest.ini"},
	{"mypy loads the plugins it names", "mypy.ini .mypy.ini"},
	{"coverage loads the plugins it names", ".coveragerc"},
	{"ansible runs programs, and loads plugins, by it", "ansible.cfg"},
	{"pytest runs it as a program", "conftest.py"},
	{"every python runs it", "sitecustomize.py usercustomize.py"},
	{"python runs lines of it when it starts", "*.pth"},
	{"pip installs the packages that it names, and runs their scripts", "requirements*.txt"},
	{"pipenv installs the packages that it names, and runs their scripts", "pipfile*"},
	{"poetry installs the packages that it names, and runs their scripts", "poetry.lock"},
	{"uv installs the packages that it names, and runs their scripts", "uv.lock"},
	{"uv installs from where it says", "uv.toml"},
	{"pip installs from where it says", "pip.conf"},
	{"pylint runs lines of it", ".pylintrc pylintrc"},
	{"tox runs its commands", "tox.ini"},
	{"nox runs it as a program", "noxfile.py"},
	{"doit runs it as a program", "dodo.py"},
	{"mix runs it as a program", "mix.exs .formatter.exs"},
	{"rebar3 runs its commands", "rebar.config*"},
	{"nim runs it as a program", "*.nims"},
	{"swift runs it as a program", "package.swift"},
	{"cocoapods runs it as a program", "podfile"},
	{"nix builds it, and runs its commands", "flake.nix default.nix shell.nix"},
	{"devbox runs its commands when its shell starts", "devbox.json"},
	{"composer runs its scripts", "composer.json"},
	{"composer installs the packages that it names, and runs their plugins", "composer.lock"},
	{"its tasks run", "deno.json deno.jsonc"},
	{"bun installs the packages that it names, and runs their scripts", "bun.lock*"},
	{"bun preloads programs by it", "bunfig.toml"},
	{"npm runs its scripts, also when it installs", "package.json"},
	{"npm installs the packages that it names, and runs their scripts", "package-lock.json npm-shrinkwrap.json"},
	{"yarn installs the packages that it names, and runs their scripts", "yarn.lock"},
	{"pnpm installs the packages that it names, and runs their scripts", "pnpm-lock.yaml"},
	{"npm's settings name registries and programs", ".npmrc"},
	{"yarn's settings name programs it runs", ".yarnrc .yarnrc.yml"},
	{"yarn runs the releases and plugins in it", ".yarn/"},
	{"pnpm runs it as a program", ".pnpmfile.cjs"},
	{"pnpm installs by it", "pnpm-workspace.yaml"},
	{"installed programs, which your tools run", "node_modules/"},
	{"tools load it as a program", `
		*.config.js *.config.cjs *.config.mjs *.config.ts *.config.mts *.conf.js *.conf.cjs *.conf.ts`},
	{"babel loads the modules that it names", "babel.config.json"},
	{"nodemon runs its commands", "nodemon.json"},
	{"gulp runs it as a program", "gulpfile.*"},
	{"grunt runs it as a program", "gruntfile.*"},
	{"mocha loads the modules that it names", ".mocharc*"},
	{"stylelint loads the modules that it names", ".stylelintrc*"},
	{"lint-staged runs the programs that it names when git commits", ".lintstagedrc*"},
	{"commitlint loads the modules that it names", ".commitlintrc*"},
	{"postcss loads the modules that it names", ".postcssrc*"},
	{"turbo runs tasks by it", "turbo.json"},
	{"nx loads plugins, and runs tasks, by it", "nx.json"},
	{"eslint loads the modules that it names", ".eslintrc*"},
	{"babel loads the modules that it names", ".babelrc*"},
	{"prettier loads the modules that it names", ".prettierrc*"},
	{"an environment of programs, which your tools run", ".venv/ venv/"},
	{"python runs it in place of the reviewed source", "__pycache__/ *.pyc"},
	{"a program that others load", "*.so *.so.* *.dll *.dylib"},
	{"a program that python loads", "*.pyd"},
	{"a program", "*.exe"},
	{"a program that node loads", "*.node"},
	{"a program that java loads", "*.jar *.class"},
	{"direnv runs it when you enter the directory", ".envrc"},
	{"tools take their environment from it", ".env .env.*"},
	{"mise runs hooks of it when you enter the directory", `
		.mise.toml mise.toml .mise.*.toml mise.*.toml .config/mise/ .config/mise.toml .mise/ mise/config*.toml`},
	{"a version manager runs the programs that it names", `
		.python-version .node-version .ruby-version .tool-versions .nvmrc .sdkmanrc`},
	{"autoenv runs it when you enter the directory", ".autoenv*"},
	{"the editor runs tasks and programs by it", `
		.vscode/ *.code-workspace *.sublime-project .helix/ .idea/ .zed/ .fleet/`},
	{"the editor runs it when it starts here", ".nvim.lua .nvimrc .vimrc .exrc .lvimrc"},
	{"the editor evaluates it", ".dir-locals*.el .emacs*"},
	{"gdb runs it when it starts here", ".gdbinit"},
	{"lldb runs it when it starts here", ".lldbinit"},
	{"R runs it when it starts here", ".rprofile"},
	{"R takes its environment from it when it starts here", ".renviron"},
	{"ghci runs it when it starts here", ".ghci"},
	{"ocaml runs it when it starts here", ".ocamlinit"},
	{"iex runs it when it starts here", ".iex.exs"},
	{"pdb runs it when it starts here", ".pdbrc"},
	{"octave runs it when it starts here", ".octaverc"},
	{"a shell runs it", ".bashrc .profile .bash_profile .bash_login .bash_aliases .zshrc .zshenv .zprofile .zlogin"},
	{"ssh logs in, and runs programs, by it", ".ssh/"},
	{"tools log in by it", ".netrc .pypirc"},
	{"the desktop starts the program that it names", "*.desktop"},
	{"agents on the host run hooks and commands by it", ".claude/"},
	{"agents on the host start the servers it names", ".claude.json"},
	{"agents on the host follow its instructions", `
		claude.md claude.local.md agents.md gemini.md qwen.md agents.*.md`},
	{"agents on the host run programs by it", ".codex/ .gemini/ .opencode/"},
	{"agents on the host start the servers it names", "opencode.json*"},
	{"agents on the host run programs by it", ".cursor/"},
	{"agents on the host follow its instructions", ".cursorrules"},
	{"agents on the host run programs by it", ".windsurf/"},
	{"agents on the host follow its instructions", ".windsurfrules .clinerules .clinerules/ .goosehints"},
	{"agents on the host run programs by it", `
		.aider* .continue/ .kiro/ .roo/ .agents/ .qwen/ .crush/ .goose/ .github/hooks/`},
	{"agents on the host start the servers it names", "crush.json .crush.json"},
	{"agents on the host follow its instructions", `
		.github/copilot-instructions.md .github/instructions/ .github/agents/ .github/prompts/`},
	{"agents on the host start the servers it names", ".mcp.json mcp.json"},
	{"Bothy on the host reads it", ".bothy/ bothy.yaml"},
	{"docker builds it, and runs its commands", "dockerfile* *.dockerfile"},
	{"podman builds it, and runs its commands", "containerfile*"},
	{"docker runs its commands, with your directories", "compose.y*ml compose.*.y*ml docker-compose*.y*ml"},
	{"the editor builds and runs it, with commands on the host", ".devcontainer/ .devcontainer.json"},
	{"vagrant runs it as a program", "vagrantfile"},
	{"terraform applies it with your credentials", "*.tf *.tf.json"},
	{"a process manager runs its commands", "procfile*"},
	{"tilt runs it as a program", "tiltfile"},
	{"skaffold runs its commands", "skaffold.yaml"},
	{"a script", "*.sh *.bash *.zsh *.fish *.ps1 *.bat *.cmd *.command"},
}

// bounds are files whose presence limits what may run on the host.
var bounds = []rule{
	{"a sandbox may do more without it", "bothy.yaml"},
	{otherVersions, `
		package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml bun.lock* deno.lock gemfile.lock cargo.lock
		pipfile.lock poetry.lock uv.lock composer.lock`},
	{otherSettings, ".npmrc .yarnrc .yarnrc.yml pnpm-workspace.yaml bunfig.toml nuget.config .cargo/"},
	{freerAgents, ".claude/settings*.json .codex/config.toml .gemini/settings.json .cursor/ opencode.json*"},
}

const (
	otherVersions = "without it other versions are installed, and run, than those that were reviewed"
	otherSettings = "without it packages come from elsewhere, or run programs that it forbids"
	freerAgents   = "without it agents on the host may do more"
)

// Case is a change to judge.
type Case struct {
	Path     string
	Old, New beneath.Entry // on the host, and in the layer
	// SameContent says that at most the permissions differ.
	SameContent bool
	// OldHead and NewHead are the kinds of runnable file of both sides, by their first bytes.
	OldHead, NewHead string
}

// flagsOf returns the reasons why a change may make something run on the host later. The host's
// file counts, too: when only a part of a file is applied, it keeps its mode, and maybe its first
// line.
func flagsOf(c Case) (list []Flag) {
	lower := strings.ToLower(c.Path)
	if f, ok := gitFlag(lower, c.New.Form); ok {
		return []Flag{f}
	}
	if c.SameContent && c.New.Mode&^c.Old.Mode&0o022 != 0 {
		list = []Flag{{Why: "others on this host may write to it"}}
	}
	switch {
	case c.New.Form == beneath.Nothing: // a deleted file runs nothing
		return flagsBy(bounds, lower, beneath.Nothing)
	case c.SameContent && (c.New.Form == beneath.Directory || c.New.Mode&^c.Old.Mode&0o111 == 0):
		return list // nothing in it has changed
	}
	list = append(list, flagsBy(rules, lower, c.New.Form)...)
	switch {
	case c.New.Form == beneath.Link && leadsOut(c.Path, c.New.Target):
		list = append(list, Flag{Why: "a symbolic link that leads out of the workspace"})
	case c.New.Form == beneath.File && c.New.Mode&0o111 != 0:
		list = append(list, Flag{Why: "it is executable"})
	case c.New.Form == beneath.File && c.Old.Form == beneath.File && c.Old.Mode&0o111 != 0:
		list = append(list, Flag{Why: "it is executable on this host"})
	case c.New.Form == beneath.File && c.NewHead != "" && len(list) == 0:
		list = append(list, Flag{Why: "it begins as " + c.NewHead + " does"})
	case c.New.Form == beneath.File && c.OldHead != "" && len(list) == 0:
		list = append(list, Flag{Why: "it begins as " + c.OldHead + " does on this host"})
	}
	return list
}

// flagsBy returns the flag of the first rule that matches.
func flagsBy(rules []rule, lower string, form beneath.Form) []Flag {
	for _, r := range rules {
		for pattern := range strings.FieldsSeq(r.patterns) {
			if matches(pattern, lower, form) {
				return []Flag{{Why: r.why}}
			}
		}
	}
	return nil
}

// matches compares a pattern with the end of a path, or, for a directory's rule, with any part of
// it. A link may also have the name of a parent directory in the pattern, because the names below
// may come from the link's target.
func matches(pattern, lower string, form beneath.Form) bool {
	names := strings.Split(lower, "/")
	pattern, whole := strings.CutSuffix(pattern, "/")
	want := strings.Split(pattern, "/")
	for n := 1; form == beneath.Link && n < min(len(want), len(names)+1); n++ {
		if matchAll(want[:n], names[len(names)-n:]) {
			return true
		}
	}
	for at := 0; at+len(want) <= len(names); at++ {
		end := at + len(want)
		if whole && end == len(names) && form == beneath.Directory {
			continue // an empty directory holds nothing yet
		}
		if !whole && end != len(names) {
			continue
		}
		if matchAll(want, names[at:end]) {
			return true
		}
	}
	return false
}

func matchAll(patterns, names []string) bool {
	for i, p := range patterns {
		if ok, err := path.Match(p, names[i]); err != nil || !ok {
			return false
		}
	}
	return true
}

// leadsOut reports whether a link at a path may lead out of the workspace. If a name precedes a
// "..", that name may be another link, so leads returns true. All names above the link itself are
// directories, or it could not be applied.
func leadsOut(at, target string) bool {
	if path.IsAbs(target) {
		return true
	}
	named := false
	for n := range strings.SplitSeq(target, "/") {
		if n == ".." && named {
			return true
		}
		named = named || n != "" && n != "." && n != ".."
	}
	to := path.Join(path.Dir(at), target)
	return to == ".." || strings.HasPrefix(to, "../")
}

// Kinds of files that run, by their first bytes.
const (
	aScript  = "a script"
	aProgram = "a compiled program"
)

// programs are the first bytes of compiled programs for Linux, macOS (several kinds) and Java. A
// Windows program begins with two letters, as a text may.
var programs = []string{"\x7fELF", "\xfe\xed\xfa\xce", "\xfe\xed\xfa\xcf", "\xce\xfa\xed\xfe", "\xcf\xfa\xed\xfe", "\xca\xfe\xba\xbe", "\xca\xfe\xba\xbf"}

// HeadOf returns the kind of runnable file by its first bytes; empty for any other file.
func HeadOf(f *os.File) string {
	b := make([]byte, 64)
	n, _ := f.ReadAt(b, 0)
	b = b[:n]
	switch {
	case bytes.HasPrefix(b, []byte("#!")):
		return aScript
	case bytes.HasPrefix(b, []byte("MZ")) && bytes.IndexByte(b, 0) > 0,
		slices.ContainsFunc(programs, func(p string) bool { return bytes.HasPrefix(b, []byte(p)) }):
		return aProgram
	}
	return ""
}

// HeadOnHost does the same for a file of the host. A file that cannot be read may be a script.
func HeadOnHost(d *beneath.Dir, name string, was beneath.Entry) string {
	if was.Form != beneath.File {
		return ""
	}
	f, err := d.OpenSeen(name, was.Mark)
	if err != nil {
		return aScript
	}
	defer f.Close()
	return HeadOf(f)
}
