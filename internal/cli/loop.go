package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/runner"
	"github.com/bothy-dev/bothy/spec"
)

func (a *app) loopCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "loop", Aliases: []string{"loops"}, Short: "Have an agent work until checks out of its reach agree",
		Long: "Has an agent work at one task again and again, each time with a fresh memory, until it\nsays that it is done and commands of yours agree, on a copy of the files that it cannot\nreach. What was done is on the disk before the next step begins.",
	}
	c.AddCommand(a.loopRunCommand(), a.loopLsCommand(), a.loopStatusCommand(), a.loopWatchCommand(), a.loopLogCommand(), a.loopHintCommand(),
		a.loopStopCommand(), a.loopPauseCommand(), a.loopResumeCommand(), a.loopRewindCommand(), a.loopRmCommand(), a.loopSchemaCommand())
	return c
}

// loopRun is an existing loop.
type loopRun struct {
	engine *engine.Engine
	run    *run.Run
	plan   loop.Plan
	since  time.Time
	events []run.Event
	state  *loop.State
	spent  []loop.Spent // by iteration
	raised *run.Limits  // raised limits; nil: none
	hosted bool
	pause  bool // a user asked for a pause that is still due
	ours   bool // this process ended it
}

// notice returns the fields that every notice about the loop has.
func (l *loopRun) notice() engine.Notice {
	return engine.Notice{Run: l.run.ID, Kind: l.run.Kind, Directory: l.plan.Directory}
}

// loopCalled finds a loop by name, or the newest without one.
func (a *app) loopCalled(ref string) (*loopRun, error) {
	e, r, err := a.runCalled(run.Loops, ref, "there is no run")
	if err != nil {
		return nil, err
	}
	return readLoop(e, r)
}

// readLoop reads the state of a loop. A loop that is recorded as running but has no host was cut
// short.
func readLoop(e *engine.Engine, r *run.Run) (*loopRun, error) {
	l := &loopRun{engine: e, run: r}
	var err error
	if l.since, err = r.Plan(&l.plan); err != nil {
		return nil, r.Unreadable(err)
	}
	mail, _ := r.Mail()   // before the events, which record mail read meanwhile; the host reports errors
	l.hosted = r.Hosted() // also before the events: a host records the end before it exits
	if l.events, err = r.Events(); err != nil {
		return nil, err
	}
	if err = l.fold(l.events); err == nil {
		l.spent, err = loop.Ledger(l.events)
	}
	if err != nil {
		return nil, r.Unreadable(err)
	}
	if s := l.state; !l.hosted && s.UnderWay() {
		if s.Result = run.Crash(); !s.Ready {
			s.Detail = cutInMaking
		}
	}
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
	ID        string    `json:"id"`
	CreatedAt time.Time `json:"created_at"`
	Hosted    bool      `json:"hosted"`              // a process is running it
	ExitCode  *int      `json:"exit_code,omitempty"` // of the process that ran it to its end; a crash has none
	*loop.State
	Status     run.Status    `json:"status"`
	Reason     string        `json:"stop_reason,omitempty"`
	WaitingFor string        `json:"waiting_for,omitempty"` // run.RateLimited ..., until then
	Until      time.Time     `json:"until,omitzero"`
	Hints      []string      `json:"hints"`
	Workers    []workerView  `json:"workers,omitempty"`
	Iterations []loop.Spent  `json:"iterations"`              // usage of each
	Refusal    *spec.Limited `json:"model_refused,omitempty"` // a failed model request; none was answered since
	Behind     []string      `json:"left_behind,omitempty"`   // sandboxes of workers that it failed to remove
	Raised     *run.Limits   `json:"raised,omitempty"`        // raised limits; the plan has them
	Plan       *loop.Plan    `json:"plan"`
}

func loopViewOf(e *engine.Engine, r *run.Run) (loopView, error) {
	l, err := readLoop(e, r)
	if err != nil {
		return loopView{}, err
	}
	return l.view(), nil
}

func (l *loopRun) view() loopView {
	delay := delayOf(l.state)
	v := loopView{ID: l.run.ID, CreatedAt: l.since, Hosted: l.hosted, State: l.state, WaitingFor: delay.For, Until: delay.Until, Hints: append([]string{}, l.state.Hints...), Workers: workersOf(l.state), Iterations: append([]loop.Spent{}, l.spent...), Refusal: l.denied(), Behind: l.left(), Raised: l.raised, Plan: &l.plan}
	status, reason := l.standing()
	v.Status, v.Reason = run.Status(status), reason
	if s := l.state; !s.UnderWay() && !s.Crashed() {
		code := l.state.ExitCode()
		v.ExitCode = &code
	}
	return v
}

func (l *loopRun) standing() (status, reason string) {
	return standing(string(l.state.Status), l.state.Reason, l.state)
}

// actor returns the name under which a person talks to a run.
func actor() string {
	return cmp.Or(os.Getenv("BOTHY_ACTOR"), os.Getenv("USER"), fmt.Sprint("uid-", os.Getuid()))
}

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

func (a *app) loopHintCommand() *cobra.Command {
	var clear bool
	c := &cobra.Command{
		Use: "hint [RUN] TEXT|--clear", Short: "Tell the next iteration something; without RUN of the newest loop", ValidArgsFunction: a.oneRun(run.Loops),
		Example: "  bothy loop hint RUN 'look at the parser first'\n  bothy loop hint --clear RUN",
		Args: func(cmd *cobra.Command, args []string) error {
			if clear {
				return atMost(1, "a run beside --clear")(cmd, args)
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

func (a *app) loopPauseCommand() *cobra.Command {
	return &cobra.Command{
		Use: "pause [RUN]", Short: "Have a loop wait for you after its iteration; without RUN the newest",
		Long: "Has the process that carries a loop on end with code 3 as soon as its iteration is over.\nbothy loop resume goes on.",
		Args: atMost(1, "a run"), ValidArgsFunction: a.oneRun(run.Loops),
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

func (a *app) loopStopCommand() *cobra.Command {
	return &cobra.Command{
		Use: "stop [RUN]", Short: "End a loop for good; without RUN the newest", Args: atMost(1, "a run"), ValidArgsFunction: a.oneRun(run.Loops),
		Long: "Ends a loop at once, with the agent if it works just now. What was done stays in the\nsandbox.",
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := a.loopMeant(args)
			if err == nil {
				err = l.open()
			}
			if err != nil {
				return err
			}
			err = a.stopRun(cmd.Context(), l.run, func() bool { return l.state.Final() }, l.cancel)
			if l.ours { // otherwise the process that runs it notifies
				if text := untoldText(l.run.ID, l.state); text != "" {
					a.Note("%s", text)
				}
				a.notify(context.WithoutCancel(cmd.Context()), l.engine, stopped(l.notice(), l.state))
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

// cancel ends an orphaned loop. If a process runs the loop, that one has got the message.
func (l *loopRun) cancel() error {
	h, events, err := l.run.Host()
	if errors.Is(err, spec.ErrConflict) {
		return nil
	}
	if err != nil {
		return err
	}
	defer h.Close()
	if l.state, err = loop.Fold(events); err != nil {
		return err
	}
	if l.state.Final() { // it ended just now
		return l.run.Forget(time.Time{}, run.Stop) // its host exited before it read them
	}
	if err := endAll(l.engine, l.sandboxes()...); err != nil {
		return err
	}
	stop := &loop.Loop{Plan: &l.plan, Run: l.run, Host: h, Desk: deskOf(l.engine, &l.plan, l.run)}
	if l.state, err = stop.Stop(events, actor()); err != nil {
		return err
	}
	l.ours = true
	return runner.Unmake(l.engine, workplaces(l.state))
}

func (a *app) loopRmCommand() *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use: "rm [-f] RUN...", Aliases: []string{"remove", "delete"}, Short: "Remove what is kept of loops; the sandbox of one that was ready stays",
		Args: atLeast(1, "a run"), ValidArgsFunction: a.oneRun(run.Loops),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.eachRun(args, func(ref string) (*run.Run, error) {
				e, r, err := a.runCalled(run.Loops, ref, "there is no run")
				if err != nil {
					return nil, err
				}
				l, err := readLoop(e, r)
				if err != nil {
					return r, a.removeUnread(r, force, err)
				}
				return r, a.removeLoop(l)
			})
		},
	}
	c.Flags().BoolVarP(&force, "force", "f", false, "also one that cannot be read; its sandboxes stay")
	return c
}

// removeLoop removes a loop that no process is running.
func (a *app) removeLoop(l *loopRun) error {
	h, events, err := l.run.Host()
	if err != nil {
		return err
	}
	defer h.Close()
	if l.state, err = loop.Fold(events); err != nil {
		return err
	}
	kept, err := l.erase(h)
	a.sayKept(kept)
	return err
}

// erase removes a run, and first its workers' sandboxes, which would be orphans without it. If the
// run was never ready, it removes all its sandboxes except those started since.
func (l *loopRun) erase(h *run.Host) (kept []string, err error) {
	if l.state.Ready {
		err = runner.Unmake(l.engine, workplaces(l.state))
	} else {
		ids := []string{l.plan.Sandbox}
		for _, at := range l.state.Places {
			ids = append(ids, at.ID)
		}
		kept, err = removeUntouched(l.engine, ids...)
	}
	if err != nil {
		return nil, err
	}
	return kept, h.Remove()
}
