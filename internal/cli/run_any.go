package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/runner"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/spec"
)

// Shared by runs of loops and of flows.

// runCalled finds a run of a kind, or the newest without a name. missing is the error if there is
// none.
func (a *app) runCalled(kind, ref, missing string) (*engine.Engine, *run.Run, error) {
	e, err := a.engine()
	if err != nil {
		return nil, nil, err
	}
	if ref != "" {
		r, err := run.FindOf(e.Store.Runs(), kind, ref)
		return e, r, err
	}
	list, err := run.ListOf(e.Store.Runs(), kind)
	if err != nil {
		return nil, nil, err
	}
	if len(list) == 0 {
		return nil, nil, spec.Errorf(spec.ErrNotFound, "%s", missing).WithHint("bothy %s run begins one", kind)
	}
	return e, list[0], nil
}

// runsOf returns views of all readable runs of a kind, or of any kind. An unreadable run does not
// hide the others.
func runsOf[V any](a *app, e *engine.Engine, kind string, view func(*engine.Engine, *run.Run) (V, error)) ([]V, error) {
	list, err := run.ListOf(e.Store.Runs(), kind)
	if err != nil {
		return nil, err
	}
	views := []V{}
	for _, r := range list {
		v, err := view(e, r)
		if err != nil {
			a.Note("%s", strings.TrimSuffix(fmt.Sprintf("%s: %v: %s", r.ID, err, spec.Hint(err)), ": "))
			continue
		}
		views = append(views, v)
	}
	return views, nil
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
	a.Note("%v: what was kept of it is removed; bothy ls shows the sandboxes there are", why)
	return nil
}

// waiter is a run that may wait for something and go on by itself.
type waiter interface{ Waits() (run.Delay, bool) }

// delayOf returns the reason of a run's wait and its end, or the zero value. A run that was stopped
// meanwhile does not wait. Of several workers the first to go on counts.
func delayOf(w waiter) run.Delay {
	if d, waits := w.Waits(); waits {
		return d
	}
	return run.Delay{}
}

// standing returns a run's status and reason. A run that waits for models is waiting, although its
// process is alive and goes on by itself.
func standing(status, reason string, w waiter) (string, string) {
	if d := delayOf(w); d.For != "" {
		return string(run.Waiting), d.For
	}
	return status, reason
}

// oneRun completes a run of a kind.
func (a *app) oneRun(kind string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		e, err := a.engine()
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

// stopPoll is how often a run is polled for its end.
const stopPoll = 50 * time.Millisecond

// stopRun ends a run. It leaves a message for the process that runs it; cancel ends an orphaned run
// here.
func (a *app) stopRun(ctx context.Context, r *run.Run, over func() bool, cancel func() error) error {
	if err := r.Leave(run.Message{Kind: run.Stop, Actor: actor()}); err != nil {
		return err
	}
	for !over() {
		if err := cancel(); err != nil {
			return err
		}
		if over() {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(stopPoll):
		}
	}
	fmt.Fprintln(a.Out, r.ID)
	return nil
}

// endAll stops the sandboxes of an orphaned run, since its process may have left an agent at work.
func endAll(e *engine.Engine, ids ...string) error {
	for _, id := range ids {
		sb, err := e.Find(id)
		if err == nil {
			err = e.Stop(context.Background(), sb, runner.Grace)
		}
		if err != nil && !errors.Is(err, spec.ErrNotFound) {
			return err
		}
	}
	return nil
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

// enduring is [interruptible] for a command that may take hours. It goes on when the reader of its
// output goes away, as head does; only the output is lost. Child processes get SIGPIPE as usual,
// which they would not if the signal were ignored.
func enduring(ctx context.Context) (context.Context, func()) {
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE) // from here on a failed write is an error
	return interruptible(ctx)
}

// carried releases a run, sends the notice that it ended, and returns its exit code. It reads the
// state first, because a notified program may resume the run at once.
func (a *app) carried(ctx context.Context, e *engine.Engine, h *run.Host, n engine.Notice, code int, view func() (any, error)) error {
	var v any
	var err error
	if a.JSON {
		v, err = view()
	}
	h.Close()
	a.notify(context.WithoutCancel(ctx), e, n) // a signal may have canceled ctx
	if a.JSON {
		if err == nil {
			err = a.PrintJSON(v)
		}
		if err != nil && !errors.Is(err, unix.EPIPE) { // the reader is gone
			return err
		}
	} else {
		fmt.Fprintln(a.Out, n.Run)
	}
	if code != spec.ExitOK {
		return &spec.Exited{Code: code}
	}
	return nil
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

// sayKept prints the sandboxes that outlive a removed run.
func (a *app) sayKept(kept []string) {
	if len(kept) > 0 {
		a.Note("what somebody has started since stays: bothy rm %s", strings.Join(kept, " "))
	}
}

// unmade returns the error for a run that was cut short while its sandboxes were created. The run
// cannot be resumed and was removed, except for the kept sandboxes.
func unmade(r *run.Run, kept []string) error {
	hint := "begin anew: bothy " + r.Kind + " run"
	if len(kept) > 0 {
		hint = "but for what somebody has started since: bothy rm " + strings.Join(kept, " ") + "; " + hint
	}
	return spec.Errorf(spec.ErrConflict, "the run %s was cut short while its sandboxes were made: nothing was done, and all that there was of it is removed", r.ID).
		WithHint("%s", hint)
}
