package apply

import (
	"github.com/bothy-dev/bothy/internal/review"
	"github.com/bothy-dev/bothy/internal/review/beneath"
	"github.com/bothy-dev/bothy/internal/review/patch"
	"github.com/bothy-dev/bothy/spec"
)

// Order is a change to bring to the host, as the user saw it. The caller has already decided about its
// flags.
type Order struct {
	review.Change
	// Pick selects hunks of a text, and leaves out the others; nil: all.
	Pick patch.Pick
	// Shown is the digest of the layer's file as the user saw it when deciding. Apply skips a
	// file with another digest. Nil means that only the inode and the times must match, and a
	// write through a memory map may leave both as they were.
	Shown *beneath.Digest
	// Overwrite applies the change even if the host's file was changed meanwhile.
	Overwrite bool
	// Declined is the order's result if the user decided against it, and DeclineReason tells why. Apply
	// also leaves orders that must not be carried out without this one.
	Declined      Result
	DeclineReason string
}

// recordedMode returns the mode that the record keeps for a directory that has another one on the host.
func (o Order) recordedMode() uint32 {
	if o.HostMode()|0o700 == o.New.Mode {
		return 0
	}
	return o.New.Mode
}

// Result is the result of an order.
type Result string

// Results.
const (
	Applied   Result = "applied"
	Partly    Result = "partly"    // some hunks of it
	Unmatched Result = "unmatched" // none of its hunks was selected
	Conflicts Result = "conflict"  // the host has something newer
	Failed    Result = "failed"
	Left      Result = "left" // it must not go without another one that was not applied
	Discarded Result = "discarded"
)

// Outcome is the result of one change. A directory that stays because something was left in it has no
// separate result.
type Outcome struct {
	review.Change
	Result Result
	Why    string
}

// Orders brings changes to the host. A reader sees each file either old or new at any moment, even
// if apply is killed. Apply does not overwrite a file that the host changed since the order was
// made. settled says that the layer is not mounted; applied changes then leave the layer. The
// caller makes sure that no other apply runs.
func Orders(w review.Workspace, orders []Order, settled bool) ([]Outcome, error) {
	var done []Outcome
	err := withJob(w, func(l *job) (err error) {
		done, err = l.applyOrders(orders, settled)
		return err
	})
	return done, err
}

func (l *job) applyOrders(orders []Order, settled bool) ([]Outcome, error) {
	p, err := l.makePlan(orders)
	if err != nil {
		return nil, err
	}
	a := p.startApplying()
	err = a.carryOutAll()
	if werr := a.finishRecord(); err == nil {
		err = werr
	}
	if settled && err == nil {
		err = l.settle()
	}
	return a.outcome[:len(orders)], err
}

// Foresee returns the outcomes that Orders would have if nothing changes until then, and changes
// nothing. Applied also covers an order for only some hunks of a text.
func Foresee(w review.Workspace, orders []Order) ([]Outcome, error) {
	v, err := w.OpenView()
	if err != nil {
		return nil, err
	}
	defer v.Close()
	if v.Upper == nil {
		return nil, nil // all of it was discarded just now
	}
	l := &job{v}
	p, err := l.makePlan(orders)
	if err != nil {
		return nil, err
	}
	for _, s := range p.steps {
		for _, i := range append(p.partsOf(s.order), s.order) {
			p.outcome[i] = Outcome{Change: p.orders[i].Change, Result: Applied}
		}
	}
	return p.outcome[:len(orders)], nil
}

// errNewer returns the error for a host's file that changed since the order was made.
func errNewer() error { return spec.Errorf(spec.ErrConflict, "changed on the host just now") }

// job is a command that changes the host or the layer.
type job struct{ *review.View }

// withJob opens a layer to change it, after it recovers from a command that was killed. A layer
// that was never mounted is empty.
func withJob(w review.Workspace, do func(*job) error) error {
	v, err := w.OpenView()
	if err != nil {
		return err
	}
	defer v.Close()
	l := &job{v}
	if l.Upper == nil {
		return nil
	}
	if err := l.recover(); err != nil {
		return err
	}
	return do(l)
}
