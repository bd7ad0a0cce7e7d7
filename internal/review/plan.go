package review

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// plan lists the steps of an apply, in their order, and the outcomes of orders without a step.
// Making a plan only looks; nothing on the host changes.
type plan struct {
	*look
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

// deed is the kind of a step.
type deed string

const (
	bring  deed = "bring"  // puts a file, a link or a directory in its place
	remove deed = "remove" // takes a file or a link away
	rmdir  deed = "rmdir"  // removes a directory in which nothing is left
	chmod  deed = "chmod"  // gives a directory its mode
)

// plan decides about all orders.
func (l *look) plan(orders []Order) (*plan, error) {
	p := &plan{look: l, given: len(orders), gone: map[string]bool{}, count: map[string]int{}}
	p.orders = append(slices.Clone(orders), l.parentsOf(orders)...)
	p.outcome = make([]Outcome, len(p.orders))
	for i, o := range p.orders {
		p.outcome[i].Change = o.Change
	}
	p.ties = tie(p.orders)
	p.hold()
	for i := range p.orders {
		if p.open(i) {
			if err := p.judge(i); err != nil {
				return nil, err
			}
		}
	}
	for p.blocked() {
	}
	p.arrange()
	return p, nil
}

// open reports whether an order is still undecided.
func (p *plan) open(i int) bool { return p.outcome[i].Result == "" }

// parentsOf returns the directories that new files need, that the host lacks and no order makes,
// as the layer has them.
func (l *look) parentsOf(orders []Order) (parents []Order) {
	known := map[string]bool{}
	for _, o := range orders {
		known[o.Path] = o.Pick == nil && !o.isRefused()
	}
	for _, o := range orders {
		if o.Kind == Deleted {
			continue
		}
		for at := path.Dir(o.Path); at != "." && !known[at]; at = path.Dir(at) {
			known[at] = true
			d, err := l.host.sub(at)
			d.close()
			if err == nil {
				break
			}
			made := Change{Path: at, Kind: Added, New: Entry{Form: Directory, Mode: 0o755}, Implied: true}
			if in, name, err := l.upper.parent(at); err == nil {
				if now, err := in.entry(name); err == nil && now.Form == Directory {
					made.New = now
				}
				in.close()
			}
			parents = append(parents, Order{Change: made})
		}
	}
	return parents
}

// isRefused reports whether an order is not carried out, whatever the host has.
func (o Order) isRefused() bool {
	return o.Not != "" || o.Refused != "" || o.Conflict != "" && !o.Overwrite
}

// refused ends an order that cannot be carried out.
func (p *plan) refused(i int) bool {
	o := p.orders[i]
	switch {
	case o.Not != "":
		p.end(i, o.Not, o.Why)
	case o.Refused != "":
		p.end(i, Failed, o.Refused)
	case o.Conflict != "" && !o.Overwrite:
		p.end(i, Conflicts, o.Conflict)
	default:
		return false
	}
	return true
}

func (p *plan) end(i int, r Result, why string) {
	p.outcome[i] = Outcome{Change: p.orders[i].Change, Result: r, Why: why}
	if r != Applied && r != Partly && r != Unmatched && r != "" {
		p.leaveWithout(i)
	}
}

// failed ends an order with an error, which is reported and does not stop other orders; but a
// full disk stops all of them.
func (p *plan) failed(i int, err error) error {
	if errors.Is(err, spec.ErrConflict) {
		p.end(i, Conflicts, err.Error())
		return nil
	}
	p.end(i, Failed, err.Error())
	if store.IsFull(err) {
		return fmt.Errorf("write %s: %w", Quote(p.orders[i].Path), err)
	}
	return nil
}

// judge ends an order that the layer does not want any more, that has no wanted hunk, or whose
// host file has changed.
func (p *plan) judge(i int) error {
	o := p.orders[i]
	if o.Kind == Deleted && o.Pick != nil {
		p.end(i, Unmatched, "")
		return nil
	}
	if err := p.stillWanted(i); err != nil {
		return p.failed(i, err)
	}
	if no, err := p.unmatched(i); no || err != nil {
		if err != nil {
			return p.failed(i, err)
		}
		return nil
	}
	if whole := p.ties.whole[i]; whole != none && whole != i {
		return nil // its whole is judged for it
	}
	if err := p.stillSeen(o); err != nil {
		return p.failed(i, err)
	}
	return nil
}

// stillWanted fails if the layer changed since the order was given.
func (p *plan) stillWanted(i int) error {
	switch o := p.orders[i]; {
	case i >= p.given: // the order was made from the layer just now
		return nil
	case o.Kind != Deleted:
		return p.stillThere(o.Change)
	case p.ties.whole[i] != none:
		return nil // the path that replaces it was checked
	default:
		return p.stillGone(o.Path)
	}
}

// stillSeen fails if the host's path changed since the order was given.
func (p *plan) stillSeen(o Order) error {
	in, name, err := p.host.parent(o.Path)
	if err != nil {
		if o.Kind == Deleted || o.Old.Form != Nothing || !hidden(err) {
			return err
		}
		return nil // blocked checks whether it gets a directory
	}
	defer in.close()
	st, there, err := in.stat(name)
	switch {
	case err != nil:
		return err
	case !there && o.Old.Form == Nothing:
		return nil
	case !there || o.Old.Form == Nothing || !asSeen(o.Old, markOf(&st), o.Kind == Deleted):
		return errNewer()
	case o.Kind == Deleted:
		return in.writable(path.Dir(o.Path))
	}
	return nil
}

// asSeen reports whether a place is still as it was seen. It ignores the contents of a directory,
// which are checked one by one, and also the mode of a directory that goes.
func asSeen(old Entry, now Mark, goes bool) bool {
	if old.Form == Directory {
		return now.Inode == old.Mark.Inode && (goes || now.Mode == old.Mark.Mode)
	}
	return now == old.Mark
}

// blocked ends orders without a directory on the host that the caller may write to, now or later.
// It reports whether it found any, because others may have depended on them.
func (p *plan) blocked() (found bool) {
	becomes := map[string]bool{} // something else that becomes a directory
	for i, o := range p.orders {
		becomes[o.Path] = p.open(i) && o.Kind == Type && o.New.Form == Directory
	}
	reasons := map[string]error{}
	for i, o := range p.orders {
		if !p.open(i) || o.Kind == Deleted || o.Kind == Mode && o.New.Form == Directory {
			continue
		}
		in := path.Dir(o.Path)
		err, known := reasons[in]
		if !known {
			err = p.blocks(in, becomes)
			reasons[in] = err
		}
		if err != nil {
			p.end(i, Failed, reason(err))
			found = true
		}
	}
	return found
}

// blocks returns the reason why nothing can be put in a directory that the host has, or gets.
func (p *plan) blocks(in string, becomes map[string]bool) error {
	d, err := p.host.sub(in)
	defer d.close()
	switch {
	case err == nil:
		return d.writable(in)
	case errors.Is(err, unix.ENOENT) && in != ".":
		return p.blocks(path.Dir(in), becomes)
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
		p.add(whole, bring)
		p.comeTogether(whole)
	}
	for i := range slices.Backward(p.orders[:p.given]) { // the contents of a directory come after it
		o := p.orders[i]
		switch {
		case !p.open(i) || o.Kind != Deleted || p.ties.whole[i] != none:
		case o.Old.Form != Directory:
			p.add(i, remove)
		default:
			p.empty(i)
		}
	}
}

// empty adds the removal of a directory, unless something stays in it. If everything in it was
// known, the outcomes of its contents tell why it stays, or the user did not mean them.
func (p *plan) empty(i int) {
	o := p.orders[i]
	switch stays, err := p.stays(o.Path); {
	case err != nil:
		p.end(i, Failed, err.Error())
	case !stays:
		p.add(i, rmdir)
	case p.count[o.Path] >= o.within:
		p.end(i, Conflicts, "there is something new in it")
	}
}

func (p *plan) add(i int, do deed) {
	p.steps = append(p.steps, step{do: do, order: i})
	if do == remove || do == rmdir {
		p.goes(p.orders[i].Path)
	}
}

// goes notes that a path of the host's will be removed, or was by another apply.
func (p *plan) goes(at string) {
	p.gone[at] = true
	p.count[path.Dir(at)]++
}

// stays reports whether something is left in a directory of the host's after all removals.
func (p *plan) stays(at string) (bool, error) {
	d, err := p.host.sub(at)
	if err != nil {
		return false, err
	}
	defer d.close()
	names, err := d.names()
	return slices.ContainsFunc(names, func(name string) bool {
		in := path.Join(at, name)
		return !p.gone[in] && !p.temps[in]
	}), err
}

// comeTogether adds the orders that belong to one whole, or to none.
func (p *plan) comeTogether(whole int) {
	var dirs, others []int
	needed := p.needed()
	for i, o := range p.orders {
		switch {
		case !p.open(i) || o.Kind == Deleted || o.Kind == Type || p.ties.whole[i] != whole:
		case o.Kind == Added && o.New.Form == Directory:
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
		if o := p.orders[i]; o.New.Form == Directory && o.Kind != Added {
			p.add(i, chmod)
		} else {
			p.add(i, bring)
		}
	}
}

// needed returns the directories that new files need.
func (p *plan) needed() map[string]bool {
	dirs := map[string]bool{}
	for i, o := range p.orders[:p.given] {
		for at := path.Dir(o.Path); p.open(i) && o.Kind != Deleted && at != "." && !dirs[at]; at = path.Dir(at) {
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
		if whole == none || seen[whole] || !p.open(whole) {
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
		if p.orders[j].Kind == Deleted {
			parts = append(parts, j)
		}
	}
	return parts
}

// unmatched ends an order for some hunks if it has none of them.
func (p *plan) unmatched(i int) (bool, error) {
	o := p.orders[i]
	if o.Pick == nil {
		return false, nil
	}
	t, some, err := p.hunks(o)
	if err == nil && len(some) == 0 {
		p.end(i, Unmatched, t.Left)
	}
	return len(some) == 0, err
}
