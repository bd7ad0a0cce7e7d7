package runstate

import (
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/runstate/runstatetest"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// TestDenied checks that a run's failed request is read from the sandboxes' bills on the disk: the
// latest since the run began, without a later answer. Telemetry does not count.
func TestDenied(t *testing.T) {
	e := runstatetest.EmptyEngine(t)
	began := time.Now().UTC().Truncate(time.Second)
	box := func(name string, b spec.Bill) {
		t.Helper()
		sb := &spec.Sandbox{ID: store.NewID(), Name: name}
		_, err := e.Store.Create(sb)
		must(t, err)
		must(t, store.WriteJSON(e.Store.Sandbox(sb.ID).Bill(), b))
	}
	late := &spec.Limited{At: began.Add(2 * time.Second), Host: "late.example", Status: 401}
	box("one", spec.Bill{
		Limited:    &spec.Limited{At: began.Add(time.Second), Host: "early.example", Status: 429},
		Overloaded: &spec.Limited{At: began.Add(9 * time.Second), Host: "over.example", Status: 529, Over: true},
	})
	box("two", spec.Bill{Failed: late})
	box("old", spec.Bill{Limited: &spec.Limited{At: began.Add(-time.Second), Host: "old.example", Status: 429}})
	if got := deniedOf(e, []string{"one", "two", "old", "nobody"}, began); got == nil || *got != *late {
		t.Errorf("%+v", got)
	}
	if got := deniedOf(e, []string{"old"}, began); got != nil {
		t.Errorf("%+v", got)
	}
}
