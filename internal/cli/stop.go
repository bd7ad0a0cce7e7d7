package cli

import (
	"fmt"
	"time"

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
				if force || !a.CanAsk() {
					return runstate.RemoveSandbox(cmd.Context(), e, sb, force)
				}
				if needs == nil {
					needs = runstate.Needing(e)
				}
				lost, _ := runstate.LostWith(e, sb, needs(sb))
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
