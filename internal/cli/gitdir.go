package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/gitdir"
	"github.com/bothy-dev/bothy/internal/workspace"
	"github.com/bothy-dev/bothy/spec"
)

// Values of --git-dir.
const (
	gitDirShare = "share"
	gitDirNone  = "none"
)

// gitDirs makes git work in the workspaces of a new sandbox, or notes why it will not and which
// command helps. It asks nothing if the sandbox exists already.
func (a *app) gitDirs(cmd *cobra.Command, e *engine.Engine, f *createFlags, sb *spec.Sandbox, mayExist bool) error {
	if f.gitDir != "" && f.gitDir != gitDirShare && f.gitDir != gitDirNone {
		return spec.Errorf(spec.ErrUsage, "--git-dir %q is neither %s nor %s", f.gitDir, gitDirShare, gitDirNone)
	}
	if f.gitDir == gitDirNone {
		return nil
	}
	f.gitAdvice = nil
	asks := cmd.Flags().Lookup("git-dir") != nil
	for _, m := range slices.Clone(sb.Workspaces) {
		p, err := gitdir.Find(m.Source)
		if err != nil || p == nil || sb.Clones(m) || isShown(sb, m, p.Dir) {
			continue // if git cannot read it either, git reports that
		}
		if mayExist && f.gitDir == "" {
			if there, err := e.Existing(sb); err != nil || there != nil {
				return err
			}
		}
		w := gitWorkspace{app: a, rules: workspace.Rules{}, flags: f, sandbox: sb, mount: m, place: p, asks: asks}
		if w.rules, err = a.rules(e, f.force); err != nil {
			return err
		}
		if err := w.settle(); err != nil {
			return err
		}
	}
	return nil
}

// isShown reports whether a directory is shared already at its own path.
func isShown(sb *spec.Sandbox, m spec.Mount, dir string) bool {
	return m.Target != m.Source || slices.ContainsFunc(slices.Concat(sb.Workspaces, sb.Volumes), func(s spec.Mount) bool {
		return s.Source == s.Target && workspace.Within(s.Source, dir)
	})
}

// gitWorkspace is a workspace in which git does not work.
type gitWorkspace struct {
	*app
	rules   workspace.Rules
	flags   *createFlags
	sandbox *spec.Sandbox
	mount   spec.Mount
	place   *gitdir.Place
	asks    bool // the CLI may ask at a terminal
}

// settle shares the directory that git lacks, or notes how to do that.
func (w *gitWorkspace) settle() error {
	dir, at := console.Printable(w.mount.Source), console.Printable(w.place.Dir)
	share := w.flags.gitDir == gitDirShare
	also, err := w.rules.Parse(w.place.Dir)
	if err != nil && !share {
		return nil // sharing it may be forbidden, as for a home directory that is a repository
	}
	if err != nil {
		return err
	}
	what := "a worktree"
	switch w.place.Kind {
	case gitdir.Part:
		// With the git directory alone, git would take all other files for deleted.
		options := []string{"--workdir", workspace.ShellWord(w.mount.Source)}
		if whole, err := gitdir.Find(w.place.Dir); err == nil && whole != nil {
			options = append(options, "--git-dir", gitDirShare) // a worktree or a submodule itself
		}
		return w.refuse(share, options, []string{w.place.Dir},
			"%s is a part of the repository %s: git works inside only if all of it is shared", dir, at)
	case gitdir.Astray:
		return w.refuse(share, nil, []string{w.mount.Source, w.place.Dir},
			"git will not work inside: what git keeps of %s is in %s, from where nothing leads back; if that is its place, share it, too", dir, at)
	case gitdir.Submodule:
		what = "a submodule"
	}
	if w.sandbox.Reviews(w.mount) {
		return w.refuse(share, []string{"--workspace", spec.WorkspaceLive, "--git-dir", gitDirShare}, []string{w.mount.Source},
			"git will not work inside: %s is %s, and what git keeps of it, in %s, cannot be reviewed", dir, what, at)
	}
	if !share && w.asks && w.CanAsk() {
		share = w.Ask("bothy: %s is %s: git works inside only if %s is shared, too.\nPrograms inside can then change its branches, hooks and settings, which git obeys on the host. Share it?", dir, what, at)
		if !share {
			return nil
		}
	}
	if !share {
		return w.refuse(false, []string{"--git-dir", gitDirShare}, []string{w.mount.Source},
			"git will not work inside: %s is %s, and what git keeps of it, in %s, is not shared", dir, what, at)
	}
	also.ReadOnly = w.mount.ReadOnly
	w.sandbox.Workspaces = append(w.sandbox.Workspaces, also)
	return nil
}

// gitAdvice says why git does not work in a sandbox, and the options and directories that help.
type gitAdvice struct {
	why            string
	options, paths []string
}

// command returns the command that makes a sandbox in which git works.
func (g gitAdvice) command(verb, agent string) string {
	words := slices.Concat([]string{"bothy", verb}, g.options, []string{agent})
	for _, path := range g.paths {
		words = append(words, workspace.ShellWord(path))
	}
	return strings.Join(words, " ")
}

// refuse records why git does not work, and the command with which it does. If the user insists,
// that is an error; otherwise it is printed when the sandbox is created.
func (w *gitWorkspace) refuse(insists bool, options, paths []string, why string, args ...any) error {
	g := gitAdvice{fmt.Sprintf(why, args...), options, paths}
	if insists {
		return spec.Errorf(spec.ErrUsage, "%s", g.why).WithHint("%s", g.command("create", w.sandbox.Agent))
	}
	w.flags.gitAdvice = append(w.flags.gitAdvice, g)
	return nil
}

// adviseGit prints the findings of gitDirs for a new sandbox. Recreating the sandbox as advised
// makes git work.
func (a *app) adviseGit(cmd *cobra.Command, f *createFlags, sb *spec.Sandbox) {
	for _, g := range f.gitAdvice {
		a.Note("%s", g.why)
		if loop := cmd.Parent(); loop.HasParent() && slices.Contains(g.options, "--git-dir") { // a loop or a flow already works in it
			a.Note("hint: end it (%s stop), and begin anew with %s", loop.CommandPath(), strings.Join(g.options, " "))
			continue
		}
		verb, before := "create", ""
		if !cmd.Parent().HasParent() {
			verb = cmd.Name()
			if cmd.Flags().Changed("name") {
				g.options = append([]string{"--name", sb.Name}, g.options...)
			}
			if sb.Remove {
				g.options = append([]string{"--rm"}, g.options...)
			} else {
				before = "bothy rm -f " + sb.Name + " && "
			}
		}
		a.Note("hint: %s%s", before, g.command(verb, sb.Agent))
	}
}
