package reviews

import (
	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/review/quote"
	"github.com/bothy-dev/bothy/spec"
)

func (a *app) discardCommand() *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use:   "discard [-f] SANDBOX [PATH...]",
		Short: "Throw away what a sandbox changed and you have not applied",
		Long:  "Throws away what a sandbox made with --workspace review has changed and you have not\napplied: all of it, or what PATHs name. It then sees your files as they are. The\nsandbox must be stopped.",
		Args:  cmdline.AtLeast(1, "a sandbox"), ValidArgsFunction: a.OneSandbox,
		RunE: func(_ *cobra.Command, args []string) error {
			e, sb, list, err := a.discarded(args[0], args[1:])
			if err != nil {
				return err
			}
			what := manyOf(list)
			if what == "" {
				if len(args) == 1 && e.Status(sb).State == spec.Stopped {
					if err := forgetAll(e, sb, list); err != nil {
						return err
					}
				}
				return (&settlement{app: a}).printOutcome()
			}
			if !force && !a.CanAsk() {
				return spec.Errorf(spec.ErrUsage, "discard would throw %s away", what).
					WithHint("add -f, or run it in a terminal, where it asks")
			}
			if !force && !a.Ask("throw %s of sandbox %s away?", what, sb.Name) {
				return spec.Errorf(spec.ErrDenied, "nothing was discarded")
			}
			t := settlement{app: a, discards: true}
			for _, r := range list {
				if err := a.discardIn(e, sb, r, &t); err != nil {
					_ = t.printOutcome()
					return err
				}
			}
			if err := t.printOutcome(); err != nil {
				return err
			}
			return t.verdict(sb)
		},
	}
	c.Flags().BoolVarP(&force, "force", "f", false, "do not ask")
	return a.JSONFlag(c)
}

// discarded finds the changes to discard. Without a path these are all, including git's own files,
// even if they cannot be listed.
func (a *app) discarded(ref string, paths []string) (*engine.Engine, *spec.Sandbox, []*reviewed, error) {
	if len(paths) > 0 {
		return a.review(ref, paths)
	}
	e, sb, list, err := a.reviewed(ref)
	for _, r := range list {
		r.changes, r.unlisted = r.Changes()
	}
	return e, sb, list, err
}

// manyOf says how much would be discarded, or "" for nothing.
func manyOf(list []*reviewed) string {
	count := 0
	for _, r := range list {
		if r.unlisted != nil {
			return "all changes (they cannot be listed: " + console.Printable(r.unlisted.Error()) + ")"
		}
		for _, c := range r.changes {
			if !c.Implied {
				count++
			}
		}
	}
	if count == 0 {
		return ""
	}
	return cmdline.Counted(count, "change")
}

// forgetAll empties layers that show no changes. The host has the same contents now, but may change
// them one day.
func forgetAll(e *engine.Engine, sb *spec.Sandbox, list []*reviewed) error {
	for _, r := range list {
		if err := e.Changes().DiscardAll(sb, r.Workspace); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) discardIn(e *engine.Engine, sb *spec.Sandbox, r *reviewed, t *settlement) error {
	if r.unlisted != nil {
		if err := e.Changes().DiscardAll(sb, r.Workspace); err != nil {
			return err
		}
		a.Note("all changes in %s were discarded", quote.Path(r.Source))
		return nil
	}
	done, err := e.Changes().Discard(sb, r.Workspace, r.changes)
	t.addOutcome(r, done)
	return err
}
