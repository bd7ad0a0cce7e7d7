package runstate

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/bothy-dev/bothy/internal/flow"
	"github.com/bothy-dev/bothy/spec"
)

// RecordAnswer records a person's answer, or has the process that runs the flow take it. Another process may
// hold the run only briefly, for example to record another answer. Then RecordAnswer tries again with the
// new state.
func (l *Flow) RecordAnswer(ctx context.Context, p *flow.Person, say func(*flow.Person) (*flow.State, error)) (heard bool, err error) {
	for {
		h, events, err := l.Run.Host()
		switch {
		case err == nil:
			defer h.Close()
			if p.Left() {
				if heard, err = p.Heard(); heard || err != nil {
					return heard, err
				}
			}
			p.Host, p.Events = h, events
			_, err = say(p)
			return false, errors.Join(err, p.TakeBack())
		case !errors.Is(err, spec.ErrConflict):
			return false, errors.Join(err, p.TakeBack())
		case !p.Left():
			if p.Events, err = l.Run.Events(); err == nil {
				_, err = say(p)
			}
			if err != nil {
				return false, err
			}
		default:
			if heard, err = p.Heard(); heard || err != nil {
				return heard, err
			}
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(PollEvery):
		}
	}
}

// CheckRemoved returns an error that the run was removed, if that is why err happened.
func (l *Flow) CheckRemoved(err error) error {
	if _, there := os.Lstat(l.Run.Dir()); errors.Is(there, fs.ErrNotExist) {
		return spec.Errorf(spec.ErrNotFound, "the run %s was removed", l.Run.ID)
	}
	return err
}
