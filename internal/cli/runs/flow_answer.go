package runs

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/flow"
	"github.com/bothy-dev/bothy/internal/gate"
	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/runstate"
	"github.com/bothy-dev/bothy/spec"
)

func flowApproveCommand(a *app) *cobra.Command {
	var reject string
	c := &cobra.Command{
		Use: "approve [RUN [STEP]]", Short: "Decide what a flow waits for",
		Long: "Approves what the flow asks about, or rejects it. STEP must be named if there are several,\nand RUN if several flows wait to be approved. Approval covers the present state: if that has changed since the question, it is a\nconflict. bothy flow resume goes on, unless a process carries the flow on: that one hears it.",
		Args: cmdline.AtMost(2, "a run, and a step if several wait"), ValidArgsFunction: a.oneRun(run.Flows),
		RunE: func(cmd *cobra.Command, args []string) error {
			step := ""
			if len(args) > 1 {
				step, args = args[1], args[:1]
			}
			return a.tellFlowTo(cmd.Context(), args, true, func(p *flow.Person) (*flow.State, error) {
				return p.Decide(step, !cmd.Flags().Changed("reject"), reject)
			})
		},
	}
	c.Flags().StringVar(&reject, "reject", "", "do not approve, for this reason: the step has failed then")
	return a.JSONFlag(c)
}

func flowAnswerCommand(a *app) *cobra.Command {
	var file string
	c := &cobra.Command{
		Use: "answer [RUN [STEP]] TEXT|-f FILE", Short: "Answer what a flow asks",
		Long: "Answers a question of the flow: TEXT, or the content of --file, is the output of the step,\nand must pass its checks. STEP must be named if several wait, and RUN\nif several flows do. bothy flow resume goes on.",
		Args: cmdline.AtMost(3, "a run, a step if several wait, and a text"), ValidArgsFunction: a.oneRun(run.Flows),
		RunE: func(cmd *cobra.Command, args []string) error {
			var text string
			switch {
			case file != "":
				data, err := a.ReadFile(file, gate.MaxBytes)
				if err != nil {
					return hostpath.NotOpened(spec.ErrUsage, "read "+file, err)
				}
				text = string(data)
			case len(args) > 0:
				text, args = args[len(args)-1], args[:len(args)-1]
				if len(args) == 0 {
					if err := a.notARun(run.Flows, text, "bothy flow answer RUN TEXT"); err != nil {
						return err
					}
				}
			default:
				return spec.Errorf(spec.ErrUsage, "the answer is missing").WithHint("usage: %s", cmd.UseLine())
			}
			step := ""
			if len(args) > 1 {
				step, args = args[1], slices.Delete(args, 1, 2)
			}
			if len(args) > 1 {
				return spec.Errorf(spec.ErrUsage, "there is an answer in --file, and one in words")
			}
			return a.tellFlowTo(cmd.Context(), args, false, func(p *flow.Person) (*flow.State, error) { return p.Answer(step, text) })
		},
	}
	c.Flags().StringVarP(&file, "file", "f", "", "read the answer from this file")
	cmdline.CompleteFlag(c, "file", cmdline.FileNames)
	return a.JSONFlag(c)
}

// tellFlowTo records a person's answer to a flow that waits for an approval or a question.
func (a *app) tellFlowTo(ctx context.Context, named []string, approval bool, say func(*flow.Person) (*flow.State, error)) error {
	what := "waits for an answer"
	if approval {
		what = "waits to be approved"
	}
	l, err := a.flowMeant(named, func(l *runstate.Flow) bool { return l.WaitsFor(approval) }, what)
	if err == nil {
		err = l.CheckOpen()
	}
	if err != nil {
		return err
	}
	heard, err := l.RecordAnswer(ctx, &flow.Person{Plan: &l.Plan, Run: l.Run, Name: runstate.Actor()}, say)
	if err != nil {
		return l.CheckRemoved(err)
	}
	if l, err = runstate.ReadFlow(l.Engine, l.Run); err != nil {
		return err
	}
	if a.JSON {
		return a.PrintJSON(l.View())
	}
	fmt.Fprintln(a.Out, l.Run.ID)
	if heard && (l.Hosted || l.State.Over()) {
		a.Note("kept by the process that carries it on")
		return nil
	}
	a.Note("kept; bothy flow resume %s goes on", l.Run.ID)
	return nil
}
