package run

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// Work is the work of a run, as functions of the package that knows its state.
type Work struct {
	Begin   func() error // records that this process carries the work on
	Running func() bool  // reports whether anything is left to do
	// Hear handles a message of a person that is not [Stop]. It returns false to leave the message
	// for later.
	Hear func(Message) (taken bool, err error)
	// Step takes the next step. An error ends the work as failed, unless it is marked by [Unkept]:
	// then an event could not be kept.
	Step func(ctx context.Context) error
	End  func(actor string, r Result) error // records the end of the work
}

// errStopped is the cause for cancelling work in flight.
var errStopped = errors.New("stopped")

// lookEvery is how often to look for messages during a long step.
const lookEvery = 200 * time.Millisecond

// Carry carries work on until it is over. If ctx is done, the work is interrupted by the signal in the
// cause ([spec.Exited]). A stop message cancels the running step at once. An error means that an event
// could not be kept.
func (r *Run) Carry(ctx context.Context, w Work) error {
	var listening sync.WaitGroup
	defer listening.Wait()
	work, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	listening.Go(func() { r.listen(work, stop) })
	err := w.Begin()
	for err == nil && w.Running() {
		err = w.takeStep(work, r)
	}
	return err
}

// listen cancels the running step as soon as a stop message arrives.
func (r *Run) listen(ctx context.Context, stop context.CancelCauseFunc) {
	for {
		list, _ := r.Mail() // if this fails, the next step reports it
		if slices.ContainsFunc(list, func(m Message) bool { return m.Kind == Stop }) {
			stop(errStopped)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(lookEvery):
		}
	}
}

// takeStep takes one step, or follows an order from a person.
func (w *Work) takeStep(ctx context.Context, r *Run) error {
	if err := w.readMail(r); err != nil || !w.Running() {
		return err
	}
	if ctx.Err() != nil {
		return w.interrupt(ctx)
	}
	err := w.Step(ctx)
	if kept := (*unkept)(nil); errors.As(err, &kept) {
		return kept.err
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil: // the step failed because ctx is done
		if err := w.readMail(r); err != nil || !w.Running() {
			return err
		}
		return w.interrupt(ctx)
	}
	return w.End(ActorHost, Result{Status: Failed, Reason: "error", Detail: err.Error()})
}

// readMail handles the messages of people. It removes a message only after the effect was kept.
func (w *Work) readMail(r *Run) error {
	list, err := r.Mail()
	if err != nil {
		return err
	}
	for _, m := range list {
		taken := true
		if m.Kind == Stop {
			err = w.End(m.Actor, Stopped())
		} else {
			taken, err = w.Hear(m)
		}
		if err == nil && taken {
			err = r.Take(m)
		}
		if err != nil || !w.Running() {
			return err
		}
	}
	return nil
}

// interrupt ends the work by the signal that ended ctx.
func (w *Work) interrupt(ctx context.Context) error {
	signal := 2
	if by, ok := errors.AsType[*spec.Exited](context.Cause(ctx)); ok {
		signal = by.Code - spec.ExitSignal
	}
	return w.End(ActorHost, Result{Status: Interrupted, Reason: "signal", Signal: signal})
}

// unkept is an error about an event that could not be kept.
type unkept struct{ err error }

func (u *unkept) Error() string { return u.err.Error() }

// Unkept marks an error as one about an event that could not be kept; nil stays nil.
func Unkept(err error) error {
	if err != nil {
		return &unkept{err}
	}
	return nil
}

// IsUnkept reports whether an error was marked by Unkept.
func IsUnkept(err error) bool {
	_, is := errors.AsType[*unkept](err)
	return is
}

// Wait waits until a time, but no longer than until the next look for messages.
func Wait(ctx context.Context, until time.Time) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(min(time.Until(until), lookEvery)):
		return nil
	}
}
