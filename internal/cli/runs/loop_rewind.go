package runs

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/checkpoints"
	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/cli/runview"
	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/notify"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/runner"
	"github.com/bothy-dev/bothy/internal/runstate"
	"github.com/bothy-dev/bothy/internal/snapshot"
	"github.com/bothy-dev/bothy/spec"
)

func loopRewindCommand(a *app) *cobra.Command {
	var hint string
	var force bool
	c := &cobra.Command{
		Use: "rewind [-f] [RUN] N", Short: "Have a loop go on from where iteration N ended",
		Long: "Puts the files of the sandbox back to the checkpoint of iteration N, and has the loop wait\nthere: bothy loop resume goes on with the next. 0 is before the first. The files until\nnow are kept as a checkpoint of their own. Tasks that were closed later are open again.\nUsage stays counted. Without RUN it is the newest.",
		Args: between(1, 2, "the number of an iteration, and before it a run, unless it is the newest"), ValidArgsFunction: a.oneRun(run.Loops),
		RunE: func(cmd *cobra.Command, args []string) error {
			last := len(args) - 1
			n, err := iterationArg(cmd, args[last])
			if err != nil {
				return err
			}
			l, err := a.loopMeant(args[:last])
			if err != nil {
				return err
			}
			h, events, err := l.Run.Host()
			if err != nil {
				return err
			}
			defer h.Close()
			return a.rewind(cmd, l, h, events, n, force, hint)
		},
	}
	c.Flags().StringVar(&hint, "hint", "", "tell the next iteration something")
	c.Flags().BoolVarP(&force, "force", "f", false, "do not ask")
	return a.JSONFlag(c)
}

// rewind rewinds a loop that this process holds.
func (a *app) rewind(cmd *cobra.Command, l *runstate.Loop, h *run.Host, events []run.Event, n int, force bool, hint string) error {
	var err error
	if l.State, err = loop.Fold(events); err != nil {
		return err
	}
	if l.State.Status == run.Cancelled {
		return l.CheckOpen()
	}
	b, err := loop.Behind(events, n)
	if err != nil {
		return err
	}
	sb, err := l.Workplace()
	if err != nil {
		return err
	}
	p, err := cmdline.Snapshots(l.Engine).Checkpoints(sb).Find(strconv.FormatInt(b.Checkpoint, 10))
	if errors.Is(err, spec.ErrNotFound) {
		err = spec.Errorf(spec.ErrNotFound, "checkpoint %d, which iteration %d ended with, was removed", b.Checkpoint, n)
	}
	if err == nil && !force {
		err = checkpoints.WantsBack(a.Console, sb, p, snapshot.RestoreOptions{}, "add -f, or run it in a terminal, where it asks")
	}
	if err != nil {
		return err
	}
	if hint != "" {
		if err := l.Run.Leave(run.Message{Kind: run.Hint, Text: hint, Actor: runstate.Actor()}); err != nil {
			return err
		}
	}
	back := &loop.Loop{Plan: &l.Plan, Run: l.Run, Host: h, Runner: runner.NewLoop(hosting{a, l.Engine}, l.Engine, cmdline.Snapshots(l.Engine), sb, nil, &l.Plan, nil, l.Run.Originals()), Queue: runstate.TaskQueueOf(l.Engine, &l.Plan, l.Run)}
	if l.State, err = back.Rewind(cmd.Context(), events, b, runstate.Actor()); err != nil {
		return err
	}
	h.Close() // a notified program may resume it at once
	if len(l.State.Beneath) > 0 {
		a.Note("below the restored files %s; the verdicts of then no longer hold: the gates are asked after the next iteration", runview.BeneathText(l.State))
	}
	told := runstate.NoticeOfEnd(l.Notice(), &l.State.Result)
	told.Event = notify.Rewound
	a.notify(context.WithoutCancel(cmd.Context()), l.Engine, told)
	if a.JSON {
		l.Hosted = false
		return a.PrintJSON(l.View())
	}
	fmt.Fprintln(a.Out, l.Run.ID)
	return nil
}
