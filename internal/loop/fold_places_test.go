package loop

import (
	"testing"

	"github.com/bothy-dev/bothy/internal/run"
)

// TestPlacing checks that places are recorded before they exist. Otherwise they would never be
// removed if the host died then.
func TestPlacing(t *testing.T) {
	one, two := Place{Seat: Seat{Worker: 1}, ID: "1", Sandbox: "x-1"}, Place{Seat: Seat{Worker: 2}, ID: "2", Sandbox: "x-2"}
	s := fold(t, Placing, Made{"x", []Place{one}}, Placing, Made{"x", []Place{two}})
	if s.Ready || s.Sandbox != "x" || len(s.Places) != 2 || s.Places[1].ID != two.ID {
		t.Errorf("it is ready: %t; in %q, at %v", s.Ready, s.Sandbox, s.Places)
	}
	s = fold(t, Placing, Made{"x", []Place{one}}, run.Ready, Made{"x", []Place{one}})
	if !s.Ready || len(s.Places) != 1 {
		t.Errorf("it is ready: %t, at %v", s.Ready, s.Places)
	}
}
