package apply

import (
	"path"

	"github.com/bothy-dev/bothy/internal/review"
	"github.com/bothy-dev/bothy/internal/review/quote"
)

// ties tell which orders depend on others. A file that the sandbox moved is removed only after it
// has come to its new place: until then it is nowhere else on the host. And a directory that
// becomes something else, or the other way round, is one change with all of its contents.
type ties struct {
	whole []int          // of each order, the order it is a part of (a whole is part of itself), or none
	parts map[int][]int  // of each whole
	from  map[int][]int  // of each moved file, the orders that remove it
	to    map[int][]int  // of each removed file, the orders that bring it elsewhere
	lost  map[int]string // of each removed file, its new path that no order brings
}

const none = -1

func tieOrders(orders []Order) *ties {
	t := &ties{whole: make([]int, len(orders)), parts: map[int][]int{}, from: map[int][]int{}, to: map[int][]int{}, lost: map[int]string{}}
	at := make(map[string]int, len(orders))
	for i, o := range orders {
		at[o.Path] = i
	}
	for i, o := range orders {
		t.whole[i] = none
		if o.Kind == review.Type {
			t.whole[i] = i
		}
		for d := path.Dir(o.Path); d != "." && t.whole[i] == none; d = path.Dir(d) {
			if j, ok := at[d]; ok && orders[j].Kind == review.Type {
				t.whole[i] = j
				t.parts[j] = append(t.parts[j], i)
			}
		}
		if o.Kind != review.Deleted && o.Kind != review.Type {
			continue
		}
		for _, p := range o.MovedTo {
			j, ok := at[p]
			if !ok {
				t.lost[i] = p
				continue
			}
			t.from[j] = append(t.from[j], i)
			t.to[i] = append(t.to[i], j)
		}
	}
	return t
}

// endEarly ends orders before anything is done: those that are not carried out, those that depend on
// them, and those that another apply has carried out.
func (p *plan) endEarly() {
	for i, o := range p.orders {
		refused, why := o.refusal()
		switch {
		case p.outcome[i].Result != "":
		case o.Declined == "" && o.Refused == "" && o.Pick == nil && p.isAlreadyApplied(o):
			p.endOrder(i, Applied, "")
			if o.Kind == review.Deleted {
				p.noteRemoved(o.Path)
			}
		case refused != "":
			p.endOrder(i, refused, why)
		case p.ties.lost[i] != "" && o.Pick == nil:
			p.endOrder(i, Left, "it was moved to "+quote.Path(p.ties.lost[i])+", which is not selected: select both, or discard that first")
		case p.ties.whole[i] == i:
			p.endOccupied(i)
		}
	}
}

// leaveWithout leaves the orders that must not be carried out without a given one.
func (p *plan) leaveWithout(i int) {
	leave := func(j int, why string) {
		if p.outcome[j].Result == "" && p.orders[j].Pick == nil { // only texts are applied for those
			p.endOrder(j, Left, why)
		}
	}
	name := quote.Path(p.orders[i].Path)
	for _, j := range p.ties.from[i] {
		leave(j, "it was moved to "+name+", which is not applied")
	}
	if whole := p.ties.whole[i]; whole != none && whole != i {
		leave(whole, name+", which goes with it, is not applied")
	}
	for _, j := range p.ties.parts[i] {
		leave(j, "it goes with "+name+", which is not applied")
	}
}
