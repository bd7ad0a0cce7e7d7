package runs

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/checkpoints"
	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/notify"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/runner"
	"github.com/bothy-dev/bothy/internal/snapshot"
	"github.com/bothy-dev/bothy/spec"
)

func loopRewindCommand(a *app) *cobra.Command {
	var hint string
	var force bool
	c := &cobra.Command{
		Use: "rewind [-f] [RUN] N", Short: "Have a loop go on from where iteration N ended",
		Long: "Puts the files of the sandbox back to the checkpoint of iteration N, and has the loop wait\nthere: bothy loop resume goes on with the next. 0 is before the first. What there was is\nkept as a checkpoint of its own. Tasks that were closed later are open again. What was\nused stays used. Without RUN it is the newest.",
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
			h, events, err := l.run.Host()
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
func (a *app) rewind(cmd *cobra.Command, l *loopRun, h *run.Host, events []run.Event, n int, force bool, hint string) error {
	var err error
	if l.state, err = loop.Fold(events); err != nil {
		return err
	}
	if l.state.Status == run.Cancelled {
		return l.open()
	}
	b, err := loop.Behind(events, n)
	if err != nil {
		return err
	}
	sb, err := l.workplace()
	if err != nil {
		return err
	}
	p, err := cmdline.Snapshots(l.engine).Checkpoints(sb).Find(strconv.FormatInt(b.Checkpoint, 10))
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
		if err := l.run.Leave(run.Message{Kind: run.Hint, Text: hint, Actor: actor()}); err != nil {
			return err
		}
	}
	back := &loop.Loop{Plan: &l.plan, Run: l.run, Host: h, Runner: runner.NewLoop(hosting{a, l.engine}, l.engine, cmdline.Snapshots(l.engine), sb, nil, &l.plan, nil, l.run.Originals()), Queue: taskQueueOf(l.engine, &l.plan, l.run)}
	if l.state, err = back.Rewind(cmd.Context(), events, b, actor()); err != nil {
		return err
	}
	h.Close() // a notified program may resume it at once
	if len(l.state.Beneath) > 0 {
		a.Note("below what is put back %s; what the gates said then holds no more: they are asked after the next iteration", beneathText(l.state))
	}
	told := noticeOfEnd(l.notice(), &l.state.Result)
	told.Event = notify.Rewound
	a.notify(context.WithoutCancel(cmd.Context()), l.engine, told)
	if a.JSON {
		l.hosted = false
		return a.PrintJSON(l.view())
	}
	fmt.Fprintln(a.Out, l.run.ID)
	return nil
}
