// Package risk tells why a change of a file may make something run on the host later. It judges names,
// permissions, and the first bytes of files; it does not read programs.
package risk

import (
	"path"
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
// in one name. A trailing slash means a directory and everything in it.
type rule struct{ pattern, why string }

// rules match files by which programs of the host run something that they were not told to run.
var rules = []rule{
	{".gitattributes", "git runs filters and diff programs by it"},
	{".gitmodules", "git fetches the repositories that it names, and may run their files"},
	{".lfsconfig", "git-lfs connects and logs in by it"},
	{".gitconfig", "settings of git can run programs"},
	{".config/git/", "settings of git can run programs"},
	{".hg/hgrc*", "hg runs programs by its hooks and settings"},
	{".hg/sharedpath", "hg runs programs by its hooks and settings"},
	{".jj/*.toml", "jj runs programs by its settings"},
	{".jj/repo/*.toml", "jj runs programs by its settings"},
	{".jj/repo/config*", "jj runs programs by its settings"},
	{".githooks/", "hooks run when git does"},
	{".husky/", "hooks run when git does"},
	{"lefthook*.y*ml", "hooks run when git does"},
	{"lefthook*.toml", "hooks run when git does"},
	{"lefthook*.json", "hooks run when git does"},
	{".lefthook*.y*ml", "hooks run when git does"},
	{".lefthook*.toml", "hooks run when git does"},
	{".lefthook*.json", "hooks run when git does"},
	{".lefthook/", "hooks run when git does"},
	{".huskyrc*", "hooks run when git does"},
	{".simple-git-hooks.*", "hooks run when git does"},
	{"simple-git-hooks.*", "hooks run when git does"},
	{".overcommit.yml", "hooks run when git does"},
	{".pre-commit-config.yaml", "pre-commit installs and runs the programs that it names"},
	{".pre-commit-hooks.yaml", "pre-commit runs the programs that it names"},
	{"head", "git takes a directory with it for a repository, and runs programs by its settings"},
	{"*.git/*/", "git runs programs by the hooks and settings of a repository"},

	{".github/workflows/", "CI runs it, with your secrets"},
	{".github/actions/", "CI runs it, with your secrets"},
	{"action.yml", "CI runs it"},
	{"action.yaml", "CI runs it"},
	{".gitlab-ci.yml", "CI runs it, with your secrets"},
	{".gitlab/ci/", "CI runs it, with your secrets"},
	{".circleci/", "CI runs it, with your secrets"},
	{".buildkite/", "CI runs it, with your secrets"},
	{".forgejo/", "CI runs it, with your secrets"},
	{".gitea/", "CI runs it, with your secrets"},
	{".woodpecker/", "CI runs it, with your secrets"},
	{".woodpecker.y*ml", "CI runs it, with your secrets"},
	{".drone.y*ml", "CI runs it, with your secrets"},
	{".travis.yml", "CI runs it, with your secrets"},
	{".ci/", "CI runs it"},
	{"azure-pipelines*.y*ml", "CI runs it, with your secrets"},
	{"bitbucket-pipelines.yml", "CI runs it, with your secrets"},
	{"jenkinsfile", "CI runs it, with your secrets"},
	{"appveyor.yml", "CI runs it, with your secrets"},
	{".appveyor.yml", "CI runs it, with your secrets"},
	{".cirrus.y*ml", "CI runs it, with your secrets"},
	{".cirrus.star", "CI runs it, with your secrets"},
	{"cloudbuild*.y*ml", "CI runs it, with your secrets"},
	{"buildspec*.y*ml", "CI runs it, with your secrets"},
	{".semaphore/", "CI runs it, with your secrets"},
	{".teamcity/", "CI runs it, with your secrets"},
	{".build.yml", "CI runs it, with your secrets"},
	{".builds/", "CI runs it, with your secrets"},
	{".tekton/", "CI runs it, with your secrets"},
	{".pipelines/", "CI runs it, with your secrets"},

	{"makefile", "make runs its commands"},
	{"gnumakefile", "make runs its commands"},
	{"*.mk", "make runs its commands"},
	{"makefile.*", "make runs its commands"},
	{"cmakelists.txt", "cmake runs its commands"},
	{"*.cmake", "cmake runs its commands"},
	{"meson.build", "meson runs its commands"},
	{"justfile", "just runs its commands"},
	{".justfile", "just runs its commands"},
	{"taskfile.y*ml", "task runs its commands"},
	{"rakefile", "rake runs its commands"},
	{"*.rake", "rake runs its commands"},
	{"gemfile", "bundler runs it as a program"},
	{"gemfile.lock", "bundler installs the packages that it names, and runs their extensions"},
	{".irbrc", "irb runs it when it starts here"},
	{".pryrc", "pry runs it when it starts here"},
	{"*.gemspec", "bundler runs it as a program"},
	{".rspec", "rspec loads the modules that it names"},
	{".rubocop.y*ml", "rubocop loads the modules that it names"},
	{".bundle/", "bundler's settings say from where it installs"},
	{"build.gradle*", "gradle runs it as a program"},
	{"settings.gradle*", "gradle runs it as a program"},
	{"gradle/wrapper/", "the wrapper is a program"},
	{".mvn/", "maven loads extensions and options by it"},
	{"pom.xml", "maven runs the plugins it names"},
	{"*.csproj", "msbuild runs its commands"},
	{"*.props", "msbuild runs its commands"},
	{"*.targets", "msbuild runs its commands"},
	{"nuget.config", "nuget installs from where it says"},
	{"build.xml", "ant runs its commands"},
	{"build.sbt", "sbt runs it as a program"},
	{"project/*.sbt", "sbt runs it as a program"},
	{"build", "bazel loads it"},
	{"workspace", "bazel loads it"},
	{"build.bazel", "bazel loads it"},
	{"workspace.bazel", "bazel loads it"},
	{"module.bazel", "bazel loads it"},
	{"*.bzl", "bazel loads it as a program"},
	{".bazelrc", "bazel's options can run programs"},
	{"go.mod", "go fetches, and runs, the toolchain and the tools it names"},
	{"go.work", "go fetches, and runs, the toolchain and the tools it names"},
	{".golangci.*", "golangci-lint loads the plugins it names"},
	{"sconstruct", "scons runs it as a program"},
	{"sconscript", "scons runs it as a program"},
	{"wscript", "waf runs it as a program"},
	{"earthfile", "earthly runs its commands"},
	{"gradle.properties", "gradle starts java with the options it names"},
	{"build.rs", "cargo runs it when it builds"},
	{"build.zig", "zig runs it when it builds"},
	{"cargo.toml", "cargo runs build scripts and macros of the packages that it names"},
	{"cargo.lock", "cargo fetches the packages that it names, and runs their build scripts"},
	{".cargo/", "cargo's settings name programs it runs"},
	{"rust-toolchain", "rustup installs and runs the toolchain it names"},
	{"rust-toolchain.toml", "rustup installs and runs the toolchain it names"},
	{"setup.py", "pip runs it as a program"},
	{"setup.cfg", "its hooks run when the package is built"},
	{"pyproject.toml", "the build backend and tools it names run"},
	{"pytest.ini", "pytest loads the plugins it names"},
	{"mypy.ini", "mypy loads the plugins it names"},
	{".mypy.ini", "mypy loads the plugins it names"},
	{".coveragerc", "coverage loads the plugins it names"},
	{"ansible.cfg", "ansible runs programs, and loads plugins, by it"},
	{"conftest.py", "pytest runs it as a program"},
	{"sitecustomize.py", "every python runs it"},
	{"usercustomize.py", "every python runs it"},
	{"*.pth", "python runs lines of it when it starts"},
	{"requirements*.txt", "pip installs the packages that it names, and runs their scripts"},
	{"pipfile*", "pipenv installs the packages that it names, and runs their scripts"},
	{"poetry.lock", "poetry installs the packages that it names, and runs their scripts"},
	{"uv.lock", "uv installs the packages that it names, and runs their scripts"},
	{"uv.toml", "uv installs from where it says"},
	{"pip.conf", "pip installs from where it says"},
	{".pylintrc", "pylint runs lines of it"},
	{"pylintrc", "pylint runs lines of it"},
	{"tox.ini", "tox runs its commands"},
	{"noxfile.py", "nox runs it as a program"},
	{"dodo.py", "doit runs it as a program"},
	{"mix.exs", "mix runs it as a program"},
	{".formatter.exs", "mix runs it as a program"},
	{"rebar.config*", "rebar3 runs its commands"},
	{"*.nims", "nim runs it as a program"},
	{"package.swift", "swift runs it as a program"},
	{"podfile", "cocoapods runs it as a program"},
	{"flake.nix", "nix builds it, and runs its commands"},
	{"default.nix", "nix builds it, and runs its commands"},
	{"shell.nix", "nix builds it, and runs its commands"},
	{"devbox.json", "devbox runs its commands when its shell starts"},
	{"composer.json", "composer runs its scripts"},
	{"composer.lock", "composer installs the packages that it names, and runs their plugins"},
	{"deno.json", "its tasks run"},
	{"deno.jsonc", "its tasks run"},
	{"bun.lock*", "bun installs the packages that it names, and runs their scripts"},
	{"bunfig.toml", "bun preloads programs by it"},

	{"package.json", "npm runs its scripts, also when it installs"},
	{"package-lock.json", "npm installs the packages that it names, and runs their scripts"},
	{"npm-shrinkwrap.json", "npm installs the packages that it names, and runs their scripts"},
	{"yarn.lock", "yarn installs the packages that it names, and runs their scripts"},
	{"pnpm-lock.yaml", "pnpm installs the packages that it names, and runs their scripts"},
	{".npmrc", "npm's settings name registries and programs"},
	{".yarnrc", "yarn's settings name programs it runs"},
	{".yarnrc.yml", "yarn's settings name programs it runs"},
	{".yarn/", "yarn runs the releases and plugins in it"},
	{".pnpmfile.cjs", "pnpm runs it as a program"},
	{"pnpm-workspace.yaml", "pnpm installs by it"},
	{"node_modules/", "installed programs, which your tools run"},
	{"*.config.js", "tools load it as a program"},
	{"*.config.cjs", "tools load it as a program"},
	{"*.config.mjs", "tools load it as a program"},
	{"*.config.ts", "tools load it as a program"},
	{"*.config.mts", "tools load it as a program"},
	{"*.conf.js", "tools load it as a program"},
	{"*.conf.cjs", "tools load it as a program"},
	{"*.conf.ts", "tools load it as a program"},
	{"babel.config.json", "babel loads the modules that it names"},
	{"nodemon.json", "nodemon runs its commands"},
	{"gulpfile.*", "gulp runs it as a program"},
	{"gruntfile.*", "grunt runs it as a program"},
	{".mocharc*", "mocha loads the modules that it names"},
	{".stylelintrc*", "stylelint loads the modules that it names"},
	{".lintstagedrc*", "lint-staged runs the programs that it names when git commits"},
	{".commitlintrc*", "commitlint loads the modules that it names"},
	{".postcssrc*", "postcss loads the modules that it names"},
	{"turbo.json", "turbo runs tasks by it"},
	{"nx.json", "nx loads plugins, and runs tasks, by it"},
	{".eslintrc*", "eslint loads the modules that it names"},
	{".babelrc*", "babel loads the modules that it names"},
	{".prettierrc*", "prettier loads the modules that it names"},
	{".venv/", "an environment of programs, which your tools run"},
	{"venv/", "an environment of programs, which your tools run"},
	{"__pycache__/", "python runs it in place of the reviewed source"},
	{"*.pyc", "python runs it in place of the reviewed source"},
	{"*.so", "a program that others load"},
	{"*.so.*", "a program that others load"},
	{"*.dll", "a program that others load"},
	{"*.dylib", "a program that others load"},
	{"*.pyd", "a program that python loads"},
	{"*.exe", "a program"},
	{"*.node", "a program that node loads"},
	{"*.jar", "a program that java loads"},
	{"*.class", "a program that java loads"},

	{".envrc", "direnv runs it when you enter the directory"},
	{".env", "tools take their environment from it"},
	{".env.*", "tools take their environment from it"},
	{".mise.toml", "mise runs hooks of it when you enter the directory"},
	{"mise.toml", "mise runs hooks of it when you enter the directory"},
	{".mise.*.toml", "mise runs hooks of it when you enter the directory"},
	{"mise.*.toml", "mise runs hooks of it when you enter the directory"},
	{".config/mise/", "mise runs hooks of it when you enter the directory"},
	{".config/mise.toml", "mise runs hooks of it when you enter the directory"},
	{".mise/", "mise runs hooks of it when you enter the directory"},
	{"mise/config*.toml", "mise runs hooks of it when you enter the directory"},
	{".python-version", "a version manager runs the programs that it names"},
	{".node-version", "a version manager runs the programs that it names"},
	{".ruby-version", "a version manager runs the programs that it names"},
	{".tool-versions", "a version manager runs the programs that it names"},
	{".nvmrc", "a version manager runs the programs that it names"},
	{".sdkmanrc", "a version manager runs the programs that it names"},
	{".autoenv*", "autoenv runs it when you enter the directory"},
	{".vscode/", "the editor runs tasks and programs by it"},
	{"*.code-workspace", "the editor runs tasks and programs by it"},
	{"*.sublime-project", "the editor runs tasks and programs by it"},
	{".helix/", "the editor runs tasks and programs by it"},
	{".idea/", "the editor runs tasks and programs by it"},
	{".zed/", "the editor runs tasks and programs by it"},
	{".fleet/", "the editor runs tasks and programs by it"},
	{".nvim.lua", "the editor runs it when it starts here"},
	{".nvimrc", "the editor runs it when it starts here"},
	{".vimrc", "the editor runs it when it starts here"},
	{".exrc", "the editor runs it when it starts here"},
	{".lvimrc", "the editor runs it when it starts here"},
	{".dir-locals*.el", "the editor evaluates it"},
	{".emacs*", "the editor evaluates it"},
	{".gdbinit", "gdb runs it when it starts here"},
	{".lldbinit", "lldb runs it when it starts here"},
	{".rprofile", "R runs it when it starts here"},
	{".renviron", "R takes its environment from it when it starts here"},
	{".ghci", "ghci runs it when it starts here"},
	{".ocamlinit", "ocaml runs it when it starts here"},
	{".iex.exs", "iex runs it when it starts here"},
	{".pdbrc", "pdb runs it when it starts here"},
	{".octaverc", "octave runs it when it starts here"},
	{".bashrc", "a shell runs it"},
	{".profile", "a shell runs it"},
	{".bash_profile", "a shell runs it"},
	{".bash_login", "a shell runs it"},
	{".bash_aliases", "a shell runs it"},
	{".zshrc", "a shell runs it"},
	{".zshenv", "a shell runs it"},
	{".zprofile", "a shell runs it"},
	{".zlogin", "a shell runs it"},
	{".ssh/", "ssh logs in, and runs programs, by it"},
	{".netrc", "tools log in by it"},
	{".pypirc", "tools log in by it"},
	{"*.desktop", "the desktop starts the program that it names"},

	{".claude/", "agents on the host run hooks and commands by it"},
	{".claude.json", "agents on the host start the servers it names"},
	{"claude.md", "agents on the host follow its instructions"},
	{"claude.local.md", "agents on the host follow its instructions"},
	{"agents.md", "agents on the host follow its instructions"},
	{"gemini.md", "agents on the host follow its instructions"},
	{"qwen.md", "agents on the host follow its instructions"},
	{"agents.*.md", "agents on the host follow its instructions"},
	{".codex/", "agents on the host run programs by it"},
	{".gemini/", "agents on the host run programs by it"},
	{".opencode/", "agents on the host run programs by it"},
	{"opencode.json*", "agents on the host start the servers it names"},
	{".cursor/", "agents on the host run programs by it"},
	{".cursorrules", "agents on the host follow its instructions"},
	{".windsurf/", "agents on the host run programs by it"},
	{".windsurfrules", "agents on the host follow its instructions"},
	{".clinerules", "agents on the host follow its instructions"},
	{".clinerules/", "agents on the host follow its instructions"},
	{".goosehints", "agents on the host follow its instructions"},
	{".aider*", "agents on the host run programs by it"},
	{".continue/", "agents on the host run programs by it"},
	{".kiro/", "agents on the host run programs by it"},
	{".roo/", "agents on the host run programs by it"},
	{".agents/", "agents on the host run programs by it"},
	{".qwen/", "agents on the host run programs by it"},
	{".crush/", "agents on the host run programs by it"},
	{".goose/", "agents on the host run programs by it"},
	{".github/hooks/", "agents on the host run programs by it"},
	{"crush.json", "agents on the host start the servers it names"},
	{".crush.json", "agents on the host start the servers it names"},
	{".github/copilot-instructions.md", "agents on the host follow its instructions"},
	{".github/instructions/", "agents on the host follow its instructions"},
	{".github/agents/", "agents on the host follow its instructions"},
	{".github/prompts/", "agents on the host follow its instructions"},
	{".mcp.json", "agents on the host start the servers it names"},
	{"mcp.json", "agents on the host start the servers it names"},
	{".bothy/", "Bothy on the host reads it"},
	{"bothy.yaml", "Bothy on the host reads it"},

	{"dockerfile*", "docker builds it, and runs its commands"},
	{"*.dockerfile", "docker builds it, and runs its commands"},
	{"containerfile*", "podman builds it, and runs its commands"},
	{"compose.y*ml", "docker runs its commands, with your directories"},
	{"compose.*.y*ml", "docker runs its commands, with your directories"},
	{"docker-compose*.y*ml", "docker runs its commands, with your directories"},
	{".devcontainer/", "the editor builds and runs it, with commands on the host"},
	{".devcontainer.json", "the editor builds and runs it, with commands on the host"},
	{"vagrantfile", "vagrant runs it as a program"},
	{"*.tf", "terraform applies it with your credentials"},
	{"*.tf.json", "terraform applies it with your credentials"},
	{"procfile*", "a process manager runs its commands"},
	{"tiltfile", "tilt runs it as a program"},
	{"skaffold.yaml", "skaffold runs its commands"},

	{"*.sh", "a script"},
	{"*.bash", "a script"},
	{"*.zsh", "a script"},
	{"*.fish", "a script"},
	{"*.ps1", "a script"},
	{"*.bat", "a script"},
	{"*.cmd", "a script"},
	{"*.command", "a script"},
}

// bounds are files whose presence limits what may run on the host.
var bounds = []rule{
	{"bothy.yaml", "a sandbox may do more without it"},
	{"package-lock.json", otherVersions},
	{"npm-shrinkwrap.json", otherVersions},
	{"yarn.lock", otherVersions},
	{"pnpm-lock.yaml", otherVersions},
	{"bun.lock*", otherVersions},
	{"deno.lock", otherVersions},
	{"gemfile.lock", otherVersions},
	{"cargo.lock", otherVersions},
	{"pipfile.lock", otherVersions},
	{"poetry.lock", otherVersions},
	{"uv.lock", otherVersions},
	{"composer.lock", otherVersions},
	{".npmrc", otherSettings},
	{".yarnrc", otherSettings},
	{".yarnrc.yml", otherSettings},
	{"pnpm-workspace.yaml", otherSettings},
	{"bunfig.toml", otherSettings},
	{"nuget.config", otherSettings},
	{".cargo/", otherSettings},
	{".claude/settings*.json", freerAgents},
	{".codex/config.toml", freerAgents},
	{".gemini/settings.json", freerAgents},
	{".cursor/", freerAgents},
	{"opencode.json*", freerAgents},
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

func (c Case) isDeleted() bool { return c.New.Form == beneath.Nothing }

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
	case c.isDeleted(): // a deleted file runs nothing
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
		if r.matches(lower, form) {
			return []Flag{{Why: r.why}}
		}
	}
	return nil
}

// matches compares a rule with the end of a path, or, for a directory's rule, with any part of
// it. A link may also have the name of a parent directory in the rule, because the names below
// may come from the link's target.
func (r rule) matches(lower string, form beneath.Form) bool {
	names := strings.Split(lower, "/")
	pattern, whole := strings.CutSuffix(r.pattern, "/")
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
