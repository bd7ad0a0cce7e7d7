package runs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

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
			if err == nil {
				err = l.CheckOpen()
			}
			if err == nil {
				err = l.CheckUndone()
			}
			if err != nil {
				return err
			}
			err = a.stopRun(cmd.Context(), l)
			if r := l.Recorded(); r.Ours { // otherwise the process that runs it notifies
				if l, ok := l.(*runstate.Loop); ok {
					if text := runview.UntoldText(r.Run.ID, l.State); text != "" {
						a.Note("%s", text)
					}
				}
				a.notify(context.WithoutCancel(cmd.Context()), r.Engine, runstate.NoticeOfEnd(l.Notice(), l.Result()))
			}
			return err
		},
	}
}

// stopRun ends a run. It leaves a message for the process that runs it, and ends an orphaned run here.
func (a *app) stopRun(ctx context.Context, l runstate.Run) error {
	r := l.Recorded().Run
	if err := r.Leave(run.Message{Kind: run.Stop, Actor: runstate.Actor()}); err != nil {
		return err
	}
	for !l.Progress().Final() {
		if err := runstate.Cancel(l); err != nil {
			return err
		}
		if l.Progress().Final() {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(runstate.PollEvery):
		}
	}
	fmt.Fprintln(a.Out, r.ID)
	return nil
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
				return r, a.removeRun(cmd.Context(), l)
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

// removeRun removes a run that no process is running, with the sandboxes that belong to it. They would
// be orphans without it.
func (a *app) removeRun(ctx context.Context, l runstate.Run) error {
	h, events, err := l.Recorded().Run.Host()
	if err != nil {
		return err
	}
	defer h.Close()
	if err := l.Fold(events); err != nil {
		return err
	}
	kept, err := runstate.Erase(ctx, l, h)
	if err == nil && len(kept) > 0 {
		a.Note("sandboxes that were started since stay: bothy rm %s", strings.Join(kept, " "))
	}
	return err
}
