package apply

import (
	"testing"

	"github.com/bothy-dev/bothy/internal/review"
	"github.com/bothy-dev/bothy/internal/review/beneath"
	"github.com/bothy-dev/bothy/internal/review/record"
)

// TestFollowInCircles checks marks that repeat: file systems with coarse times give a file the
// same times again, and so does a clock that was set back.
func TestFollowInCircles(t *testing.T) {
	at := func(changed int64) beneath.Mark { return beneath.Mark{Inode: 1, Changed: changed} }
	for _, test := range []struct {
		name  string
		marks []int64 // marks of the file, one after another
		want  int64
	}{
		{"on and on", []int64{1, 2, 3}, 3},
		{"the clock stands still", []int64{1, 1}, 1},
		{"it stands still later", []int64{1, 2, 2}, 2},
		{"and back", []int64{1, 2, 1}, 1},
		{"back to the middle", []int64{1, 2, 3, 2}, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := linksOf([]Order{{Change: review.Change{Path: "b", Old: beneath.Entry{Form: beneath.File, Mark: at(1)}}}})
			for i, m := range test.marks[1:] {
				l.followMark(at(test.marks[i]), at(m))
			}
			r, err := record.Layer{Dir: t.TempDir()}.Read()
			must(t, err)
			r.Set("a", record.State{Host: at(1)})
			l.updateRecord(r)
			if k, _ := r.Find("a"); k.Host != at(test.want) {
				t.Errorf("the record knows %v, want %v", k.Host, at(test.want))
			}
			if now := l.orders[0].Old.Mark; now != at(test.want) {
				t.Errorf("the order knows %v, want %v", now, at(test.want))
			}
		})
	}
}
