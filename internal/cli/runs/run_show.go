package runs

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/flow"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/spec"
)

// Lists runs and shows them: ls, status, log and watch of loops and flows.

// shownRun is how a kind of runs is shown.
type shownRun interface {
	progress() runState
	result() *run.Result
	standing() run.Result                                              // the result that people see
	left() []string                                                    // the sandboxes that it failed to remove, by name
	denied() *spec.Limited                                             // why models do not answer
	view() any                                                         // its state in JSON
	cells() []string                                                   // its row in a list of its kind
	rows() [][2]string                                                 // its state for people
	printUsage(a *app) error                                           // its usage by parts
	narrator() (func(run.Event) (string, error), error)                // describes its events, one after the other
	pages(a *app) (func(context.Context) (watchedPage, error), func()) // its pages, and what to call at the end
	listIn(v *RunView)                                                 // adds what the list of all runs tells
}

// runHead is the part of a run's state in JSON that all kinds share.
type runHead struct {
	ID         string        `json:"id"`
	CreatedAt  time.Time     `json:"created_at"`
	Hosted     bool          `json:"hosted"`              // a process is running it
	ExitCode   *int          `json:"exit_code,omitempty"` // of the process that ran it to its end; a crash has none
	Status     run.Status    `json:"status"`
	Reason     string        `json:"stop_reason,omitempty"`
	WaitingFor string        `json:"waiting_for,omitempty"`   // run.RateLimited ..., until then
	Refusal    *spec.Limited `json:"model_refused,omitempty"` // a failed model request; none was answered since
	Behind     []string      `json:"left_behind,omitempty"`   // sandboxes that it failed to remove
	Raised     *run.Limits   `json:"raised,omitempty"`        // raised limits; the plan has them
}

func headOf(l AnyRun) runHead {
	r, now := l.record(), l.standing()
	return runHead{
		ID: r.run.ID, CreatedAt: r.since, Hosted: r.hosted, ExitCode: exitCodeOf(l), Status: now.Status, Reason: now.Reason,
		WaitingFor: delayOf(l.progress()).For, Refusal: l.denied(), Behind: l.left(), Raised: r.raised,
	}
}

// exitCodeOf returns the exit code of the process that ran a run to its end, or nil.
func exitCodeOf(l AnyRun) *int {
	if r := l.result(); r.UnderWay() || r.Crashed() {
		return nil
	}
	return new(l.progress().ExitCode())
}

// erased reports whether nothing is left of a run but its record.
func erased(l AnyRun) bool { return l.result().Reason == flow.ReasonRemoved && len(l.left()) == 0 }

func runLsCommand(a *app, k *runKind) *cobra.Command {
	return a.JSONFlag(&cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: k.list, Args: cmdline.Exactly(0, "no argument"),
		RunE: func(*cobra.Command, []string) error {
			e, err := a.Engine()
			if err != nil {
				return err
			}
			list, err := runsOf(a, e, k.name, readRun)
			if err != nil {
				return err
			}
			list = slices.DeleteFunc(list, erased)
			if a.JSON {
				views := make([]any, len(list))
				for i, l := range list {
					views[i] = l.view()
				}
				return a.PrintJSON(map[string]any{"runs": views})
			}
			w := a.Table()
			fmt.Fprintln(w, k.titles)
			for _, l := range list {
				fmt.Fprintln(w, strings.Join(l.cells(), "\t"))
			}
			return w.Flush()
		},
	})
}

func runStatusCommand(a *app, k *runKind) *cobra.Command {
	return a.JSONFlag(&cobra.Command{
		Use: "status [RUN]", Short: "Show how a " + k.name + " stands; without RUN the newest", Args: cmdline.AtMost(1, "a run"), ValidArgsFunction: a.oneRun(k.name),
		RunE: func(_ *cobra.Command, args []string) error {
			l, err := openRun(a, k, strings.Join(args, ""), readRun)
			if err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(l.view())
			}
			return a.printStatus(l)
		},
	})
}

// printStatus prints the state of a run and its usage for people.
func (a *app) printStatus(l AnyRun) error {
	w := a.Table()
	for _, row := range l.rows() {
		fmt.Fprintf(w, "%s\t%s\n", row[0], term.Line(row[1]))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return l.printUsage(a)
}

func runLogCommand(a *app, k *runKind) *cobra.Command {
	return a.JSONFlag(&cobra.Command{
		Use: "log [RUN]", Short: "Show the events of a " + k.name, Args: cmdline.AtMost(1, "a run"), ValidArgsFunction: a.oneRun(k.name),
		RunE: func(_ *cobra.Command, args []string) error {
			l, err := openRun(a, k, strings.Join(args, ""), readRun)
			if err != nil {
				return err
			}
			return a.printPast(l)
		},
	})
}

// printPast prints the events of a run.
func (a *app) printPast(l AnyRun) error {
	describe, err := l.narrator()
	for _, ev := range l.record().events {
		var text string
		if err == nil {
			text, err = describe(ev)
		}
		if err == nil {
			err = a.printRunEvent(ev, text)
		}
	}
	return err
}

func runWatchCommand(a *app, k *runKind) *cobra.Command {
	return a.JSONFlag(&cobra.Command{
		Use: "watch [RUN]", Short: fmt.Sprintf("Watch a %s until its process ends", k.name), Args: cmdline.AtMost(1, "a run"), ValidArgsFunction: a.oneRun(k.name),
		Long: fmt.Sprintf("Shows how a %[1]s stands, on a page that is drawn anew as it goes on; without RUN the\nnewest. Where there is no terminal, or with --json, every event as it comes. It ends when\nthe process of the %[1]s ends; Ctrl-C leaves, and the %[1]s goes on.", k.name),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := openRun(a, k, strings.Join(args, ""), readRun)
			if err != nil {
				return err
			}
			return a.watchRun(cmd.Context(), l)
		},
	})
}
