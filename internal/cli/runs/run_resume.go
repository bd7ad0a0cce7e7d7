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
	"github.com/bothy-dev/bothy/internal/runstate"
	"github.com/bothy-dev/bothy/spec"
)

// Carries runs on: resume of loops and flows, and the end of the command that carried one on.

// resumeRun resumes a run, within raised limits if there are any. A run that is over is only tidied.
func (a *app) resumeRun(cmd *cobra.Command, l runstate.Run, raised *run.Limits) error {
	r := l.Recorded()
	h, events, err := r.Run.Host()
	if err != nil {
		return err
	}
	defer h.Close()
	if r.Run.Gone() {
		return runstate.FilesGone(l)
	}
	if err := r.Run.Away(); err != nil {
		return err
	}
	if err := l.Fold(events); err != nil {
		return err
	}
	r.Hosted = false // no other process holds it
	if raised != nil {
		if err := l.RaiseLimits(raised); err != nil {
			return err
		}
	}
	if !l.CanGoOn() {
		if left := l.LeftBehind(); len(left) > 0 || l.IsUnfinished() {
			return a.tidyRun(cmd.Context(), l, h, left)
		}
		if err := l.CheckOpen(); err != nil {
			return err
		}
	}
	if !l.IsMade() {
		return unmake(cmd.Context(), l, h)
	}
	if f, ok := l.(*runstate.Flow); ok {
		return a.resumeFlow(cmd, f, h, events, raised)
	}
	return a.resumeLoop(cmd, l.(*runstate.Loop), h, events, raised)
}

// tidyRun finishes the rest of a run that is over, such as removing sandboxes. It returns the run's
// result.
func (a *app) tidyRun(ctx context.Context, l runstate.Run, h *run.Host, names []string) error {
	if _, err := l.TidyUp(ctx); err != nil {
		return err
	}
	r := l.Recorded()
	if len(names) > 0 {
		a.Note("removed what the %s had left: %s", r.Run.Kind, strings.Join(names, ", "))
	}
	if err := a.carried(ctx, r.Engine, r.Run, h, runstate.NoticeOfEnd(l.Notice(), l.Result()), l.Progress().ExitCode()); err != nil {
		return err
	}
	if f, ok := l.(*runstate.Flow); ok {
		return a.writeDraft(&f.Plan, f.Run, f.State)
	}
	return nil
}

// unmake removes a run that was interrupted while its sandboxes were created. Some may be missing or
// lack their secrets, and no work was done yet. The error says so.
func unmake(ctx context.Context, l runstate.Run, h *run.Host) error {
	kept, err := runstate.Erase(ctx, l, h)
	if err != nil {
		return err
	}
	r := l.Recorded().Run
	hint := "begin anew: bothy " + r.Kind + " run"
	if len(kept) > 0 {
		hint = "except sandboxes that were started since: bothy rm " + strings.Join(kept, " ") + "; " + hint
	}
	return spec.Errorf(spec.ErrConflict, "the run %s was cut short while its sandboxes were made: nothing was done, and all that there was of it is removed", r.ID).
		WithHint("%s", hint)
}

// carried releases a run, sends the notice that it ended, and returns its exit code. It reads the
// state first, because a notified program may resume the run at once.
func (a *app) carried(ctx context.Context, e *engine.Engine, r *run.Run, h *run.Host, n notify.Notice, code int) error {
	var l runstate.Run
	var err error
	if a.JSON {
		l, err = runstate.Read(e, r)
	}
	var view any
	if l != nil && err == nil {
		l.Recorded().Hosted = false
		view = l.View()
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
