package runs

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/notify"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/runner"
	"github.com/bothy-dev/bothy/spec"
)

func loopCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "loop", Aliases: []string{"loops"}, Short: "Have an agent work until checks out of its reach agree",
		Long: "Has an agent work at one task again and again, each time with a fresh memory, until it\nsays that it is done and commands of yours agree, on a copy of the files that it cannot\nreach. What was done is on the disk before the next step begins.",
	}
	c.AddCommand(loopRunCommand(a), runLsCommand(a, loops), loopStatusCommand(a), runWatchCommand(a, loops), loopLogCommand(a), loopHintCommand(a),
		runStopCommand(a, loops, func(named []string) (AnyRun, error) { return a.loopMeant(named) }), loopPauseCommand(a), loopResumeCommand(a), loopRewindCommand(a),
		runRmCommand(a, loops), loopSchemaCommand(a))
	return c
}

// loopRun is an existing loop.
type loopRun struct {
	runRecord
	plan  loopplan.Plan
	state *loop.State
	spent []loop.Spent // by iteration
	pause bool         // a user asked for a pause that is still due
}

func (l *loopRun) progress() runState { return l.state }

func (l *loopRun) result() *run.Result { return &l.state.Result }

func (l *loopRun) standing() run.Result { return standingOf(l.state, l.state.Result) }

func (l *loopRun) notice() notify.Notice { return l.noticeIn(l.plan.Directory) }

// readLoop reads the state of a loop. A loop that is recorded as running but has no host was
// interrupted.
func readLoop(e *engine.Engine, r *run.Run) (*loopRun, error) {
	l := &loopRun{runRecord: runRecord{engine: e, run: r}}
	mail, err := l.read(&l.plan, func(events []run.Event) (err error) {
		if err = l.fold(events); err == nil {
			l.spent, err = loop.Ledger(events)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	l.noteCrash(&l.state.Result, l.state.Ready)
	l.pause = l.state.Expect(mail) && l.hosted
	return l, nil
}

// fold computes the state from events.
func (l *loopRun) fold(events []run.Event) (err error) {
	if l.state, err = loop.Fold(events); err == nil {
		l.raised, err = run.Raises(events)
	}
	l.plan.Raise(l.raised)
	return err
}

// more reports whether a loop stopped at a limit that was raised since.
func (l *loopRun) more() bool {
	return l.state.Status == run.Limited && loop.Reached(&l.plan, l.state) == nil
}

// loopView is the state of a loop in JSON.
type loopView struct {
	runHead
	*loop.State
	Until      time.Time      `json:"until,omitzero"`
	Hints      []string       `json:"hints"`
	Workers    []workerView   `json:"workers,omitempty"`
	Iterations []loop.Spent   `json:"iterations"` // usage of each
	Plan       *loopplan.Plan `json:"plan"`
}

func (l *loopRun) view() any { return l.viewed() }

func (l *loopRun) viewed() loopView {
	return loopView{
		runHead: headOf(l), State: l.state, Until: delayOf(l.state).Until, Hints: append([]string{}, l.state.Hints...), Workers: workersOf(l.state),
		Iterations: append([]loop.Spent{}, l.spent...), Plan: &l.plan,
	}
}

// actor returns the name under which a person talks to a run.
func actor() string {
	return cmp.Or(os.Getenv("BOTHY_ACTOR"), os.Getenv("USER"), fmt.Sprint("uid-", os.Getuid()))
}

// undone refuses nothing: a loop that is completed has ended for good.
func (l *loopRun) undone() error { return nil }

// untold describes hints that no iteration got.
func (l *loopRun) untold() string { return untoldText(l.run.ID, l.state) }

// open refuses to talk to a loop that has ended for good.
func (l *loopRun) open() error {
	s := l.state
	if !s.Final() {
		return nil
	}
	err := spec.Errorf(spec.ErrConflict, "the run %s has ended: %s", l.run.ID, s.Status)
	if s.Status == run.Limited {
		return err.WithHint("%s goes on, with more than what is used", raising(run.Loops, l.run.ID, s.Reason))
	}
	if s.Status != run.Cancelled && len(s.Workers) == 0 {
		return err.WithHint("bothy loop rewind %s N goes on from an earlier iteration, bothy loop run begins another one", l.run.ID)
	}
	return err.WithHint("bothy loop run begins another one")
}

func loopHintCommand(a *app) *cobra.Command {
	var clear bool
	c := &cobra.Command{
		Use: "hint [RUN] TEXT|--clear", Short: "Tell the next iteration something; without RUN of the newest loop", ValidArgsFunction: a.oneRun(run.Loops),
		Example: "  bothy loop hint RUN 'look at the parser first'\n  bothy loop hint --clear RUN",
		Args: func(cmd *cobra.Command, args []string) error {
			if clear {
				return cmdline.AtMost(1, "a run beside --clear")(cmd, args)
			}
			return between(1, 2, "a text, and before it a run, unless it is the newest")(cmd, args)
		},
		RunE: func(_ *cobra.Command, args []string) error {
			named, m := args, run.Message{Kind: run.Clear, Actor: actor()}
			if !clear {
				named, m = args[:len(args)-1], run.Message{Kind: run.Hint, Text: args[len(args)-1], Actor: actor()}
				if strings.TrimSpace(m.Text) == "" {
					return spec.Errorf(spec.ErrUsage, "the hint is empty").WithHint("--clear takes back what no iteration was told yet")
				}
				if len(named) == 0 {
					if err := a.notARun(run.Loops, m.Text, "bothy loop hint RUN TEXT"); err != nil {
						return err
					}
				}
			}
			l, err := a.loopMeant(named)
			if err == nil {
				err = l.open()
			}
			if err == nil {
				err = l.run.Leave(m)
			}
			if err == nil {
				fmt.Fprintln(a.Out, l.run.ID)
			}
			return err
		},
	}
	c.Flags().BoolVar(&clear, "clear", false, "take back what no iteration was told yet")
	return c
}

func loopPauseCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "pause [RUN]", Short: "Have a loop wait for you after its iteration; without RUN the newest",
		Long: "Has the process that carries a loop on end with code 7 as soon as its iteration is over.\nbothy loop resume goes on.",
		Args: cmdline.AtMost(1, "a run"), ValidArgsFunction: a.oneRun(run.Loops),
		RunE: func(_ *cobra.Command, args []string) error {
			l, err := a.loopMeant(args)
			if err == nil {
				err = l.open()
			}
			if err == nil && !l.hosted {
				err = spec.Errorf(spec.ErrConflict, "nobody carries the run %s on: %s", l.run.ID, l.state.Status)
			}
			if err == nil {
				err = l.run.Leave(run.Message{Kind: run.Pause, Actor: actor()})
			}
			if err == nil {
				fmt.Fprintln(a.Out, l.run.ID)
			}
			return err
		},
	}
}

// sandboxes returns the IDs of the sandboxes that a loop works in.
func (l *loopRun) sandboxes() []string {
	ids := []string{l.plan.Sandbox}
	for _, at := range l.state.Places {
		ids = append(ids, at.ID)
	}
	return ids
}

func (l *loopRun) inUse() []string { return l.sandboxes() }

// needs returns the sandboxes of a loop, unless it is over for good.
func (l *loopRun) needs() []string {
	if !l.hosted && l.state.Final() && l.state.Status != run.Limited {
		return nil
	}
	return l.sandboxes()
}

// stop ends an orphaned loop, and lets others take its tasks.
func (l *loopRun) stop(h *run.Host, events []run.Event) (err error) {
	c := &loop.Loop{Plan: &l.plan, Run: l.run, Host: h, Queue: taskQueueOf(l.engine, &l.plan, l.run)}
	l.state, err = c.Stop(events, actor())
	return err
}

// tidy removes the workers' sandboxes.
func (l *loopRun) tidy(context.Context) (kept []string, err error) {
	return nil, runner.Unmake(l.engine, workplaces(l.state))
}

// clear removes the workers' sandboxes, which would be orphans without the loop. If the loop was
// never ready, it removes all its sandboxes except those started since.
func (l *loopRun) clear(ctx context.Context) (kept []string, err error) {
	if l.state.Ready {
		return l.tidy(ctx)
	}
	return removeUntouched(l.engine, l.sandboxes()...)
}
