package reviews

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/review"
	"github.com/bothy-dev/bothy/internal/review/beneath"
	"github.com/bothy-dev/bothy/internal/review/patch"
	"github.com/bothy-dev/bothy/internal/review/quote"
	"github.com/bothy-dev/bothy/internal/review/risk"
	"github.com/bothy-dev/bothy/spec"
)

// reviewed is one workspace of a review, with the selected changes.
type reviewed struct {
	review.Workspace
	selection review.Selection
	prefix    string // before paths in it; empty in the first workspace
	changes   []review.Change
	kept      int   // changes to git's own files, left out
	unlisted  error // why the changes cannot be listed

	open func() (*patch.Reader, error) // opens both sides; patch.Open if nil
}

// readTexts reads both sides of changes.
func (r *reviewed) readTexts() (*patch.Reader, error) {
	if r.open != nil {
		return r.open()
	}
	return patch.Open(r.Workspace)
}

// changeName returns a change's path as the CLI prints it and accepts it.
func (r *reviewed) changeName(c review.Change) string { return r.pathOf(c.Path) }

func (r *reviewed) pathOf(path string) string {
	if r.prefix != "" {
		path = filepath.Join(r.prefix, path)
	}
	return quote.Path(path)
}

// reviewed returns the workspaces of a sandbox whose changes wait.
func (a *app) reviewed(ref string) (*engine.Engine, *spec.Sandbox, []*reviewed, error) {
	e, sb, err := a.Existing(ref)
	if err != nil {
		return nil, nil, nil, err
	}
	workspaces, err := e.Changes().Reviewed(sb)
	if err != nil {
		return nil, nil, nil, err
	}
	var list []*reviewed
	for i, w := range workspaces {
		r := &reviewed{Workspace: w}
		if i > 0 {
			r.prefix = w.Source
		}
		list = append(list, r)
	}
	return e, sb, list, nil
}

// review finds the selected changes in a sandbox's workspaces. It prints paths without changes: they
// may have been mistyped.
func (a *app) review(ref string, paths []string) (*engine.Engine, *spec.Sandbox, []*reviewed, error) {
	e, sb, list, err := a.selectChanges(ref, paths)
	if err != nil {
		return nil, nil, nil, err
	}
	for _, p := range without(list, paths) {
		a.Note("nothing waits at %s", console.Printable(p))
	}
	return e, sb, list, nil
}

// selectChanges is review for callers that report such paths themselves.
func (a *app) selectChanges(ref string, paths []string) (*engine.Engine, *spec.Sandbox, []*reviewed, error) {
	e, sb, all, err := a.reviewed(ref)
	if err != nil {
		return nil, nil, nil, err
	}
	var list []*reviewed
	for i, r := range all {
		var meant bool
		if r.selection, meant, err = r.Select(paths, i == 0); err != nil {
			return nil, nil, nil, err
		}
		if !meant {
			continue
		}
		changes, err := r.Changes()
		if err != nil {
			return nil, nil, nil, err
		}
		r.changes, r.kept = r.selection.Pick(changes)
		list = append(list, r)
	}
	if len(list) == 0 {
		return nil, nil, nil, spec.Errorf(spec.ErrNotFound, "none of these paths is in a reviewed workspace of %s", sb.Name).
			WithHint("paths are those that bothy diff --stat %s prints", sb.Name)
	}
	return e, sb, list, nil
}

// without returns the paths that have no changes.
func without(list []*reviewed, paths []string) []string {
	return slices.DeleteFunc(slices.Clone(paths), func(p string) bool {
		return slices.ContainsFunc(list, func(r *reviewed) bool {
			s, meant, err := r.Select([]string{p}, r.prefix == "")
			return err == nil && meant && slices.ContainsFunc(r.changes, func(c review.Change) bool { return s.Has(c.Path) })
		})
	})
}

func (a *app) diffCommand() *cobra.Command {
	var stat, names bool
	var against string
	c := &cobra.Command{
		Use:   "diff SANDBOX [SANDBOX | PATH...]",
		Short: "Show what a sandbox changed in directories that are reviewed",
		Long: `Shows what a sandbox made with --workspace review has changed and you have not
applied. PATH is a file or directory, in the first workspace or absolute. What
git keeps in .git is left out unless it is named. With two sandboxes over the same
directory, such as forks, shows what the second has otherwise than the first; a path
that is called as a sandbox is, is written ./PATH.

Control characters, and what shows nothing, are written out and not sent. For a
patch with every byte as it is: bothy apply SANDBOX --patch FILE`,
		Args: cmdline.AtLeast(1, "a sandbox"), ValidArgsFunction: a.OneSandbox,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 2 && against == "" && a.isSandbox(args[1]) {
				args, against = args[1:], args[0]
			}
			_, _, list, err := a.diffed(args[0], args[1:], against)
			if err != nil {
				return err
			}
			if len(args) == 2 && against == "" && len(without(list, args[1:])) > 0 && spec.CheckName(args[1]) == nil {
				a.Note("no sandbox is called %s either", args[1])
			}
			switch {
			case a.JSON:
				return a.diffJSON(list)
			case names:
				return a.diffNames(list)
			case stat:
				return a.diffStat(list)
			}
			return a.diffText(list)
		},
	}
	c.Flags().BoolVar(&stat, "stat", false, "a line for each change instead of its text")
	c.Flags().StringVar(&against, "against", "", "show the differences from this sandbox, over the same directory")
	cmdline.CompleteFlag(c, "against", a.SandboxNames)
	c.Flags().BoolVar(&names, "name-only", false, "the paths alone")
	return a.JSONFlag(c)
}

func (a *app) isSandbox(name string) bool {
	_, _, err := a.Existing(name)
	return err == nil
}

// diffed finds the changes to show: a sandbox's own, or its differences from another sandbox.
func (a *app) diffed(ref string, paths []string, against string) (*engine.Engine, *spec.Sandbox, []*reviewed, error) {
	if against == "" {
		return a.review(ref, paths)
	}
	e, sb, list, err := a.selectChanges(ref, paths)
	if err != nil {
		return nil, nil, nil, err
	}
	_, _, others, err := a.reviewed(against)
	if err != nil {
		return nil, nil, nil, err
	}
	for _, r := range list {
		i := slices.IndexFunc(others, func(o *reviewed) bool { return o.Source == r.Source })
		if i < 0 {
			return nil, nil, nil, spec.Errorf(spec.ErrUsage, "sandbox %s does not work on %s", against, quote.Path(r.Source)).
				WithHint("compare forks of one sandbox")
		}
		r.open = func() (*patch.Reader, error) {
			s, err := others[i].Against(r.Workspace)
			if err != nil {
				return nil, err
			}
			return patch.Between(s), nil
		}
		s, err := others[i].Against(r.Workspace)
		if err != nil {
			return nil, nil, nil, err
		}
		changes, err := s.Changes()
		s.Close()
		if err != nil {
			return nil, nil, nil, err
		}
		r.changes, r.kept = r.selection.Pick(changes)
	}
	for _, p := range without(list, paths) {
		a.Note("nothing differs at %s", console.Printable(p))
	}
	return e, sb, list, nil
}

// changed is a change in JSON.
type changed struct {
	Path      string   `json:"path"` // quoted as git does if necessary
	Workspace string   `json:"workspace"`
	Kind      string   `json:"kind"`
	Form      string   `json:"form"`
	OldForm   string   `json:"old_form"`
	Mode      string   `json:"mode"`
	OldMode   string   `json:"old_mode"`
	Size      int64    `json:"size"`
	OldSize   int64    `json:"old_size"`
	Target    string   `json:"target,omitempty"`
	OldTarget string   `json:"old_target,omitempty"`
	From      string   `json:"renamed_from,omitempty"`
	Implied   bool     `json:"implied,omitempty"` // a directory that comes or goes with its contents
	Added     int      `json:"lines_added"`
	Removed   int      `json:"lines_removed"`
	NoText    string   `json:"no_text,omitempty"` // why its lines are not known
	Flags     []string `json:"flags"`
	Conflict  string   `json:"conflict,omitempty"`
	Refused   string   `json:"refused,omitempty"`
}

func reasons(flags []risk.Flag) []string {
	list := []string{}
	for _, f := range flags {
		list = append(list, f.Why)
	}
	return list
}

func octalMode(e beneath.Entry) string {
	if e.Form == beneath.Nothing {
		return ""
	}
	return fmt.Sprintf("%03o", e.Mode)
}

// eachText calls do for every change and its lines. A change that cannot be read has no lines; the
// others are still shown.
func eachText(list []*reviewed, do func(*reviewed, review.Change, patch.Text) error) error {
	for _, r := range list {
		reader, err := r.readTexts()
		if err != nil {
			return err
		}
		for _, c := range r.changes {
			t, err := reader.Text(c)
			switch {
			case errors.Is(err, os.ErrNotExist), errors.Is(err, spec.ErrConflict):
				t = patch.Text{Left: "it was changed just now"}
			case err != nil:
				t = patch.Text{Left: "it cannot be read"}
			}
			if err := do(r, c, t); err != nil {
				reader.Close()
				return err
			}
		}
		reader.Close()
	}
	return nil
}

func (a *app) diffJSON(list []*reviewed) error {
	out := []changed{}
	err := eachText(list, func(r *reviewed, c review.Change, t patch.Text) error {
		j := changed{
			Path: r.changeName(c), Workspace: r.Source, Kind: string(c.Kind), Form: string(c.New.Form), OldForm: string(c.Old.Form),
			Mode: octalMode(c.New), OldMode: octalMode(c.Old), Size: c.New.Size, OldSize: c.Old.Size,
			Target: c.New.Target, OldTarget: c.Old.Target, Added: t.Added, Removed: t.Removed, NoText: t.Left,
			Flags: reasons(c.Flags), Conflict: c.Conflict, Refused: c.Refused, Implied: c.Implied,
		}
		if c.From != "" {
			j.From = r.pathOf(c.From)
		}
		out = append(out, j)
		return nil
	})
	if err != nil {
		return err
	}
	kept := 0
	for _, r := range list {
		kept += r.kept
	}
	return a.PrintJSON(map[string]any{"changes": out, "kept_by_git": kept})
}

func (a *app) diffNames(list []*reviewed) error {
	for _, r := range list {
		for _, c := range r.changes {
			if !c.Implied {
				fmt.Fprintln(a.Out, r.changeName(c))
			}
		}
	}
	return nil
}

// letter is a kind of change in git's short form.
func letter(k review.Kind) string {
	switch k {
	case review.Added:
		return "A"
	case review.Deleted:
		return "D"
	case review.Mode:
		return "m"
	case review.Type:
		return "T"
	}
	return "M"
}

func (a *app) diffStat(list []*reviewed) error {
	count, added, removed, flagged, conflicts := 0, 0, 0, 0, 0
	err := eachText(list, func(r *reviewed, c review.Change, t patch.Text) error {
		if c.Implied && (c.Conflict == "" || c.Kind == review.Added) { // apply prints a directory that stays, too
			return nil
		}
		count, added, removed = count+1, added+t.Added, removed+t.Removed
		how := fmt.Sprintf("+%d -%d", t.Added, t.Removed)
		switch {
		case c.Kind == review.Mode:
			how = fmt.Sprintf("mode %s, was %s", octalMode(c.New), octalMode(c.Old))
		case c.New.Form == beneath.Directory || c.Kind == review.Deleted && c.Old.Form == beneath.Directory:
			how = "directory"
		case t.Left != "":
			how = fmt.Sprintf("%d bytes, were %d", c.New.Size, c.Old.Size)
		}
		line := fmt.Sprintf("%s %s  %s", letter(c.Kind), r.changeName(c), how)
		if mode, other := c.Chmod(); other {
			line += fmt.Sprintf(", mode %03o, was %s", mode, octalMode(c.Old))
		}
		if c.From != "" {
			line += ", was " + r.pathOf(c.From)
		}
		if c.New.Form == beneath.Link {
			line += ", link to " + quote.Path(c.New.Target)
		}
		if c.Conflict != "" {
			conflicts++
			line += "  CONFLICT: " + c.Conflict
		}
		if c.Refused != "" {
			line += "  NOT APPLICABLE: " + c.Refused
		}
		if len(c.Flags) > 0 {
			flagged++
			line += "  RUNS LATER: " + strings.Join(reasons(c.Flags), "; ")
		}
		_, err := fmt.Fprintln(a.Out, line)
		return err
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(a.Out, "%s, +%d -%d lines, %d may run something on this host later, %d in conflict\n", cmdline.Counted(count, "change"), added, removed, flagged, conflicts)
	a.noteKept(list)
	return nil
}

func (a *app) noteKept(list []*reviewed) {
	for _, r := range list {
		if r.kept > 0 {
			a.Note("%s of what git keeps left out; to see that, name %s", cmdline.Counted(r.kept, "change"), r.pathOf(".git"))
		}
	}
}

func (a *app) diffText(list []*reviewed) error {
	w := bufio.NewWriter(a.Out)
	escaped, err := writePatch(w, list, quote.Line)
	if ferr := w.Flush(); err == nil {
		err = ferr
	}
	if err == nil && escaped {
		a.Note("control characters, and what shows nothing, are written as \\x.., \\u....; with every byte as it is: bothy apply SANDBOX --patch FILE")
	}
	a.noteKept(list)
	return err
}

func writePatch(w io.Writer, list []*reviewed, show func(string) string) (escaped bool, err error) {
	p := &patch.Patch{W: w, Show: show}
	err = eachText(list, func(r *reviewed, c review.Change, t patch.Text) error {
		p.Prefix = r.prefix
		return p.Write(c, t)
	})
	return p.Changed, err
}
