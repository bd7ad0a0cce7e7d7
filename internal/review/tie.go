package review

import "path"

// ties tell which orders depend on others. A file that the inside moved goes only once it has
// come where it is now: until then it is on the host nowhere else. And a directory that
// becomes something else, or the other way round, is one change with all that lies in it.
type ties struct {
	whole []int          // of each order, what it is a part of, as a whole is of itself; or none
	parts map[int][]int  // of each whole
	from  map[int][]int  // of what was moved somewhere, what goes for it
	to    map[int][]int  // of what goes, where it was moved
	lost  map[int]string // of what goes, where it was moved that no order brings
}

const none = -1

func tie(orders []Order) *ties {
	t := &ties{whole: make([]int, len(orders)), parts: map[int][]int{}, from: map[int][]int{}, to: map[int][]int{}, lost: map[int]string{}}
	at := make(map[string]int, len(orders))
	for i, o := range orders {
		at[o.Path] = i
	}
	for i, o := range orders {
		t.whole[i] = none
		if o.Kind == Type {
			t.whole[i] = i
		}
		for d := path.Dir(o.Path); d != "." && t.whole[i] == none; d = path.Dir(d) {
			if j, ok := at[d]; ok && orders[j].Kind == Type {
				t.whole[i] = j
				t.parts[j] = append(t.parts[j], i)
			}
		}
		if o.Kind != Deleted && o.Kind != Type {
			continue
		}
		for _, p := range o.to {
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

// hold ends, before anything is done, the orders that are not carried out, with those that
// must not be without them; and those that another apply has carried out.
func (p *plan) hold() {
	for i, o := range p.orders {
		switch {
		case p.outcome[i].Result != "":
		case o.Not == "" && o.Refused == "" && o.Pick == nil && p.already(o):
			p.end(i, Applied, "")
			if o.Kind == Deleted {
				p.goes(o.Path)
			}
		case p.refused(i):
		case p.ties.lost[i] != "" && o.Pick == nil:
			p.end(i, Left, "it was moved to "+Quote(p.ties.lost[i])+", which is not meant: apply both, or discard that first")
		case p.ties.whole[i] == i:
			p.occupied(i)
		}
	}
}

// leaveWithout leaves what must not be carried out without an order that is not.
func (p *plan) leaveWithout(i int) {
	leave := func(j int, why string) {
		if p.outcome[j].Result == "" && p.orders[j].Pick == nil { // of which only texts come
			p.end(j, Left, why)
		}
	}
	name := Quote(p.orders[i].Path)
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
