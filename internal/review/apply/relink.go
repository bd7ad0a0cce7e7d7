package apply

import (
	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/review/beneath"
	"github.com/bothy-dev/bothy/internal/review/record"
)

// links updates the orders and the record when a step removes a name of a file. Removing a name changes
// the inode that other names share, and must not look like another program's change of them.
type links struct {
	orders []Order
	of     map[beneath.Mark][]int        // orders by the host's file
	now    map[beneath.Mark]beneath.Mark // the current mark of each earlier one
}

func linksOf(orders []Order) *links {
	l := &links{orders: orders, of: make(map[beneath.Mark][]int, len(orders)), now: map[beneath.Mark]beneath.Mark{}}
	for i, o := range orders {
		if o.Old.Form == beneath.File {
			l.of[o.Old.Mark] = append(l.of[o.Old.Mark], i)
		}
	}
	return l
}

// around runs do, which removes a name of a step's temporary file, and follows the mark of the
// remaining names. It does not follow it if another program wrote to the file meanwhile.
func (l *links) around(s *step, do func() error) error {
	if s.old.Form != beneath.File {
		return do()
	}
	f, err := s.dir.Open(s.temp, unix.O_PATH)
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
	if now := beneath.MarkOf(&st); now.Aside() == s.old.Mark.Aside() {
		l.followMark(s.old.Mark, now)
	}
	return nil
}

// followMark replaces the earlier mark of a file by the current one in the orders.
func (l *links) followMark(was, now beneath.Mark) {
	for _, i := range l.of[was] {
		l.orders[i].Old.Mark = now
	}
	l.of[now] = l.of[was]
	l.now[was] = now
	delete(l.now, now) // it has no later mark yet, even if the clock stood still, or was set back
}

// updateRecord does the same in the record.
func (l *links) updateRecord(r *record.Record) {
	for i := range r.Paths {
		k := &r.Paths[i]
		for now, ok := l.now[k.Host]; ok; now, ok = l.now[k.Host] {
			k.Host = now
		}
	}
}
