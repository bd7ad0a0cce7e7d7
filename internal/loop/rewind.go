package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

// Back is an iteration to rewind to. 0 is before the first.
type Back struct {
	Iteration  int      `json:"iteration"`
	Checkpoint int64    `json:"checkpoint"`
	Verdict    *Verdict `json:"verdict,omitempty"` // of the gates at that time
	Reopen     []string `json:"reopen,omitempty"`  // tasks that were done later
	Changed    bool     `json:"changed,omitempty"` // a file had been changed by then, since before the first iteration

	perhaps bool // if the checkpoint was removed, files stay unchanged
}

// Behind finds the end of an iteration, in its last repetition. If the iteration has no checkpoint, the
// error is ErrNotFound.
func Behind(events []run.Event, iteration int) (*Back, error) {
	s, err := Fold(nil)
	if err != nil {
		return nil, err
	}
	var b *Back
	for _, ev := range events {
		if err = s.Add(ev); err != nil {
			return nil, err
		}
		switch ev.Type {
		case Kept:
			err = run.Read(ev, func(k Keep) {
				if k.Iteration == iteration {
					b = &Back{Iteration: iteration, Checkpoint: k.Checkpoint, Changed: s.changed}
				}
			})
		case Baseline, Judged:
			var v Verdict
			err = json.Unmarshal(ev.Data, &v)
			switch {
			case ev.Type == Baseline && iteration == 0:
				b = &Back{Checkpoint: v.Checkpoint}
			case ev.Type == Judged && b != nil && v.Checkpoint == b.Checkpoint:
				b.Verdict = &v
			}
		case Reviewed:
			err = run.Read(ev, func(r Review) {
				if b != nil && b.Verdict != nil && r.Checkpoint == b.Checkpoint {
					b.Verdict.Gates = append(b.Verdict.Gates, r.Gate)
				}
			})
		}
		if err != nil {
			return nil, err
		}
	}
	if len(s.Workers) > 0 {
		return nil, spec.Errorf(spec.ErrUsage, "several have worked at the same time: where an iteration of one ended is not where all stood").
			WithHint("bothy checkpoint ls, and restore, return the loop's sandbox to an earlier state; bothy task reopen opens tasks again")
	}
	if b == nil || b.Checkpoint == 0 {
		return nil, spec.Errorf(spec.ErrNotFound, "iteration %d has no checkpoint", iteration).WithHint("bothy loop log lists those that have one; 0 is before the first")
	}
	for _, f := range s.Closed {
		if f.Iteration > iteration {
			b.Reopen = append(b.Reopen, f.Task)
		}
	}
	return b, nil
}

// Rewind goes back to an iteration, and leaves the loop waiting there. If it is interrupted, the next
// carrier completes it first.
func (l *Loop) Rewind(ctx context.Context, events []run.Event, b *Back, actor string) (*State, error) {
	var err error
	if l.state, err = Fold(events); err != nil {
		return nil, err
	}
	// A message to end the loop came too late, and is not meant for the new start.
	if err := l.Run.Forget(l.Host.Since(), run.Pause, run.Stop); err != nil {
		return nil, err
	}
	if err := l.appendEvent(Rewound, actor, b); err != nil {
		return nil, err
	}
	return l.state, l.restoreFiles(ctx)
}

// restoreFiles restores files and tasks.
func (l *Loop) restoreFiles(ctx context.Context) error {
	b := l.state.back
	beneath, err := l.Runner.Beneath(b.Checkpoint)
	if err != nil {
		return err
	}
	err = l.Runner.Restore(ctx, b.Checkpoint)
	gone := b.perhaps && errors.Is(err, spec.ErrNotFound)
	if err != nil && !gone {
		return err
	}
	if l.Queue != nil {
		if err := l.Queue.Reopen(ctx, b.Reopen); err != nil {
			return err
		}
	}
	return l.keepEvent(Restored, Put{gone, beneath})
}

// rewind forgets all later iterations.
func (s *State) rewind(b Back) {
	s.endTask()
	s.back, s.checked, s.changed = &b, b.Checkpoint, b.Changed
	s.Iteration, s.Verdict, s.Work, s.Keep = b.Iteration, b.Verdict, nil, nil
	s.SameError, s.fail, s.SameLimit, s.shown, s.Until = 0, "", 0, 0, time.Time{}
	s.Closed = keepIf(s.Closed, func(f Finished) bool { return f.Iteration <= b.Iteration })
	s.Left = keepIf(s.Left, func(f Left) bool { return f.Iteration <= b.Iteration })
	s.OpenTasks, s.HeldUp, s.Crashes, s.Beneath = nil, nil, 0, nil
	s.Status, s.Reason, s.Detail, s.Signal = run.Waiting, "rewound", fmt.Sprintf("to iteration %d", b.Iteration), 0
}

// keepIf returns the elements for which stays returns true, in a new list.
func keepIf[T any](list []T, stays func(T) bool) (out []T) {
	for _, x := range list {
		if stays(x) {
			out = append(out, x)
		}
	}
	return out
}
