package reviews

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/clone"
	"github.com/bothy-dev/bothy/internal/provision"
	"github.com/bothy-dev/bothy/spec"
)

// fetchFlags are the flags of fetch.
type fetchFlags struct {
	dryRun bool
	size   string
	in     string
}

// defaultFetch is how much a fetch may copy by default.
const defaultFetch = "4g"

func (a *app) fetchCommand() *cobra.Command {
	f := &fetchFlags{}
	c := &cobra.Command{
		Use:   "fetch [flags] SANDBOX [BRANCH...]",
		Short: "Bring commits of a sandbox into your repository",
		Long: `Brings the commits of a sandbox made with --workspace clone, or review, into your
repository: all branches, or BRANCHes, as bothy/SANDBOX/BRANCH. With --workspace review,
all that are not where yours are. Your own branches and files are not touched. bothy/SANDBOX is the branch that is checked out inside. A sandbox that is
stopped is started: git runs inside, and never in what the inside has written here.`,
		Example: `  bothy fetch claude-app
  git log ..bothy/claude-app
  git diff HEAD...bothy/claude-app
  git merge bothy/claude-app/main`,
		Args: cmdline.AtLeast(1, "a sandbox"), ValidArgsFunction: a.OneSandbox,
		RunE: func(cmd *cobra.Command, args []string) error { return a.fetchClones(cmd, f, args[0], args[1:]) },
	}
	fs := c.Flags()
	fs.BoolVarP(&f.dryRun, "dry-run", "n", false, "say what would come, and change nothing")
	fs.StringVar(&f.size, "max-size", defaultFetch, "how much the sandbox may send")
	fs.StringVar(&f.in, "in", "", "the directory whose clone is meant, of a sandbox with several (default: all)")
	cmdline.CompleteFlag(c, "in", cmdline.FileNames)
	return a.JSONFlag(c)
}

func (a *app) fetchClones(cmd *cobra.Command, f *fetchFlags, ref string, branches []string) error {
	most, err := spec.ParseSize(f.size)
	if err != nil || most <= 0 {
		return spec.Errorf(spec.ErrUsage, "--max-size %q is not a size", f.size)
	}
	e, sb, err := a.Existing(ref)
	if err != nil {
		return err
	}
	all, err := e.Changes().Cloned(sb)
	if err != nil {
		return err
	}
	r, err := provision.WorkspaceRules(e, true)
	if err != nil {
		return err
	}
	list, err := f.selectClones(r.Parse, all)
	if err != nil {
		return err
	}
	inside := func(stdin, stdout *os.File, args ...string) (func() error, error) {
		return a.Helper(cmd.Context(), e, sb, "", stdin, stdout, args...)
	}
	var done []fetched
	for _, c := range list {
		report, err := e.Changes().Fetch(cmd.Context(), sb, c, inside, clone.Order{Branches: branches, DryRun: f.dryRun, MaxBytes: most})
		if err != nil {
			return err
		}
		done = append(done, shownFetch(c, report))
	}
	return a.printFetched(sb, done, f.dryRun)
}

// selectClones returns the clones to fetch from.
func (f *fetchFlags) selectClones(parse func(string) (spec.Mount, error), all []clone.Clone) ([]clone.Clone, error) {
	if f.in == "" {
		return all, nil
	}
	m, err := parse(f.in)
	if err != nil {
		return nil, err
	}
	for _, c := range all {
		if c.Source == m.Source {
			return []clone.Clone{c}, nil
		}
	}
	return nil, spec.Errorf(spec.ErrNotFound, "the sandbox has no clone of %s", m.Source).WithHint("bothy inspect shows its workspaces")
}

// fetched is the result for one clone in JSON.
type fetched struct {
	Workspace   string          `json:"workspace"`
	Branches    []fetchedBranch `json:"branches"`
	More        bool            `json:"more"` // there are more branches than one fetch takes
	Bytes       int64           `json:"bytes"`
	Uncommitted *int            `json:"uncommitted"` // null: unknown
	References  []string        `json:"references"`  // not branches; they stay inside
	Submodules  []string        `json:"submodules"`  // with commits that stay inside; null: unknown
}

type fetchedBranch struct {
	Branch  string `json:"branch"` // name inside; empty: a detached HEAD
	Ref     string `json:"ref"`    // name on the host
	Old     string `json:"old,omitempty"`
	New     string `json:"new"`
	Result  string `json:"result"`
	Commits int    `json:"commits"`
	Lost    int    `json:"commits_lost,omitempty"`
	Why     string `json:"why,omitempty"`
}

func shownFetch(c clone.Clone, r *clone.Report) fetched {
	f := fetched{Workspace: c.Source, Bytes: r.Bytes, More: r.More, Branches: []fetchedBranch{}, References: append([]string{}, r.References...)}
	if r.Uncommitted >= 0 {
		f.Uncommitted = &r.Uncommitted
	}
	if !r.Unknown {
		f.Submodules = append([]string{}, r.Submodules...)
	}
	for _, b := range r.Branches {
		f.Branches = append(f.Branches, fetchedBranch{b.Branch, b.Ref, b.Old, b.New, b.Result, b.Commits, b.Lost, b.Why})
	}
	return f
}

// printFetched prints the results. It returns an error if a branch was refused, or not looked at.
func (a *app) printFetched(sb *spec.Sandbox, list []fetched, dry bool) error {
	refused, more := 0, false
	for _, f := range list {
		more = more || f.More
		for _, b := range f.Branches {
			if b.Result == clone.Refused {
				refused++
			}
		}
	}
	if a.JSON {
		if err := a.PrintJSON(map[string]any{"fetched": list, "dry_run": dry}); err != nil {
			return err
		}
	} else {
		for _, f := range list {
			if err := a.printFetch(sb, f, dry); err != nil {
				return err
			}
		}
	}
	if refused > 0 {
		return spec.Errorf(nil, "%s refused, the others are fetched", branchesWere(refused)).
			WithHint("rename, or mend and commit, the branches above: bothy exec %s git branch -m OLD NEW", sb.Name)
	}
	if more {
		return spec.Errorf(nil, "the sandbox has more than %d branches: the others were not looked at", clone.MaxBranches).
			WithHint("name those that you want: bothy fetch %s BRANCH...", sb.Name)
	}
	return nil
}

func branchesWere(n int) string {
	if n == 1 {
		return "1 branch was"
	}
	return cmdline.Counted(n, "branch") + " were"
}

func (a *app) printFetch(sb *spec.Sandbox, f fetched, dry bool) error {
	for _, b := range f.Branches {
		line := fmt.Sprintf("%s %s %s", b.Result, console.Printable(strings.TrimPrefix(b.Ref, "refs/remotes/")), b.New[:min(12, len(b.New))])
		switch b.Result {
		case clone.Refused:
			line = fmt.Sprintf("%s %q: %s", b.Result, b.Branch, console.Printable(b.Why))
		case clone.Forced:
			line += fmt.Sprintf(", %s, %d that were there are not in it", cmdline.Counted(b.Commits, "commit"), b.Lost)
		case clone.New, clone.Updated:
			line += ", " + cmdline.Counted(b.Commits, "commit")
		}
		if dry && b.Result != clone.Refused && b.Result != clone.Unchanged {
			line = "would be " + line
		}
		if _, err := fmt.Fprintln(a.Out, line); err != nil {
			return err
		}
	}
	a.noteStaying(sb, f)
	return nil
}

// noteStaying prints the data that is not fetched and is deleted with the sandbox.
func (a *app) noteStaying(sb *spec.Sandbox, f fetched) {
	switch {
	case f.Uncommitted == nil:
		a.Note("whether everything is committed in the sandbox could not be learned")
	case *f.Uncommitted > 0:
		a.Note("%s not committed in the sandbox, and left there: bothy exec %s git status", cmdline.Counted(*f.Uncommitted, "file"), sb.Name)
	}
	if len(f.References) > 0 {
		a.Note("only branches are fetched, not: %s", cmdline.Few(f.References))
	}
	switch {
	case f.Submodules == nil:
		a.Note("whether submodules in the sandbox have commits of their own could not be learned")
	case len(f.Submodules) > 0:
		a.Note("commits in submodules do not come: %s; push them, or take them out as files: bothy exec %s git -C %s bundle create /tmp/b --all, and bothy cp", cmdline.Few(f.Submodules), sb.Name, console.Printable(f.Submodules[0]))
	}
}
