package cli

import (
	"fmt"
	"time"

	"github.com/bothy-dev/bothy/internal/clone"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/runstate"
	"github.com/bothy-dev/bothy/internal/task/book"
	"github.com/bothy-dev/bothy/spec"
)

func (a *app) stopCommand() *cobra.Command {
	var grace time.Duration
	var all bool
	c := &cobra.Command{
		Use: "stop SANDBOX...", SuggestFor: []string{"kill", "pause", "suspend"}, Short: "Stop sandboxes, keeping their state",
		ValidArgsFunction: a.SandboxNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			if grace < 0 {
				return spec.Errorf(spec.ErrUsage, "--timeout is %s: it cannot be less than 0s", grace)
			}
			return a.eachSandbox(args, all, func(e *engine.Engine, sb *spec.Sandbox) error {
				return e.Stop(cmd.Context(), sb, grace)
			})
		},
	}
	c.Flags().DurationVar(&grace, "timeout", 2*time.Second, "how long programs get to end; 0s: no time")
	c.Flags().BoolVar(&all, "all", false, "all sandboxes")
	return c
}

func (a *app) rmCommand() *cobra.Command {
	var force, all bool
	c := &cobra.Command{
		Use: "rm SANDBOX...", Aliases: []string{"remove", "delete"},
		Short:             "Remove sandboxes and everything in them but your directories",
		ValidArgsFunction: a.SandboxNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			var needs func(*spec.Sandbox) runstate.Run
			return a.eachSandbox(args, all, func(e *engine.Engine, sb *spec.Sandbox) error {
				if force {
					return e.Remove(cmd.Context(), sb, true)
				}
				if needs == nil {
					needs = runstate.Needing(e)
				}
				lost, err := lostWith(e, sb, needs(sb))
				if err != nil && !a.CanAsk() {
					return err
				}
				if !a.Ask("remove sandbox %s, its home and its installed programs%s?", sb.Name, lost) {
					return spec.Errorf(spec.ErrDenied, "%s was not removed", sb.Name)
				}
				return e.Remove(cmd.Context(), sb, false)
			})
		},
	}
	c.Flags().BoolVarP(&force, "force", "f", false, "do not ask, and remove it even when in use, or when a loop or flow needs it")
	c.Flags().BoolVar(&all, "all", false, "all sandboxes")
	return c
}

// lostWith describes what would be lost with a sandbox, and by is the run that needs it or nil: in words
// for a question, and as the errors against its removal.
func lostWith(e *engine.Engine, sb *spec.Sandbox, by runstate.Run) (lost string, err error) {
	var errs []error
	note := func(words string, err error) { lost, errs = lost+words, append(errs, err) }
	if e.Changes().Pending(sb) {
		note(pending(e, sb))
	}
	if by != nil {
		note(runstate.RunNeeds(by, sb))
	}
	return lost, console.Join(errs)
}

// pending describes the work that would be lost with a sandbox: in words for a question, and as the
// error against its removal.
func pending(e *engine.Engine, sb *spec.Sandbox) (string, error) {
	if sb.Broken != "" {
		ways := "remove it with all that is in it: bothy rm -f " + sb.Name
		if sb.Mend != "" {
			ways = sb.Mend + ", or " + ways
		}
		return ", with work that may be in it, for it is broken (" + console.Printable(sb.Broken) + ")",
			spec.Errorf(spec.ErrConflict, "sandbox %s is broken, and may have work in it: %s", sb.Name, sb.Broken).WithHint("%s", ways)
	}
	if half := e.Whole(sb); half != nil {
		return ", with files that are half of a checkpoint", (&spec.Error{Err: half}).WithHint("%s; or remove it as it is: bothy rm -f %s", spec.Hint(half), sb.Name)
	}
	if sb.Mode() == spec.WorkspaceClone && e.Changes().CloneWork(sb) == clone.InFiles {
		return ", with files in its clone that are not committed", spec.Errorf(spec.ErrConflict, "sandbox %s has files in its clone that are not committed", sb.Name).
			WithHint("look: bothy exec %s git status; have them: commit them there, then bothy fetch %s; remove it with them: bothy rm -f %s", sb.Name, sb.Name, sb.Name)
	}
	if sb.Mode() == spec.WorkspaceClone {
		return ", with work in its clone that you have not fetched", spec.Errorf(spec.ErrConflict, "sandbox %s has work in its clone that was not fetched", sb.Name).
			WithHint("have the commits: bothy fetch %s; look: bothy exec %s git status; remove it with them: bothy rm -f %s", sb.Name, sb.Name, sb.Name)
	}
	return ", with changes that you have not applied", spec.Errorf(spec.ErrConflict, "sandbox %s has changes that are neither applied nor discarded", sb.Name).
		WithHint("look at them: bothy diff --stat %s; at what git keeps, such as commits: bothy diff --stat %s .git, bothy fetch %s; remove it with them: bothy rm -f %s", sb.Name, sb.Name, sb.Name, sb.Name)
}

// eachSandbox calls do for every named sandbox, and prints the name of each success. It continues after a
// failure.
func (a *app) eachSandbox(names []string, all bool, do func(*engine.Engine, *spec.Sandbox) error) error {
	e, err := a.Engine()
	if err != nil {
		return err
	}
	targets, errs := a.targets(e, names, all)
	if len(targets) == 0 && len(errs) == 0 && !all {
		return spec.Errorf(spec.ErrUsage, "name a sandbox, or use --all")
	}
	for _, sb := range targets {
		if err := do(e, sb); err != nil {
			errs = append(errs, err)
			continue
		}
		fmt.Fprintln(a.Out, sb.Name)
	}
	return console.Join(errs)
}

func (a *app) targets(e *engine.Engine, names []string, all bool) (list []*spec.Sandbox, errs []error) {
	if all {
		infos, err := e.List()
		if err != nil {
			return nil, []error{err}
		}
		for _, i := range infos {
			list = append(list, i.Spec)
		}
		return list, nil
	}
	for _, name := range names {
		sb, err := e.Find(name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		list = append(list, sb)
	}
	return list, errs
}

func (a *app) resetCommand() *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use: "reset", Short: "Remove every sandbox and all of Bothy's state", Args: cmdline.Exactly(0, "no arguments"),
		RunE: a.OnEngine(func(cmd *cobra.Command, _ []string, e *engine.Engine) error {
			list, err := e.List()
			if err != nil {
				return err
			}
			projects := 0
			if !force { // with force no question needs the count, and unreadable projects go, too
				if projects, err = book.CountProjects(cmd.Context(), e.Store.Tasks()); err != nil {
					return err
				}
			}
			if !force && !a.CanAsk() {
				return spec.Errorf(spec.ErrUsage, "reset would remove %s with all that is in them, the tasks of %s, and everything in %s",
					cmdline.Counted(len(list), "sandbox"), cmdline.Counted(projects, "project"), e.Store.Path()).
					WithHint("add --force, or run it in a terminal, where it asks")
			}
			if !force && !a.Ask("remove %s, the tasks of %s, and everything in %s?", cmdline.Counted(len(list), "sandbox"), cmdline.Counted(projects, "project"), e.Store.Path()) {
				return spec.Errorf(spec.ErrDenied, "nothing was removed")
			}
			gone, err := e.Reset(cmd.Context())
			for _, name := range gone {
				fmt.Fprintln(a.Out, name)
			}
			return err
		}),
	}
	c.Flags().BoolVarP(&force, "force", "f", false, "do not ask")
	return c
}
