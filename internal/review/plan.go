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

// plan is what an apply does: the steps, in their order, and the outcomes of the orders that
// have no step. It is made by looking only; nothing on the host changes.
type plan struct {
	*look
	// orders are those that were given, and behind them directories of the layer that are
	// made because something comes in them.
	orders  []Order
	given   int
	outcome []Outcome
	ties    *ties
	steps   []step
	gone    map[string]bool // paths that are taken away
	count   map[string]int  // by directory, how many names in it are
}

// deed is what a step does.
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

// open tells whether nothing was decided about an order yet.
func (p *plan) open(i int) bool { return p.outcome[i].Result == "" }

// parentsOf are the directories that the host lacks for what comes, as the layer has them, and
// that no order makes.
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

// isRefused tells whether an order is not carried out, whatever the host has.
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

// failed ends an order with an error, which is told and keeps no other from being
// carried out; but a disk that is full is full for all.
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

// judge ends an order that the layer does not want any more, of which no hunk is meant, or for
// which the host has something else by now.
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
		return nil // it lies in what takes the place of something else, or goes with that
	}
	if err := p.stillSeen(o); err != nil {
		return p.failed(i, err)
	}
	return nil
}

// stillWanted wants the layer to be as it was when the order was given.
func (p *plan) stillWanted(i int) error {
	switch o := p.orders[i]; {
	case i >= p.given: // it has what it has
		return nil
	case o.Kind != Deleted:
		return p.stillThere(o.Change)
	case p.ties.whole[i] != none:
		return nil // what takes its place was looked at
	default:
		return p.stillGone(o.Path)
	}
}

// stillSeen wants the host to have at a path what the order was given for.
func (p *plan) stillSeen(o Order) error {
	in, name, err := p.host.parent(o.Path)
	if err != nil {
		if o.Kind == Deleted || o.Old.Form != Nothing || !hidden(err) {
			return err
		}
		return nil // blocked tells whether it gets a directory
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

// asSeen tells whether what is in a place is what was seen there. Of a directory, what is in
// it is looked at by itself; of one that goes, so is its mode.
func asSeen(old Entry, now Mark, goes bool) bool {
	if old.Form == Directory {
		return now.Inode == old.Mark.Inode && (goes || now.Mode == old.Mark.Mode)
	}
	return now == old.Mark
}

// blocked ends orders for which the host has no directory to lie in that the caller may write
// to, and gets none, and tells whether there were any: others may have depended on them.
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

// blocks says why nothing can come in a directory that the host has, or gets.
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

// arrange lists the steps. First comes what is new or other, a directory before what lies in
// it, and what becomes something else after the rest; then what goes goes.
func (p *plan) arrange() {
	p.comeTogether(none)
	for _, whole := range p.wholes() {
		p.add(whole, bring)
		p.comeTogether(whole)
	}
	for i := range slices.Backward(p.orders[:p.given]) { // what lies in a directory is behind it
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

// empty adds the removal of a directory, unless something stays in it. What was known to be
// there is told by itself, or was not meant.
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

// goes notes that a path of the host's goes, or went by another apply.
func (p *plan) goes(at string) {
	p.gone[at] = true
	p.count[path.Dir(at)]++
}

// stays tells whether something is left in a directory of the host's once all has gone that goes.
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

// comeTogether adds what comes in one whole, or in none.
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

// needed are the directories in which something comes.
func (p *plan) needed() map[string]bool {
	dirs := map[string]bool{}
	for i, o := range p.orders[:p.given] {
		for at := path.Dir(o.Path); p.open(i) && o.Kind != Deleted && at != "." && !dirs[at]; at = path.Dir(at) {
			dirs[at] = true
		}
	}
	return dirs
}

// wholes are the orders for what becomes something else. One that was moved into another comes
// after that.
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

// partsOf are the orders that are carried out with the step of another: what lies in a
// directory that becomes something else.
func (p *plan) partsOf(i int) (parts []int) {
	for _, j := range p.ties.parts[i] {
		if p.orders[j].Kind == Deleted {
			parts = append(parts, j)
		}
	}
	return parts
}

// unmatched ends an order of which some hunks are wanted, if it has none of them.
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
