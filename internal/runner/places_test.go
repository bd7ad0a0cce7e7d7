package runner

import (
	"errors"
	"testing"

	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/spec"
)

// TestPlaceOfNobody checks that an agent whose place is unknown does not work in another agent's
// sandbox.
func TestPlaceOfNobody(t *testing.T) {
	own, other := &spec.Sandbox{ID: "1"}, &spec.Sandbox{ID: "2"}
	s := NewLoop(nil, nil, nil, own, &spec.Agent{Name: "one"}, &loopplan.Plan{Agent: "one"}, NewPlaces(map[loop.Seat]Place{{Agent: "two"}: {Sandbox: other}}), "")
	for seat, want := range map[loop.Seat]*spec.Sandbox{{}: own, {Agent: "one"}: own, {Agent: "two"}: other} {
		if at, err := s.placeOf(seat); err != nil || at.Sandbox != want {
			t.Errorf("%+v is at %+v, %v", seat, at, err)
		}
	}
	for _, seat := range []loop.Seat{{Agent: "three"}, {Worker: 1}, {Worker: 1, Agent: "one"}} {
		if at, err := s.placeOf(seat); !errors.Is(err, spec.ErrConflict) {
			t.Errorf("%+v is at %+v, %v", seat, at, err)
		}
	}
}
