package review

import "golang.org/x/sys/unix"

// A name that goes changes the inode that other names have, too: what an apply does to one
// of the host's hard links must not look like somebody else's change of the others. links
// has what the orders and the record know of such files follow.
type links struct {
	orders []Order
	of     map[Mark][]int // by what the host has, which orders
	now    map[Mark]Mark  // of what was known before, what it is
}

func linksOf(orders []Order) *links {
	l := &links{orders: orders, of: make(map[Mark][]int, len(orders)), now: map[Mark]Mark{}}
	for i, o := range orders {
		if o.Old.Form == File {
			l.of[o.Old.Mark] = append(l.of[o.Old.Mark], i)
		}
	}
	return l
}

// around does what takes away a name of what lies beside the place of a step, and looks at
// what is left of it. Somebody who wrote to it meanwhile has changed it.
func (l *links) around(s *step, do func() error) error {
	if s.old.Form != File {
		return do()
	}
	f, err := s.dir.open(s.temp, unix.O_PATH)
	if err != nil {
		return do()
	}
	defer f.Close()
	if err := do(); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil || st.Nlink == 0 {
		return err
	}
	if now := markOf(&st); now.aside() == s.old.Mark.aside() {
		l.follow(s.old.Mark, now)
	}
	return nil
}

// follow has the orders know of a file what it is now.
func (l *links) follow(was, now Mark) {
	for _, i := range l.of[was] {
		l.orders[i].Old.Mark = now
	}
	l.of[now] = l.of[was]
	l.now[was] = now
	delete(l.now, now) // it is nothing else yet, also where the clock stood still, or was put back
}

// note has the record know it, too.
func (l *links) note(r *record) {
	for i := range r.Paths {
		k := &r.Paths[i]
		for now, ok := l.now[k.Host]; ok; now, ok = l.now[k.Host] {
			k.Host = now
		}
	}
}
