package review

import (
	"github.com/bothy-dev/bothy/spec"
)

// Order is a change that shall be brought to the host, as it was seen. Whoever
// gives it has decided about its flags.
type Order struct {
	Change
	// Pick leaves of a text only the hunks that it chooses; nil: all.
	Pick Pick
	// Shown is the digest of the file of the layer as somebody saw it who decided; what
	// is another then is not applied. Nil: only its inode and its times must be as they
	// were, which what a program writes through memory leaves as they are.
	Shown *Digest
	// Overwrite applies it although the host's file was changed meanwhile.
	Overwrite bool
	// Not is what becomes of it if somebody has decided against it, and Why; what must not be
	// carried out without it is left, too.
	Not Result
	Why string
}

// mode is what a file or a directory gets on the host. Group and others may do no more with
// it than now, and cannot write to what is new: an editor inside that writes a new file in
// the place of another, and gives it the usual mode, does not mean that. It is otherwise if
// that is all the change is, which is shown as such then, and has a flag if they may write.
func (c Change) mode() uint32 {
	shut := uint32(0o022)
	if c.Old.Form == File {
		shut = 0o066 &^ c.Old.Mode
		shut |= (shut & 0o044) >> 2 &^ c.Old.Mode // who cannot read it does not run it either
	}
	if c.Kind == Mode {
		shut = 0
	}
	return c.New.Mode &^ shut
}

// Chmod tells which mode a file of the host's gets with another text, if that is another one.
func (c Change) Chmod() (mode uint32, other bool) {
	mode = c.mode()
	return mode, c.Kind == Modified && c.New.Form == File && mode != c.Old.Mode
}

// inside is what the record keeps of the mode of a directory which has another one on
// the host.
func (o Order) inside() uint32 {
	if o.mode()|0o700 == o.New.Mode {
		return 0
	}
	return o.New.Mode
}

// Result is what became of an order.
type Result string

// Results.
const (
	Applied   Result = "applied"
	Partly    Result = "partly"    // some hunks of it
	Unmatched Result = "unmatched" // no hunk of it was meant
	Conflicts Result = "conflict"  // the host has something newer
	Failed    Result = "failed"
	Left      Result = "left" // it must not go without another one that was not applied
	Discarded Result = "discarded"
)

// Outcome is what became of one change. A directory that stays with what was left in it
// has no result of its own.
type Outcome struct {
	Change
	Result Result
	Why    string
}

// Apply brings changes to the host. Each file is there old or new at any moment,
// whoever looks and whenever it ends; what the host changed since the order was
// made is not overwritten. settled says that the layer is not mounted: what was
// applied then leaves it. The caller sees to it that nobody else applies.
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

// Foresee tells what Apply would come to if nothing changes until then, and does nothing.
// Applied stands for some hunks of a text, too.
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

// errNewer says that the host has changed something since the order was made.
func errNewer() error { return spec.Errorf(spec.ErrConflict, "changed on the host just now") }
