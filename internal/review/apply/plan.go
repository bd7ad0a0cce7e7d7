package apply

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/review"
	"github.com/bothy-dev/bothy/internal/review/beneath"
	"github.com/bothy-dev/bothy/internal/review/quote"
	"github.com/bothy-dev/bothy/internal/review/record"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// plan lists the steps of an apply, in their order, and the outcomes of orders without a step.
// Making a plan only looks; nothing on the host changes.
type plan struct {
	*job
	// orders are the given ones, followed by directories of the layer that are made because a
	// file comes in them.
	orders  []Order
	given   int
	outcome []Outcome
	ties    *ties
	steps   []step
	gone    map[string]bool // paths that are taken away
	count   map[string]int  // by directory, how many names in it are
}

// makePlan decides about all orders.
func (l *job) makePlan(orders []Order) (*plan, error) {
	p := &plan{job: l, given: len(orders), gone: map[string]bool{}, count: map[string]int{}}
	p.orders = append(slices.Clone(orders), l.parentsOf(orders)...)
	p.outcome = make([]Outcome, len(p.orders))
	for i, o := range p.orders {
		p.outcome[i].Change = o.Change
	}
	p.ties = tieOrders(p.orders)
	p.endEarly()
	for i := range p.orders {
		if p.isOpen(i) {
			if err := p.judgeOrder(i); err != nil {
				return nil, err
			}
		}
	}
	for p.endBlocked() { // each ended order may be the reason for others to end
	}
	p.arrange()
	return p, nil
}

// isOpen reports whether an order is still undecided.
func (p *plan) isOpen(i int) bool { return p.outcome[i].Result == "" }

// parentsOf returns the directories that new files need, that the host lacks and no order makes,
// as the layer has them.
func (l *job) parentsOf(orders []Order) (parents []Order) {
	known := map[string]bool{}
	for _, o := range orders {
		known[o.Path] = o.Pick == nil && !o.isRefused()
	}
	for _, o := range orders {
		if o.Kind == review.Deleted {
			continue
		}
		for at := path.Dir(o.Path); at != "." && !known[at]; at = path.Dir(at) {
			known[at] = true
			d, err := l.Host.OpenDir(at)
			d.Close()
			if err == nil {
				break
			}
			made := review.Change{Path: at, Kind: review.Added, New: beneath.Entry{Form: beneath.Directory, Mode: 0o755}, Implied: true}
			if in, name, err := l.Upper.OpenParent(at); err == nil {
				if now, err := in.Entry(name); err == nil && now.Form == beneath.Directory {
					made.New = now
				}
				in.Close()
			}
			parents = append(parents, Order{Change: made})
		}
	}
	return parents
}

// isRefused reports whether an order is not carried out, whatever the host has.
func (o Order) isRefused() bool {
	r, _ := o.refusal()
	return r != ""
}

// refusal returns the result of an order that is refused, and the reason. Both are empty for any other
// order.
func (o Order) refusal() (Result, string) {
	switch {
	case o.Declined != "":
		return o.Declined, o.DeclineReason
	case o.Refused != "":
		return Failed, o.Refused
	case o.Conflict != "" && !o.Overwrite:
		return Conflicts, o.Conflict
	}
	return "", ""
}

func (p *plan) endOrder(i int, r Result, why string) {
	p.outcome[i] = Outcome{Change: p.orders[i].Change, Result: r, Why: why}
	if r != Applied && r != Partly && r != Unmatched && r != "" {
		p.leaveWithout(i)
	}
}

// failOrder ends an order with an error, which is reported and does not stop other orders; but a
// full disk stops all of them.
func (p *plan) failOrder(i int, err error) error {
	if errors.Is(err, spec.ErrConflict) {
		p.endOrder(i, Conflicts, err.Error())
		return nil
	}
	p.endOrder(i, Failed, err.Error())
	if store.IsFull(err) {
		return fmt.Errorf("write %s: %w", quote.Path(p.orders[i].Path), err)
	}
	return nil
}

// judgeOrder ends an order that the layer does not want any more, that has no wanted hunk, or whose
// host file has changed.
func (p *plan) judgeOrder(i int) error {
	o := p.orders[i]
	if o.Kind == review.Deleted && o.Pick != nil {
		p.endOrder(i, Unmatched, "")
		return nil
	}
	if err := p.checkWanted(i); err != nil {
		return p.failOrder(i, err)
	}
	if o.Pick != nil {
		has, why, err := p.hasPicked(o)
		if err != nil {
			return p.failOrder(i, err)
		}
		if !has {
			p.endOrder(i, Unmatched, why)
			return nil
		}
	}
	if whole := p.ties.whole[i]; whole != none && whole != i {
		return nil // its whole is judged for it
	}
	if err := p.checkHost(o); err != nil {
		return p.failOrder(i, err)
	}
	return nil
}

// checkWanted fails if the layer changed since the order was given.
func (p *plan) checkWanted(i int) error {
	switch o := p.orders[i]; {
	case i >= p.given: // the order was made from the layer just now
		return nil
	case o.Kind != review.Deleted:
		return p.checkInLayer(o.Change)
	case p.ties.whole[i] != none:
		return nil // the path that replaces it was checked
	default:
		return p.checkHidden(o.Path)
	}
}

// checkHost fails if the host's path changed since the order was given.
func (p *plan) checkHost(o Order) error {
	in, name, err := p.Host.OpenParent(o.Path)
	if err != nil {
		if o.Kind == review.Deleted || o.Old.Form != beneath.Nothing || !beneath.IsMissing(err) {
			return err
		}
		return nil // endBlocked checks whether it gets a directory
	}
	defer in.Close()
	st, there, err := in.Stat(name)
	switch {
	case err != nil:
		return err
	case !there && o.Old.Form == beneath.Nothing:
		return nil
	case !there || o.Old.Form == beneath.Nothing || !isAsSeen(o.Old, beneath.MarkOf(&st), o.Kind == review.Deleted):
		return errNewer()
	case o.Kind == review.Deleted:
		return in.CheckWritable(path.Dir(o.Path))
	}
	return nil
}

// isAsSeen reports whether a place is still as it was seen. It ignores the contents of a directory,
// which are checked one by one, and also the mode of a directory that goes.
func isAsSeen(old beneath.Entry, now beneath.Mark, goes bool) bool {
	if old.Form == beneath.Directory {
		return now.Inode == old.Mark.Inode && (goes || now.Mode == old.Mark.Mode)
	}
	return now == old.Mark
}

// endBlocked ends orders without a directory on the host that the caller may write to, now or later.
// It reports whether it found any, because others may have depended on them.
func (p *plan) endBlocked() (found bool) {
	becomes := map[string]bool{} // something else that becomes a directory
	for i, o := range p.orders {
		becomes[o.Path] = p.isOpen(i) && o.Kind == review.Type && o.New.Form == beneath.Directory
	}
	reasons := map[string]error{}
	for i, o := range p.orders {
		if !p.isOpen(i) || o.Kind == review.Deleted || o.Kind == review.Mode && o.New.Form == beneath.Directory {
			continue
		}
		in := path.Dir(o.Path)
		err, known := reasons[in]
		if !known {
			err = p.checkDirectory(in, becomes)
			reasons[in] = err
		}
		if err != nil {
			p.endOrder(i, Failed, beneath.Reason(err))
			found = true
		}
	}
	return found
}

// checkDirectory fails if nothing can be put in a directory that the host has, or gets.
func (p *plan) checkDirectory(in string, becomes map[string]bool) error {
	d, err := p.Host.OpenDir(in)
	switch {
	case err == nil:
		defer d.Close()
		return d.CheckWritable(in)
	case errors.Is(err, unix.ENOENT) && in != ".":
		return p.checkDirectory(path.Dir(in), becomes)
	}
	for at := in; at != "."; at = path.Dir(at) {
		if becomes[at] {
			return nil
		}
	}
	return err
}

// arrange lists the steps. New and changed files come first, a directory before its contents.
// Then come the paths that become something else. Deletions come last.
func (p *plan) arrange() {
	p.comeTogether(none)
	for _, whole := range p.wholes() {
		p.addStep(whole, record.Bring)
		p.comeTogether(whole)
	}
	for i := range slices.Backward(p.orders[:p.given]) { // the contents of a directory come after it
		o := p.orders[i]
		switch {
		case !p.isOpen(i) || o.Kind != review.Deleted || p.ties.whole[i] != none:
		case o.Old.Form != beneath.Directory:
			p.addStep(i, record.Remove)
		default:
			p.addRemoval(i)
		}
	}
}

// addRemoval adds the removal of a directory, unless something stays in it. If everything in it was
// known, the outcomes of its contents tell why it stays, or the user did not mean them.
func (p *plan) addRemoval(i int) {
	o := p.orders[i]
	switch stays, err := p.hasLeftovers(o.Path); {
	case err != nil:
		p.endOrder(i, Failed, err.Error())
	case !stays:
		p.addStep(i, record.RemoveDir)
	case p.count[o.Path] >= o.DeletedIn:
		p.endOrder(i, Conflicts, "there is something new in it")
	}
}

func (p *plan) addStep(i int, do record.Deed) {
	p.steps = append(p.steps, step{do: do, order: i})
	if do == record.Remove || do == record.RemoveDir {
		p.noteRemoved(p.orders[i].Path)
	}
}

// noteRemoved notes that a path of the host's will be removed, or was by another apply.
func (p *plan) noteRemoved(at string) {
	p.gone[at] = true
	p.count[path.Dir(at)]++
}

// hasLeftovers reports whether something is left in a directory of the host's after all removals.
func (p *plan) hasLeftovers(at string) (bool, error) {
	d, err := p.Host.OpenDir(at)
	if err != nil {
		return false, err
	}
	defer d.Close()
	names, err := d.Names()
	return slices.ContainsFunc(names, func(name string) bool {
		in := path.Join(at, name)
		return !p.gone[in] && !p.Temps[in]
	}), err
}

// comeTogether adds the orders that belong to one whole, or to none.
func (p *plan) comeTogether(whole int) {
	var dirs, others []int
	needed := p.neededDirs()
	for i, o := range p.orders {
		switch {
		case !p.isOpen(i) || o.Kind == review.Deleted || o.Kind == review.Type || p.ties.whole[i] != whole:
		case o.Kind == review.Added && o.New.Form == beneath.Directory:
			if i < p.given || needed[o.Path] {
				dirs = append(dirs, i)
			}
		default:
			others = append(others, i)
		}
	}
	depth := func(i int) int { return strings.Count(p.orders[i].Path, "/") }
	slices.SortStableFunc(dirs, func(i, j int) int { return cmp.Compare(depth(i), depth(j)) })
	for _, i := range append(dirs, others...) {
		if o := p.orders[i]; o.New.Form == beneath.Directory && o.Kind != review.Added {
			p.addStep(i, record.Chmod)
		} else {
			p.addStep(i, record.Bring)
		}
	}
}

// neededDirs returns the directories that new files need.
func (p *plan) neededDirs() map[string]bool {
	dirs := map[string]bool{}
	for i, o := range p.orders[:p.given] {
		for at := path.Dir(o.Path); p.isOpen(i) && o.Kind != review.Deleted && at != "." && !dirs[at]; at = path.Dir(at) {
			dirs[at] = true
		}
	}
	return dirs
}

// wholes returns the orders for paths that become something else. A path that was moved into another
// comes after that one.
func (p *plan) wholes() (list []int) {
	seen := map[int]bool{}
	var visit func(whole int)
	visit = func(whole int) {
		if whole == none || seen[whole] || !p.isOpen(whole) {
			return
		}
		seen[whole] = true
		for _, i := range append(p.ties.parts[whole], whole) {
			for _, to := range p.ties.to[i] {
				visit(p.ties.whole[to])
			}
		}
		list = append(list, whole)
	}
	for i := range p.orders {
		if p.ties.whole[i] == i {
			visit(i)
		}
	}
	return list
}

// partsOf returns the deletions that are carried out with the step of another order: the contents
// of a directory that becomes something else.
func (p *plan) partsOf(i int) (parts []int) {
	for _, j := range p.ties.parts[i] {
		if p.orders[j].Kind == review.Deleted {
			parts = append(parts, j)
		}
	}
	return parts
}

// hasPicked reports whether a change has any of the hunks that its order picks. If it has no lines at
// all, why is the reason.
func (l *job) hasPicked(o Order) (has bool, why string, err error) {
	t, err := l.textOf(o)
	if err != nil {
		return false, "", err
	}
	_, hunks := t.Merged(o.Pick)
	return hunks > 0, t.Left, nil
}

// Between the look and the apply, another command may have discarded a change, or put back the
// layer's earlier contents. Apply leaves out a change that the layer does not want any more.

// checkInLayer fails if the layer's path is not as it was seen.
func (l *job) checkInLayer(c review.Change) error {
	in, name, err := l.Upper.OpenParent(c.Path)
	if beneath.IsMissing(err) {
		return beneath.ErrChanged()
	}
	if err != nil {
		return err
	}
	defer in.Close()
	now, err := in.Entry(name)
	if err != nil {
		return err
	}
	if now.Form == beneath.Directory { // its times depend on its contents
		now.Mark = c.New.Mark
	}
	if now != c.New {
		return beneath.ErrChanged()
	}
	return nil
}

// isAlreadyApplied reports whether another apply has brought the change since the look, according to the
// record, and the host still has it.
func (l *job) isAlreadyApplied(o Order) bool {
	k, noted := l.Record.Find(o.Path)
	if !noted {
		return false
	}
	in, name, err := l.Host.OpenParent(o.Path)
	if err != nil && !beneath.IsMissing(err) {
		return false
	}
	defer in.Close()
	now, err := in.Entry(name)
	switch {
	case err != nil:
		return false
	case o.Kind == review.Deleted:
		return now.Form == beneath.Nothing && k.Host == beneath.Mark{}
	case o.New.Form == beneath.Directory:
		return now.Form == beneath.Directory && l.Record.HasDir(o.Path, now.Mark) && (o.Kind != review.Mode || now.Mode != o.Old.Mode && now.Mode == o.HostMode()|0o700)
	case now.Mark != k.Host || k.Host == o.Old.Mark || now.Form != o.New.Form:
		return false
	}
	return k.Layer == o.New.Mark || k.Layer == beneath.Mark{} && now.Size == o.New.Size && !l.LayerHas(o.Path)
}

// checkHidden fails if the layer does not hide the host's path, or has something there.
func (l *job) checkHidden(p string) error {
	hides, err := l.Hides(p)
	if err == nil && !hides {
		err = beneath.ErrChanged()
	}
	return err
}
