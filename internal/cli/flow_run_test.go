package cli

import (
	"testing"

	"github.com/bothy-dev/bothy/internal/flow"
	"github.com/bothy-dev/bothy/spec"
)

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
