package transcript

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

// TestRowsHeld checks that not all rows are held in decoded form at once, because that
// takes many times their text.
func TestRowsHeld(t *testing.T) {
	s := inDatabaseOf(t, t.TempDir())
	text := "[" + strings.Repeat("[],", 30_000) + "0]"
	all := &talk{}
	for i := range 8 {
		d := &document{id: fmt.Sprint(i), text: text}
		all.messages = append(all.messages, &message{talk: all, document: d, parts: []*document{{id: fmt.Sprint(i), text: text}}})
	}
	n := 0
	tail := s.rowTail(Session{ID: "one"}, func(spec.TranscriptEvent) error { n++; return nil })
	before := held()
	must(t, tail.reportChanges(all))
	if took := held() - before; took > 4<<20 || n != 8 {
		t.Errorf("%d rows are unknown, and %d MiB are held for them", n, took>>20)
	}
	runtime.KeepAlive(all)
}

// held returns how many bytes are in use.
func held() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestRowsForgotten checks that rows that no longer exist, as in a database that is recreated again and
// again, are not remembered for ever. Existing rows are not reported twice.
func TestRowsForgotten(t *testing.T) {
	s := inDatabaseOf(t, t.TempDir())
	n := 0
	tail := s.rowTail(Session{ID: "one"}, func(spec.TranscriptEvent) error { n++; return nil })
	all := &talk{}
	for look := range 3 {
		all.messages = all.messages[:min(1, len(all.messages))]
		for i := range maxTold / 2 {
			all.messages = append(all.messages, &message{document: &document{id: fmt.Sprint(look, i), cause: causeLong}})
		}
		must(t, tail.reportChanges(all))
	}
	if n != 3*maxTold/2 || len(tail.rows) != maxTold/2+1 {
		t.Errorf("%d were told, and %d are remembered", n, len(tail.rows))
	}
	_ = tail.reportChanges(all)
	if n != 3*maxTold/2 {
		t.Error("they are told again")
	}
}
