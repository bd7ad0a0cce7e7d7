package runstate

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/notify"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/runner"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/spec"
)

// NoticeOfEnd fills a notice of a run that no longer runs.
func NoticeOfEnd(n notify.Notice, r *run.Result) notify.Notice {
	n.Event, n.Status, n.Reason, n.Detail = notify.Ended, string(r.Status), r.Reason, term.Line(r.Detail)
	return n
}

// PollEvery is how often a run is polled for its end.
const PollEvery = 50 * time.Millisecond

// Cancel ends an orphaned run. If a process runs it, that one has got the message.
func Cancel(l Run) error {
	r := l.Recorded()
	h, events, err := r.Run.Host()
	if errors.Is(err, spec.ErrConflict) {
		return nil
	}
	if err != nil {
		return err
	}
	defer h.Close()
	if err := l.Fold(events); err != nil {
		return err
	}
	if l.Progress().Final() { // it ended just now
		return r.Run.Forget(time.Time{}, run.Stop) // its host exited before it read them
	}
	if err := l.CheckUndone(); err != nil { // it completed just now
		return errors.Join(err, r.Run.Forget(time.Time{}, run.Stop))
	}
	if err := endAll(r.Engine, l.UsedSandboxes()...); err != nil {
		return err
	}
	if err := l.cancelOrphan(h, events); err != nil {
		return err
	}
	r.Ours = true
	_, err = l.TidyUp(context.Background())
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

// Erase removes a run that this process holds, and the sandboxes that belong to it.
func Erase(ctx context.Context, l Run, h *run.Host) (kept []string, err error) {
	if kept, err = l.RemoveOwned(ctx); err != nil {
		return nil, err
	}
	return kept, h.Remove()
}

// Handles sandboxes that an ended run should have removed: its process was killed after it recorded
// the end. They hold nothing of the user's.

// LeftBehind returns the names of the sandboxes that a flow left behind.
func (l *Flow) LeftBehind() []string {
	if l.Hosted || !l.clears() {
		return nil
	}
	copies := l.Plan.Copies() // their changes wait for a person
	var ids []string
	for _, room := range slices.Sorted(maps.Keys(l.Plan.Sandboxes)) {
		id := l.Plan.Sandboxes[room]
		if slices.Contains(copies, room) || !l.State.Ready && l.Engine.Store.Sandbox(id).MayHaveStarted() {
			continue // the run was never ready, and the user has started it since
		}
		ids = append(ids, id)
	}
	return existingNames(l.Engine, ids)
}

// clears reports whether a flow in this state should have no sandboxes left.
func (l *Flow) clears() bool {
	if l.Run.Gone() {
		return l.ownsSandboxes()
	}
	return l.State.Over() && l.Plan.Remove
}

// LeftBehind returns the names of the workers' sandboxes that a loop left behind.
func (l *Loop) LeftBehind() []string {
	if l.Hosted || !l.State.Ready || !l.State.Final() {
		return nil
	}
	var ids []string
	for _, at := range Workplaces(l.State) {
		ids = append(ids, at.ID)
	}
	return existingNames(l.Engine, ids)
}

// existingNames returns the names of the given sandboxes that exist.
func existingNames(e *engine.Engine, ids []string) (names []string) {
	for _, id := range ids {
		if _, err := os.Lstat(e.Store.Sandbox(id).Dir); err != nil {
			continue
		}
		name := id
		if sb, err := e.Store.Load(id); err == nil {
			name = cmp.Or(sb.Name, id)
		}
		names = append(names, name)
	}
	return names
}
