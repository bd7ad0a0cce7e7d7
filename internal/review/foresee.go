package review

import (
	"errors"
	"path"
	"slices"

	"golang.org/x/sys/unix"
)

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
	a := l.begin(orders)
	a.hold()
	for _, goes := range []bool{false, true} { // what comes is first, as in an apply
		for i, o := range slices.Backward(orders) { // what lies in a directory comes first
			if a.outcome[i].Result != "" || goes != (o.Kind == Deleted) {
				continue
			}
			if err := a.foresee(i); err != nil {
				return nil, err
			}
		}
		if !goes {
			a.foreseeWay()
		}
	}
	return a.outcome, nil
}

// foreseeWay ends orders for which the host has no directory to lie in, and gets none.
func (a *applying) foreseeWay() {
	made := map[string]bool{} // directories that take the place of something else
	for i, o := range a.orders {
		made[o.Path] = o.Kind == Type && o.New.Form == Directory && a.outcome[i].Result == Applied
	}
	for i, o := range a.orders {
		if a.outcome[i].Result != Applied || o.Kind == Deleted {
			continue
		}
		in := path.Dir(o.Path)
		d, err := a.host.sub(in)
		d.close()
		if !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.ELOOP) {
			continue
		}
		for in != "." && !made[in] {
			in = path.Dir(in)
		}
		if in == "." {
			a.end(i, Failed, err.Error())
		}
	}
}

func (a *applying) foresee(i int) error {
	no, err := a.unmatched(i)
	switch o := a.orders[i]; {
	case err != nil:
		return a.failed(i, err)
	case no:
	case o.Kind == Deleted && a.keeps(o): // what becomes something else was looked at before
		a.end(i, "", "")
	default:
		a.end(i, Applied, "")
	}
	return nil
}

// keeps tells whether something stays in a directory that was known to be there: it is told
// by itself, or was not meant.
func (a *applying) keeps(o Order) bool { return a.gone[o.Path] < o.within }

// unmatched ends an order of which some hunks are wanted, if it has none of them.
func (a *applying) unmatched(i int) (bool, error) {
	o := a.orders[i]
	if o.Pick == nil {
		return false, nil
	}
	t, some, err := a.hunks(o)
	if err == nil && len(some) == 0 {
		a.end(i, Unmatched, t.Left)
	}
	return len(some) == 0, err
}
