package run

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// Work is the work to carry on, as functions of the package that knows its state.
type Work struct {
	Begin   func() error // says that it is carried on from here
	Running func() bool  // whether more is to do
	Mail    func() error // handles the messages of people
	// Step takes the next step. An error goes to Failed, unless it is marked by [Unkept]: then an
	// event could not be kept.
	Step        func(ctx context.Context) error
	Failed      func(why error) error
	Interrupted func(signal int) error // the process got a signal
}

// errStopped is the cause for which work in flight is given up.
var errStopped = errors.New("stopped")

// lookEvery is how often messages are looked for while something takes its time.
const lookEvery = 200 * time.Millisecond

// Carry carries work on until it is over. If ctx is done it is interrupted, by the signal that the
// cause tells ([spec.Exited]). A stop message cancels the running step at once. An error means
// that an event could not be kept.
func (r *Run) Carry(ctx context.Context, w Work) error {
	var listening sync.WaitGroup
	defer listening.Wait()
	work, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	listening.Go(func() { r.listen(work, stop) })
	err := w.Begin()
	for err == nil && w.Running() {
		err = w.step(work)
	}
	return err
}

// listen cancels the running step as soon as a stop message arrives.
func (r *Run) listen(ctx context.Context, stop context.CancelCauseFunc) {
	for {
		list, _ := r.Mail() // if it cannot be read, the next step says so
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

// step takes one step, or an order from a person.
func (w *Work) step(ctx context.Context) error {
	if err := w.Mail(); err != nil || !w.Running() {
		return err
	}
	if ctx.Err() != nil {
		return w.interrupted(ctx)
	}
	err := w.Step(ctx)
	if kept := (*unkept)(nil); errors.As(err, &kept) {
		return kept.err
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil: // the step failed because of that
		if err := w.Mail(); err != nil || !w.Running() {
			return err
		}
		return w.interrupted(ctx)
	}
	return w.Failed(err)
}

// interrupted finds out which signal it was.
func (w *Work) interrupted(ctx context.Context) error {
	signal := 2
	if by, ok := errors.AsType[*spec.Exited](context.Cause(ctx)); ok {
		signal = by.Code - spec.ExitSignal
	}
	return w.Interrupted(signal)
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

// IsUnkept reports whether an error was marked so.
func IsUnkept(err error) bool {
	_, is := errors.AsType[*unkept](err)
	return is
}

// Wait waits, but not longer than until the next look for messages.
func Wait(ctx context.Context, until time.Time) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(min(time.Until(until), lookEvery)):
		return nil
	}
}
