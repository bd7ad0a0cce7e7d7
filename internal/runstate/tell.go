package runstate

import (
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

// LeaveHint tells the next iteration something.
func (l *Loop) LeaveHint(text string) error {
	return l.leaveMessage(run.Message{Kind: run.Hint, Text: text, Actor: Actor()})
}

// ClearHints takes back all that no iteration was told yet.
func (l *Loop) ClearHints() error {
	return l.leaveMessage(run.Message{Kind: run.Clear, Actor: Actor()})
}

// LeavePause has the process that carries the loop on end after this iteration.
func (l *Loop) LeavePause() error {
	if err := l.CheckOpen(); err != nil {
		return err
	}
	if !l.Hosted {
		return spec.Errorf(spec.ErrConflict, "no process carries the run %s on: %s", l.Run.ID, l.State.Status)
	}
	return l.leaveMessage(run.Message{Kind: run.Pause, Actor: Actor()})
}

// leaveMessage leaves a message for a loop that has not ended for good.
func (l *Loop) leaveMessage(m run.Message) error {
	if err := l.CheckOpen(); err != nil {
		return err
	}
	return l.Run.Leave(m)
}
