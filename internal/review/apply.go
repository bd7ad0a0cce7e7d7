package review

import (
	"github.com/bothy-dev/bothy/spec"
)

// Order is a change to bring to the host, as the user saw it. The caller has already decided about its
// flags.
type Order struct {
	Change
	// Pick selects hunks of a text, and leaves out the others; nil: all.
	Pick Pick
	// Shown is the digest of the layer's file as the user saw it when deciding. Apply skips a
	// file with another digest. Nil means that only the inode and the times must match, and a
	// write through a memory map may leave both as they were.
	Shown *Digest
	// Overwrite applies the change even if the host's file was changed meanwhile.
	Overwrite bool
	// Not is the order's result if the user decided against it, and Why is the reason. Apply also
	// leaves orders that must not be carried out without this one.
	Not Result
	Why string
}

// mode returns the mode that a file or a directory gets on the host. Group and others may do no
// more with it than now, and cannot write to a new file. An editor in the sandbox may replace a
// file by a new one with the usual mode, without meaning to change the mode. A change of the mode
// alone is applied as it is: it is shown as such, and has a flag if group or others may write.
func (c Change) mode() uint32 {
	shut := uint32(0o022)
	if c.Old.Form == File {
		shut = 0o066 &^ c.Old.Mode
		shut |= (shut & 0o044) >> 2 &^ c.Old.Mode // without read permission, no execute permission either
	}
	if c.Kind == Mode {
		shut = 0
	}
	return c.New.Mode &^ shut
}

// Chmod returns the mode that a file of the host's gets with another text, and whether it
// differs.
func (c Change) Chmod() (mode uint32, other bool) {
	mode = c.mode()
	return mode, c.Kind == Modified && c.New.Form == File && mode != c.Old.Mode
}

// inside returns the mode that the record keeps for a directory that has another one on the host.
func (o Order) inside() uint32 {
	if o.mode()|0o700 == o.New.Mode {
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
	Change
	Result Result
	Why    string
}

// Apply brings changes to the host. A reader sees each file either old or new at any moment, even
// if apply is killed. Apply does not overwrite a file that the host changed since the order was
// made. settled says that the layer is not mounted; applied changes then leave the layer. The
// caller makes sure that no other apply runs.
func (w Workspace) Apply(orders []Order, settled bool) ([]Outcome, error) {
	var done []Outcome
	err := w.change(func(l *look) (err error) {
		done, err = l.apply(orders, settled)
		return err
	})
	return done, err
}

func (l *look) apply(orders []Order, settled bool) ([]Outcome, error) {
	p, err := l.plan(orders)
	if err != nil {
		return nil, err
	}
	a := p.apply()
	err = a.all()
	if werr := a.finishRecord(); err == nil {
		err = werr
	}
	if settled && err == nil {
		err = l.settle()
	}
	return a.outcome[:len(orders)], err
}

// Foresee returns the outcomes that Apply would have if nothing changes until then, and changes
// nothing. Applied also covers an order for only some hunks of a text.
func (w Workspace) Foresee(orders []Order) ([]Outcome, error) {
	l, err := w.open()
	if err != nil {
		return nil, err
	}
	defer l.close()
	if l.upper == nil {
		return nil, nil // all of it was discarded just now
	}
	p, err := l.plan(orders)
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
