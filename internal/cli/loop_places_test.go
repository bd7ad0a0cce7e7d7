package cli

import (
	"errors"
	"testing"

	"github.com/bothy-dev/bothy/internal/flow"
	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/spec"
)

// Nobody works in the sandbox of another because his own is not known.
func TestPlaceOfNobody(t *testing.T) {
	own, other := &spec.Sandbox{ID: "1"}, &spec.Sandbox{ID: "2"}
	s := &loopShop{
		sandbox: own, agent: &spec.Agent{Name: "one"}, plan: &loop.Plan{Agent: "one"},
		places: &places{list: map[loop.Seat]place{{Agent: "two"}: {sandbox: other}}},
	}
	for seat, want := range map[loop.Seat]*spec.Sandbox{{}: own, {Agent: "one"}: own, {Agent: "two"}: other} {
		if at, err := s.at(seat); err != nil || at.sandbox != want {
			t.Errorf("%+v is at %+v, %v", seat, at, err)
		}
	}
	for _, seat := range []loop.Seat{{Agent: "three"}, {Worker: 1}, {Worker: 1, Agent: "one"}} {
		if at, err := s.at(seat); !errors.Is(err, spec.ErrConflict) {
			t.Errorf("%+v is at %+v, %v", seat, at, err)
		}
	}
}

// An agent that a flow calls by two names has one sandbox.
func TestNamed(t *testing.T) {
	f, err := flow.Parse("f.yaml", []byte("name: n\nsteps: [{id: a, agent: claude-code, prompt: p}, {id: b, agent: claude, prompt: p}, {id: c, needs: [b], prompt: p}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	p := &flow.Plan{Flow: f, Agent: "claude-code"}
	claude := &spec.Agent{Name: "claude"}
	agents, err := named(p, map[string]*spec.Agent{"claude-code": claude, "claude": claude})
	if err != nil || len(agents) != 1 || agents["claude"] != claude {
		t.Fatalf("the agents are %v, %v", agents, err)
	}
	if rooms := p.Rooms(); len(rooms) != 1 || rooms[0].Agent != "claude" || p.Agent != "claude" {
		t.Errorf("%s works in %+v", p.Agent, rooms)
	}
}
