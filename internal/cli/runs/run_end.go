package runs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/notify"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/runner"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/spec"
)

// Ends runs and removes them: stop and rm of loops and flows.

// endedRun says how to end a kind of runs.
type endedRun interface {
	fold(events []run.Event) error // computes the state from events
	open() error                   // refuses to talk to a run that has ended for good
	undone() error                 // refuses to stop a run that is completed
	notice() notify.Notice         // the fields that every notice about it has
	untold() string                // messages that no process will read
	inUse() []string               // the IDs of the sandboxes in which an agent may still be working
	needs() []string               // the IDs of the sandboxes without which it cannot be resumed
	stop(h *run.Host, events []run.Event) error
	// tidy removes the sandboxes that an ended run does not need any more. It returns the names of those
	// that stay because a person has started them.
	tidy(ctx context.Context) (kept []string, err error)
	// clear removes the sandboxes that belong to the run when it is removed. It returns names likewise.
	clear(ctx context.Context) (kept []string, err error)
}

func runStopCommand(a *app, k *runKind, meant func(named []string) (AnyRun, error)) *cobra.Command {
	return &cobra.Command{
		Use: "stop [RUN]", Short: k.stop, Long: k.stopped, Args: cmdline.AtMost(1, "a run"), ValidArgsFunction: a.oneRun(k.name),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := meant(args)
			if err == nil {
				err = l.open()
			}
			if err == nil {
				err = l.undone()
			}
			if err != nil {
				return err
			}
			err = a.stopRun(cmd.Context(), l)
			if r := l.record(); r.ours { // otherwise the process that runs it notifies
				if text := l.untold(); text != "" {
					a.Note("%s", text)
				}
				a.notify(context.WithoutCancel(cmd.Context()), r.engine, noticeOfEnd(l.notice(), l.result()))
			}
			return err
		},
	}
}

// noticeOfEnd fills a notice of a run that no longer runs.
func noticeOfEnd(n notify.Notice, r *run.Result) notify.Notice {
	n.Event, n.Status, n.Reason, n.Detail = notify.Ended, string(r.Status), r.Reason, term.Line(r.Detail)
	return n
}

// stopPoll is how often a run is polled for its end.
const stopPoll = 50 * time.Millisecond

// stopRun ends a run. It leaves a message for the process that runs it, and ends an orphaned run here.
func (a *app) stopRun(ctx context.Context, l AnyRun) error {
	r := l.record().run
	if err := r.Leave(run.Message{Kind: run.Stop, Actor: actor()}); err != nil {
		return err
	}
	for !l.progress().Final() {
		if err := cancelRun(l); err != nil {
			return err
		}
		if l.progress().Final() {
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

// cancelRun ends an orphaned run. If a process runs it, that one has got the message.
func cancelRun(l AnyRun) error {
	r := l.record()
	h, events, err := r.run.Host()
	if errors.Is(err, spec.ErrConflict) {
		return nil
	}
	if err != nil {
		return err
	}
	defer h.Close()
	if err := l.fold(events); err != nil {
		return err
	}
	if l.progress().Final() { // it ended just now
		return r.run.Forget(time.Time{}, run.Stop) // its host exited before it read them
	}
	if err := l.undone(); err != nil { // it completed just now
		return errors.Join(err, r.run.Forget(time.Time{}, run.Stop))
	}
	if err := endAll(r.engine, l.inUse()...); err != nil {
		return err
	}
	if err := l.stop(h, events); err != nil {
		return err
	}
	r.ours = true
	_, err = l.tidy(context.Background())
	return err
}

// endAll stops the sandboxes of an orphaned run, since its process may have left an agent running.
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
				l, err := readRun(e, r)
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
	a.Note("%v: what was kept of it is removed; bothy ls shows the sandboxes there are", why)
	return nil
}

// removeRun removes a run that no process is running, with the sandboxes that belong to it. They would
// be orphans without it.
func (a *app) removeRun(ctx context.Context, l AnyRun) error {
	h, events, err := l.record().run.Host()
	if err != nil {
		return err
	}
	defer h.Close()
	if err := l.fold(events); err != nil {
		return err
	}
	kept, err := eraseRun(ctx, l, h)
	if err == nil && len(kept) > 0 {
		a.Note("what somebody has started since stays: bothy rm %s", strings.Join(kept, " "))
	}
	return err
}

// eraseRun removes a run that this process holds, and the sandboxes that belong to it.
func eraseRun(ctx context.Context, l AnyRun, h *run.Host) (kept []string, err error) {
	if kept, err = l.clear(ctx); err != nil {
		return nil, err
	}
	return kept, h.Remove()
}
