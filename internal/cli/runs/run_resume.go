package runs

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/notify"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

// Carries runs on: resume of loops and flows, and the end of the command that carried one on.

// resumedRun is how a kind of runs is resumed.
type resumedRun interface {
	raise(limits *run.Limits) error // changes the limits in the plan, if the run can be resumed within them
	more() bool                     // it stopped at a limit that was raised since
	made() bool                     // its sandboxes were made
	finish(a *app) error            // does what a process had to do after the end
	unfinished() bool               // finish has something left to do
	goOn(cmd *cobra.Command, a *app, h *run.Host, events []run.Event, raised *run.Limits) error
}

// resumeRun resumes a run, within raised limits if there are any. A run that is over is only tidied.
func (a *app) resumeRun(cmd *cobra.Command, l AnyRun, raised *run.Limits) error {
	r := l.record()
	h, events, err := r.run.Host()
	if err != nil {
		return err
	}
	defer h.Close()
	if r.run.Gone() {
		return filesGone(l)
	}
	if err := r.run.Away(); err != nil {
		return err
	}
	if err := l.fold(events); err != nil {
		return err
	}
	r.hosted = false // no other process holds it
	if raised != nil {
		if err := l.raise(raised); err != nil {
			return err
		}
	}
	if !l.more() {
		if left := l.left(); len(left) > 0 || l.unfinished() {
			return a.tidyRun(cmd.Context(), l, h, left)
		}
		if err := l.open(); err != nil {
			return err
		}
	}
	if !l.made() {
		return unmake(cmd.Context(), l, h)
	}
	return l.goOn(cmd, a, h, events, raised)
}

// filesGone returns the error for a run whose files were deleted, and lists its remaining sandboxes.
func filesGone(l AnyRun) error {
	r := l.record().run
	err := spec.Errorf(spec.ErrNotFound, "the run %s is gone: %s was removed", r.ID, r.Dir())
	if left := l.left(); len(left) > 0 {
		return err.WithHint("bothy %s rm %s removes what is left of it: %s", r.Kind, r.ID, strings.Join(left, ", "))
	}
	return err.WithHint("bothy %s run begins another one", r.Kind)
}

// tidyRun finishes the rest of a run that is over, such as removing sandboxes. It returns the run's
// result.
func (a *app) tidyRun(ctx context.Context, l AnyRun, h *run.Host, names []string) error {
	if _, err := l.tidy(ctx); err != nil {
		return err
	}
	r := l.record()
	if len(names) > 0 {
		a.Note("removed what the %s had left: %s", r.run.Kind, strings.Join(names, ", "))
	}
	if err := a.carried(ctx, r.engine, r.run, h, noticeOfEnd(l.notice(), l.result()), l.progress().ExitCode()); err != nil {
		return err
	}
	return l.finish(a)
}

// unmake removes a run that was interrupted while its sandboxes were created. Some may be missing or
// lack their secrets, and no work was done yet. The error says so.
func unmake(ctx context.Context, l AnyRun, h *run.Host) error {
	kept, err := eraseRun(ctx, l, h)
	if err != nil {
		return err
	}
	r := l.record().run
	hint := "begin anew: bothy " + r.Kind + " run"
	if len(kept) > 0 {
		hint = "but for what somebody has started since: bothy rm " + strings.Join(kept, " ") + "; " + hint
	}
	return spec.Errorf(spec.ErrConflict, "the run %s was cut short while its sandboxes were made: nothing was done, and all that there was of it is removed", r.ID).
		WithHint("%s", hint)
}

// carried releases a run, sends the notice that it ended, and returns its exit code. It reads the
// state first, because a notified program may resume the run at once.
func (a *app) carried(ctx context.Context, e *engine.Engine, r *run.Run, h *run.Host, n notify.Notice, code int) error {
	var l AnyRun
	var err error
	if a.JSON {
		l, err = readRun(e, r)
	}
	var view any
	if l != nil && err == nil {
		l.record().hosted = false
		view = l.view()
	}
	h.Close()
	a.notify(context.WithoutCancel(ctx), e, n) // a signal may have canceled ctx
	if a.JSON {
		if err == nil {
			err = a.PrintJSON(view)
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
