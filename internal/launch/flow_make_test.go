package launch

import (
	"errors"
	"testing"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/flow/flowplan"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// TestFreeNames checks that a run gets no ID for which a sandbox's name is taken, here by a removed
// run.
func TestFreeNames(t *testing.T) {
	st, err := store.Open(t.TempDir())
	must(t, err)
	_, err = st.Create(&spec.Sandbox{ID: store.NewID(), Name: "one-2026-11-22-0001-shell"})
	must(t, err)
	l, _ := launcherOf(t, &engine.Engine{Store: st})
	m := &flowMaking{Launcher: l, plan: &FlowPlan{}, id: "one-2026-11-22-0001"}
	if err := m.checkNames([]flowplan.Room{{Name: "mine"}, {Name: "shell"}}); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("its name is taken: %v", err)
	}
	m.id = "one-2026-11-22-0002"
	must(t, m.checkNames([]flowplan.Room{{Name: "shell"}}))
}

// TestNamed checks that an agent which a flow names in two ways has one sandbox.
func TestNamed(t *testing.T) {
	f, err := flowplan.Parse("f.yaml", []byte("name: n\nsteps: [{id: a, agent: claude-code, prompt: p}, {id: b, agent: claude, prompt: p}, {id: c, needs: [b], prompt: p}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	p := &flowplan.Plan{Flow: f, Agent: "claude-code"}
	claude := &spec.Agent{Name: "claude"}
	agents, err := canonicalAgents(p, map[string]*spec.Agent{"claude-code": claude, "claude": claude})
	if err != nil || len(agents) != 1 || agents["claude"] != claude {
		t.Fatalf("the agents are %v, %v", agents, err)
	}
	if rooms := p.Rooms(); len(rooms) != 1 || rooms[0].Agent != "claude" || p.Agent != "claude" {
		t.Errorf("%s works in %+v", p.Agent, rooms)
	}
}
