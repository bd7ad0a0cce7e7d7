package reviews

import (
	"bufio"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/review"
	"github.com/bothy-dev/bothy/internal/review/apply"
	"github.com/bothy-dev/bothy/internal/review/patch"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/spec"
)

type applyFlags struct {
	dryRun, flagged bool
	patch, match    string
	overwrite       []string
	pick            patch.Pick
	interactive     bool
}

func (a *app) applyCommand() *cobra.Command {
	f := &applyFlags{}
	c := &cobra.Command{
		Use:   "apply [flags] SANDBOX [PATH...]",
		Short: "Bring what a sandbox changed to your files",
		Long: `Brings what a sandbox made with --workspace review has changed to your files: all of
it, or what PATHs name. What you changed meanwhile is shown and not overwritten.
Files that may make something run on this host later, such as Makefiles, hooks,
CI files, executables, are asked about one by one on a terminal, and left elsewhere
unless --flagged says otherwise. What git keeps in .git is left unless it is named.`,
		Example: `  bothy apply shell-app                      everything without a conflict
  bothy apply shell-app src --dry-run        what would be done
  bothy apply shell-app -i                   hunk by hunk
  bothy apply shell-app --flagged Makefile   this one, although make runs it
  bothy apply shell-app --patch -            nothing; a patch to standard output
  bothy apply shell-app a.go --match TODO    the hunks with that in them`,
		Args: cmdline.AtLeast(1, "a sandbox"), ValidArgsFunction: a.OneSandbox,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.match != "" {
				re, err := patch.Compile(f.match)
				if err != nil {
					return err
				}
				f.pick = patch.Matching(re)
			}
			if f.interactive {
				if f.match != "" || f.patch != "" || f.dryRun || f.flagged || a.JSON {
					return spec.Errorf(spec.ErrUsage, "--interactive asks about each hunk: --match, --patch, --dry-run, --flagged and --json do not go with it")
				}
				if !a.CanAsk() {
					return spec.Errorf(spec.ErrUsage, "--interactive needs a terminal").WithHint("name files, or select hunks by their text: --match REGEXP")
				}
			}
			if f.patch != "" && (f.dryRun || a.JSON) {
				return spec.Errorf(spec.ErrUsage, "--patch applies nothing: --dry-run and --json do not go with it")
			}
			return a.applyChanges(cmd.Context(), f, args[0], args[1:])
		},
	}
	fs := c.Flags()
	fs.BoolVarP(&f.dryRun, "dry-run", "n", false, "say what would be done, and do nothing")
	fs.BoolVarP(&f.interactive, "interactive", "i", false, "show each hunk, and ask whether it is meant")
	fs.BoolVar(&f.flagged, "flagged", false, "also files that may make something run on this host later")
	fs.StringVar(&f.patch, "patch", "", "apply nothing, and write a patch to this file; - is standard output")
	fs.StringVar(&f.match, "match", "", "of texts only the hunks in whose changed lines this regular expression is found")
	fs.StringArrayVar(&f.overwrite, "overwrite", nil, "this file, although you changed it meanwhile; repeatable")
	cmdline.CompleteFlag(c, "patch", cmdline.FileNames)
	return a.JSONFlag(c)
}

// Results of the command line itself, in addition to those of package review.
const (
	resultFlagged  apply.Result = "flagged"
	resultWouldBe  apply.Result = "would apply"
	resultDeclined apply.Result = "declined"

	resultUnpatched apply.Result = "unpatched" // internal, never printed
)

func (a *app) applyChanges(ctx context.Context, f *applyFlags, ref string, paths []string) error {
	e, sb, list, err := a.review(ref, append(slices.Clone(paths), f.overwriteAlone(paths)...))
	if err != nil {
		return err
	}
	over, err := f.overwritten(list)
	if err != nil {
		return err
	}
	if f.patch != "" {
		return a.writePatchTo(f, sb, list, over)
	}
	t := settlement{app: a}
	q := &inquiry{app: a, from: bufio.NewReader(a.In), terminal: term.IsTerminal(a.In)}
	for i, r := range list {
		orders, err := q.settle(ctx, f, r, over[r])
		if err != nil {
			t.breakOff(list[i:])
			return err
		}
		if f.dryRun {
			if err := t.wouldBe(r, orders); err != nil {
				return err
			}
			continue
		}
		done, err := e.Changes().Apply(sb, r.Workspace, orders)
		t.addOutcome(r, done)
		if err != nil {
			_ = t.printOutcome()
			if n := untouched(done); n > 0 {
				a.Note("%s not looked at any more, waiting as before", cmdline.Counted(n, "change"))
			}
			return err
		}
	}
	if err := t.printOutcome(); err != nil {
		return err
	}
	a.noteKept(list)
	return t.verdict(sb)
}

// overwriteAlone returns the files of --overwrite if the command names paths: they are selected,
// too.
func (f *applyFlags) overwriteAlone(paths []string) []string {
	if len(paths) == 0 {
		return nil
	}
	return f.overwrite
}

// overwritten finds the changes that --overwrite selects. A path that selects none was mistyped and
// is an error.
func (f *applyFlags) overwritten(list []*reviewed) (map[*reviewed]map[string]bool, error) {
	over := map[*reviewed]map[string]bool{}
	for _, p := range f.overwrite {
		found := false
		for _, r := range list {
			s, meant, err := r.Select([]string{p}, r.prefix == "")
			if err != nil {
				return nil, err
			}
			for _, c := range r.changes {
				if !meant || !s.Is(c.Path) {
					continue
				}
				if over[r] == nil {
					over[r] = map[string]bool{}
				}
				over[r][c.Path], found = true, true
			}
		}
		if !found {
			return nil, spec.Errorf(spec.ErrUsage, "--overwrite %s: that path itself has no change", console.Printable(p)).
				WithHint("name files as bothy diff --name-only prints them")
		}
	}
	return over, nil
}

// orders decides about every selected change.
func (a *app) orders(f *applyFlags, r *reviewed, over map[string]bool) (orders []apply.Order) {
	kept := sync.OnceValue(func() apply.Result { return a.decline("apply what git keeps in %s?", r.pathOf(".git")) })
	for _, c := range r.changes {
		if c.Implied && c.Kind == review.Added {
			continue // it is created for the files in it
		}
		o := apply.Order{Change: c, Pick: f.pick, Overwrite: over[c.Path]}
		stays := c.Refused != "" || c.Conflict != "" && !o.Overwrite
		if len(c.Flags) > 0 && !f.flagged && !f.interactive && !stays && !c.Implied {
			o.DeclineReason = strings.Join(reasons(c.Flags), "; ")
			switch {
			case !a.CanAsk() || f.dryRun || f.patch != "":
				o.Declined = resultFlagged
			case c.Kept():
				o.Declined = kept()
			default:
				o.Declined = a.decline("apply %s, %s? %s", r.changeName(c), c.Kind, o.DeclineReason)
			}
		}
		orders = append(orders, o)
	}
	return orders
}

// decline asks the user, and returns the result of a change that the user declines.
func (a *app) decline(question string, args ...any) apply.Result {
	if a.Ask(question, args...) {
		return ""
	}
	return resultDeclined
}

// settlement collects the results of all changes.
type settlement struct {
	app      *app
	discards bool
	lines    []outcome
	counts   map[apply.Result]int
}

// outcome is one result in JSON.
type outcome struct {
	Path      string   `json:"path"`
	Workspace string   `json:"workspace"`
	Kind      string   `json:"kind"`
	Result    string   `json:"result"`
	Why       string   `json:"why,omitempty"`
	Flags     []string `json:"flags"`
	implied   bool
}

func (t *settlement) addOutcome(r *reviewed, done []apply.Outcome) {
	for _, o := range done {
		if o.Result != "" {
			t.addPath(r, o)
		}
	}
}

// untouched counts the changes that were not carried out because of an error, such as a full disk.
func untouched(done []apply.Outcome) (n int) {
	for _, o := range done {
		if o.Result == "" && !o.Implied {
			n++
		}
	}
	return n
}

// breakOff reports which changes were applied, and how many were not, when the user interrupts a
// question.
func (t *settlement) breakOff(left []*reviewed) {
	n := 0
	for _, r := range left {
		for _, c := range r.changes {
			if !c.Implied {
				n++
			}
		}
	}
	what := "nothing was applied"
	if len(t.lines) > 0 {
		what = "nothing more was applied"
		_ = t.printOutcome()
	}
	t.app.Note("%s; waiting as before: %s", what, cmdline.Counted(n, "change"))
}

func (t *settlement) addPath(r *reviewed, o apply.Outcome) {
	if t.counts == nil {
		t.counts = map[apply.Result]int{}
	}
	t.counts[o.Result]++
	t.lines = append(t.lines, outcome{
		Path: r.changeName(o.Change), Workspace: r.Source, Kind: string(o.Kind), Result: string(o.Result), Why: o.Why,
		Flags: reasons(o.Flags), implied: o.Implied && slices.Contains([]apply.Result{apply.Applied, resultWouldBe, apply.Left, apply.Discarded}, o.Result),
	})
}

// wouldBe adds the results that orders would have.
func (t *settlement) wouldBe(r *reviewed, orders []apply.Order) error {
	list, err := apply.Foresee(r.Workspace, orders)
	for i := range list {
		if list[i].Result == apply.Applied {
			list[i].Result = resultWouldBe
		}
	}
	t.addOutcome(r, list)
	return err
}

func (t *settlement) printOutcome() error {
	if t.app.JSON {
		list := t.lines
		if list == nil {
			list = []outcome{}
		}
		return t.app.PrintJSON(map[string]any{"outcomes": list})
	}
	for _, l := range t.lines {
		if l.implied {
			continue
		}
		line := l.Result + " " + l.Path
		if l.Why != "" {
			line += ": " + console.Printable(l.Why)
		}
		if _, err := fmt.Fprintln(t.app.Out, line); err != nil {
			return err
		}
	}
	return nil
}

// verdict returns the error the command ends with: the gravest result, with a hint for each kind of
// result.
func (t *settlement) verdict(sb *spec.Sandbox) error {
	name := sb.Name
	var first *spec.Error
	var hints []string
	note := func(r apply.Result, class error, what, hint string) {
		n := t.counts[r]
		if n == 0 {
			return
		}
		if first == nil {
			first = spec.Errorf(class, "%s %s", cmdline.Counted(n, "change"), what)
		} else {
			hint = fmt.Sprintf("%s %s: %s", cmdline.Counted(n, "change"), what, hint)
		}
		hints = append(hints, hint)
	}
	note(apply.Conflicts, spec.ErrConflict, "left: in conflict with what you have now",
		fmt.Sprintf("look at them: bothy diff %s PATH; take the sandbox's: bothy apply %s --overwrite PATH PATH; keep yours: bothy discard %s PATH", name, name, name))
	failed, instead := "could not be applied", "what cannot be written here, make writable: chmod u+w; what cannot be read inside: bothy exec %s chmod u+rwX PATH"
	if t.discards {
		failed, instead = "could not be discarded", "all of it goes with: bothy discard %s"
	}
	note(apply.Failed, nil, failed, "each has its reason beside it; "+fmt.Sprintf(instead, name))
	note(resultFlagged, spec.ErrDenied, "left: it may make something run on this host later",
		fmt.Sprintf("look at them: bothy diff %s PATH; then: bothy apply %s --flagged PATH", name, name))
	if first == nil { // otherwise the hint for the change they depend on was given
		note(apply.Left, spec.ErrConflict, "left: each goes with one that is not applied", "each has its reason beside it: name both")
	}
	if first == nil {
		return nil
	}
	return first.WithHint("%s", strings.Join(hints, "; "))
}
