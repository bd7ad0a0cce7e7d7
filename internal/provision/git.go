package provision

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/gitdir"
	"github.com/bothy-dev/bothy/internal/workspace"
	"github.com/bothy-dev/bothy/spec"
)

// GitFinding says why git will not work in a workspace, and which options and directories help.
type GitFinding struct {
	Why            string
	Options, Paths []string
	// Question asks whether to share what git lacks; empty if that would not help. [Plan.AnswerGit] takes
	// the answer.
	Question string

	lacks spec.Mount
}

// AnswerGit takes the answers to the questions of the plan's findings, in their order. It shares what git
// lacks where the answer is yes, and keeps the findings that no question was asked about. If the sandbox of the
// plan is removed before it is used, [Provisioner.Obtain] calls ask for new questions, too.
func (pl *Plan) AnswerGit(ask func(question string) bool) {
	if pl.answers == nil {
		pl.answers = map[string]bool{}
	}
	pl.ask = func(question string) bool {
		answer, known := pl.answers[question]
		if !known {
			answer = ask(question)
			pl.answers[question] = answer
		}
		return answer
	}
	pl.shareByAnswers(pl.ask)
}

// shareByAnswers shares what git lacks where the answer is yes.
func (pl *Plan) shareByAnswers(ask func(question string) bool) {
	pl.Git = slices.DeleteFunc(pl.Git, func(g GitFinding) bool {
		if g.Question == "" {
			return false
		}
		shared := slices.Concat(pl.Sandbox.Workspaces, pl.Sandbox.Volumes)
		if slices.ContainsFunc(shared, func(s spec.Mount) bool { return s.Source == s.Target && workspace.Within(s.Source, g.lacks.Source) }) {
			return true // by an earlier answer
		}
		if ask(g.Question) {
			pl.Sandbox.Workspaces = append(pl.Sandbox.Workspaces, g.lacks)
		}
		return true
	})
}

// findGit shares the directories that git needs if the request says so. Otherwise it records why git
// will not work. It asks for nothing if a fitting sandbox exists.
func (p *Provisioner) findGit(pl *Plan) error {
	req := &pl.Request
	switch req.GitDir {
	case "", spec.GitDirShare:
	case spec.GitDirNone:
		return nil
	default:
		return spec.Errorf(spec.ErrUsage, "%s %q is neither %s nor %s", spec.Option("git-dir"), req.GitDir, spec.GitDirShare, spec.GitDirNone)
	}
	sb := pl.Sandbox
	for _, m := range slices.Clone(sb.Workspaces) {
		place, err := gitdir.Find(m.Source)
		if err != nil || place == nil || sb.Clones(m) || isShown(sb, m, place.Dir) {
			continue // if git cannot read it either, git reports that
		}
		if req.GitDir == "" {
			if err := p.lookForExisting(pl); err != nil || pl.Existing != nil {
				return err
			}
		}
		rules, err := WorkspaceRules(p.Engine, req.ForceWorkspace)
		if err != nil {
			return err
		}
		w := gitWorkspace{rules: rules, plan: pl, mount: m, place: place, insists: req.GitDir == spec.GitDirShare}
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
	rules   workspace.Rules
	plan    *Plan
	mount   spec.Mount
	place   *gitdir.Place
	insists bool // the request shares what git lacks
}

// settle shares the directory that git lacks, or records how to do that.
func (w *gitWorkspace) settle() error {
	dir, at := w.mount.Source, w.place.Dir
	also, err := w.rules.Parse(at)
	if err != nil && !w.insists {
		return nil // sharing it may be forbidden, as for a home directory that is a repository
	}
	if err != nil {
		return err
	}
	kind := "a worktree"
	switch w.place.Kind {
	case gitdir.Part:
		// With the git directory alone, git would take all other files for deleted.
		options := []string{"--workdir", workspace.ShellWord(dir)}
		if whole, err := gitdir.Find(at); err == nil && whole != nil {
			options = append(options, "--git-dir", spec.GitDirShare) // a worktree or a submodule itself
		}
		return w.record(GitFinding{Options: options, Paths: []string{at}},
			"%s is a part of the repository %s: git works inside only if all of it is shared", dir, at)
	case gitdir.Astray:
		return w.record(GitFinding{Paths: []string{dir, at}},
			"git will not work inside: what git keeps of %s is in %s, from where nothing leads back; if that is its place, share it, too", dir, at)
	case gitdir.Submodule:
		kind = "a submodule"
	}
	if w.plan.Sandbox.Reviews(w.mount) {
		return w.record(GitFinding{Options: []string{"--workspace", spec.WorkspaceLive, "--git-dir", spec.GitDirShare}, Paths: []string{dir}},
			"git will not work inside: %s is %s, and what git keeps of it, in %s, cannot be reviewed", dir, kind, at)
	}
	also.ReadOnly = w.mount.ReadOnly
	if !w.insists {
		return w.record(GitFinding{
			Options: []string{"--git-dir", spec.GitDirShare}, Paths: []string{dir}, lacks: also,
			Question: fmt.Sprintf("%s is %s: git works inside only if %s is shared, too.\nPrograms inside can then change its branches, hooks and settings, which git obeys on the host. Share it?", dir, kind, at),
		}, "git will not work inside: %s is %s, and what git keeps of it, in %s, is not shared", dir, kind, at)
	}
	w.plan.Sandbox.Workspaces = append(w.plan.Sandbox.Workspaces, also)
	return nil
}

// record adds a finding to the plan. If the request insists on git, the finding is an error.
func (w *gitWorkspace) record(g GitFinding, why string, args ...any) error {
	g.Why = fmt.Sprintf(why, args...)
	if w.insists {
		return spec.Errorf(spec.ErrUsage, "%s", g.Why).WithHint("%s", g.Command("create", w.plan.Sandbox.Agent))
	}
	w.plan.Git = append(w.plan.Git, g)
	return nil
}

// Command returns the command that makes a sandbox in which git works.
func (g GitFinding) Command(verb, agent string) string {
	words := slices.Concat([]string{"bothy", verb}, g.Options, []string{agent})
	for _, path := range g.Paths {
		words = append(words, workspace.ShellWord(path))
	}
	return strings.Join(words, " ")
}
