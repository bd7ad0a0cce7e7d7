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
	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/shop"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/spec"
)

// This file has what is the same for runs of loops and of flows.

// runCalled finds a run of a kind; without a name the newest. Missing says that there is
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

// runsOf shows every run of a kind, or of any, that can be read: one that cannot hides no
// other.
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

// removeUnread removes a run that cannot be read, if that is wanted: all that is kept of it. Which
// sandboxes it has is not known then.
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

// delayOf is what a run waits for, and until when; the zero value if it does not. Who was
// stopped meanwhile does not, and of several workers the first does.
func delayOf(w waiter) run.Delay {
	if d, waits := w.Waits(); waits {
		return d
	}
	return run.Delay{}
}

// standing is how a run stands, in two words. One that waits for models is waiting, for that,
// although whoever carries it on is there, and goes on by himself.
func standing(status, reason string, w waiter) (string, string) {
	if d := delayOf(w); d.For != "" {
		return string(loop.Waiting), d.For
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

// printRunEvent prints an event as a line of JSON, or what there is to say of it to people,
// if there is anything.
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

// noteRunEvent tells likewise what has happened just now. What it is about may be many lines of
// somebody else's, each of which could pass for one of ours.
func (a *app) noteRunEvent(text string) {
	if text != "" {
		a.Note("%s", term.Line(text))
	}
}

// stopPoll is how often it is looked whether a run has ended.
const stopPoll = 50 * time.Millisecond

// stopRun ends a run: whoever carries it on has a message; if nobody does, cancel ends
// it here.
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

// endAll stops the sandboxes of a run that nobody carries on: who did may have left an
// agent at work.
func endAll(e *engine.Engine, ids ...string) error {
	for _, id := range ids {
		sb, err := e.Find(id)
		if err == nil {
			err = e.Stop(context.Background(), sb, shop.Grace)
		}
		if err != nil && !errors.Is(err, spec.ErrNotFound) {
			return err
		}
	}
	return nil
}

// eachRun does something to each run that is named, and prints which it was done to.
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

// enduring is [interruptible] for what may take hours: it goes on when whoever reads what it
// prints goes away, as head does, and nothing but what it prints is lost. What it starts has
// the signal for that as usual, which it would not if the signal were ignored.
func enduring(ctx context.Context) (context.Context, func()) {
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE) // writing is an error from here on
	return interruptible(ctx)
}

// carried gives a run back, tells that it is carried on no more, and ends with its code. Who
// hears of its end may go on with it at once: how it stands is seen before.
func (a *app) carried(ctx context.Context, e *engine.Engine, h *run.Host, n engine.Notice, code int, view func() (any, error)) error {
	var v any
	var err error
	if a.JSON {
		v, err = view()
	}
	h.Close()
	a.notify(context.WithoutCancel(ctx), e, n) // it may be a signal that ended the run
	if a.JSON {
		if err == nil {
			err = a.PrintJSON(v)
		}
		if err != nil && !errors.Is(err, unix.EPIPE) { // nobody listens any more
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

// cutInMaking is why a run was interrupted that never was ready.
const cutInMaking = "it was cut short while its sandboxes were made: nothing was done"

// removeUntouched removes sandboxes that were made for a run which never was ready. Those that
// somebody has started since are kept, and those of which that is not known, and their names
// given.
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

// sayKept names what stays of a run that is removed.
func (a *app) sayKept(kept []string) {
	if len(kept) > 0 {
		a.Note("what somebody has started since stays: bothy rm %s", strings.Join(kept, " "))
	}
}

// unmade says that nothing can be gone on with of a run that was cut short while its sandboxes
// were made, and that it was removed, but for the sandboxes that were kept.
func unmade(r *run.Run, kept []string) error {
	hint := "begin anew: bothy " + r.Kind + " run"
	if len(kept) > 0 {
		hint = "but for what somebody has started since: bothy rm " + strings.Join(kept, " ") + "; " + hint
	}
	return spec.Errorf(spec.ErrConflict, "the run %s was cut short while its sandboxes were made: nothing was done, and all that there was of it is removed", r.ID).
		WithHint("%s", hint)
}
