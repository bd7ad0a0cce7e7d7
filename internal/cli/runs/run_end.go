package runs

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/cli/runview"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/runstate"
	"github.com/bothy-dev/bothy/spec"
)

// Ends runs and removes them: stop and rm of loops and flows.

func runStopCommand(a *app, k *runKind, meant func(named []string) (runstate.Run, error)) *cobra.Command {
	return &cobra.Command{
		Use: "stop [RUN]", Short: k.stop, Long: k.stopped, Args: cmdline.AtMost(1, "a run"), ValidArgsFunction: a.oneRun(k.name),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := meant(args)
			if err != nil {
				return err
			}
			r := l.Recorded()
			err = a.launcher(r.Engine).Stop(cmd.Context(), l)
			if err == nil {
				fmt.Fprintln(a.Out, r.Run.ID)
			}
			if l, ok := l.(*runstate.Loop); ok && r.Ours { // otherwise the process that runs it tells
				if text := runview.UntoldText(r.Run.ID, l.State); text != "" {
					a.Note("%s", text)
				}
			}
			return err
		},
	}
}

func runRmCommand(a *app, k *runKind) *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use: "rm [-f] RUN...", Aliases: []string{"remove", "delete"}, Short: k.remove,
		Args: cmdline.AtLeast(1, "a run"), ValidArgsFunction: a.oneRun(k.name),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.eachRun(args, func(ref string) (*run.Run, error) {
				e, r, err := a.findRun(k, ref)
				if err != nil {
					return nil, err
				}
				l, err := runstate.Read(e, r)
				if err != nil {
					return r, a.removeUnread(r, force, err)
				}
				return r, a.launcher(e).Remove(cmd.Context(), l)
			})
		},
	}
	c.Flags().BoolVarP(&force, "force", "f", false, "also one that cannot be read; its sandboxes stay")
	return c
}

// removeUnread removes all records of an unreadable run, with force. It cannot know the run's
// sandboxes.
func (a *app) removeUnread(r *run.Run, force bool, why error) error {
	if !force || errors.Is(why, spec.ErrConflict) {
		return why
	}
	if err := r.Remove(); err != nil {
		return err
	}
	a.Note("%v: its record is removed; bothy ls shows the remaining sandboxes", why)
	return nil
}
