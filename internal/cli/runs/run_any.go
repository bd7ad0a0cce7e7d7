package runs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/spec"
)

// Shared by runs of loops and of flows.

// waiter is a run that may wait for something and continue by itself.
type waiter interface{ Waits() (run.Delay, bool) }

// delayOf returns the reason of a run's wait and its end, or the zero value. A run that was stopped
// meanwhile does not wait. Of several workers, the first to continue counts.
func delayOf(w waiter) run.Delay {
	if d, waits := w.Waits(); waits {
		return d
	}
	return run.Delay{}
}

// standingOf returns the result that people see. A run that waits for models is waiting, although its
// process is alive and continues by itself.
func standingOf(w waiter, r run.Result) run.Result {
	if d := delayOf(w); d.For != "" {
		r.Status, r.Reason = run.Waiting, d.For
	}
	return r
}

// oneRun completes a run of a kind.
func (a *app) oneRun(kind string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		e, err := a.Engine()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		list, err := run.ListOf(e.Store.Runs(), kind)
		if err != nil || len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var names []string
		for _, r := range list {
			names = append(names, r.ID)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// printRunEvent prints an event as a line of JSON, or its text for people, if any.
func (a *app) printRunEvent(ev run.Event, text string) error {
	if a.JSON {
		line, err := ev.Line()
		if err == nil {
			_, err = a.Out.Write(term.EscapeJSON(line))
		}
		return err
	}
	if text == "" {
		return nil
	}
	_, err := fmt.Fprintf(a.Out, "%s  %s\n", ev.Time.Local().Format(time.DateTime), term.Line(text))
	return err
}

// noteRunEvent prints the text of a new event. The text may hold foreign lines that look like ours,
// so it is made one line.
func (a *app) noteRunEvent(text string) {
	if text != "" {
		a.Note("%s", term.Line(text))
	}
}

// eachRun calls do for each named run, and prints the ID of each success.
func (a *app) eachRun(refs []string, do func(ref string) (*run.Run, error)) error {
	var errs []error
	for _, ref := range refs {
		r, err := do(ref)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		fmt.Fprintln(a.Out, r.ID)
	}
	return console.Join(errs)
}

// enduring is [interruptible] for a command that may take hours. It continues when the reader of its
// output exits, as head does; only the output is lost. Child processes get SIGPIPE as usual,
// which they would not if the signal were ignored.
func enduring(ctx context.Context) (context.Context, func()) {
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE) // from here on a failed write is an error
	return cmdline.Interruptible(ctx)
}

// cutInMaking is the detail of a run that was interrupted before it was ready.
const cutInMaking = "it was cut short while its sandboxes were made: nothing was done"

// removeUntouched removes sandboxes that were made for a run which never was ready. It keeps those
// that were started since or may have been, and returns their names.
func removeUntouched(e *engine.Engine, ids ...string) (kept []string, err error) {
	for _, id := range ids {
		sb, err := e.Find(id)
		switch {
		case errors.Is(err, spec.ErrNotFound):
			continue
		case err != nil:
			return nil, err
		case e.Store.Sandbox(sb.ID).MayHaveStarted():
			kept = append(kept, sb.Name)
			continue
		}
		if err := e.Remove(context.Background(), sb, false); err != nil {
			return nil, err
		}
	}
	return kept, nil
}
