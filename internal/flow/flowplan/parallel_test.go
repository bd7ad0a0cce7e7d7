package flowplan

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

// TestParallelChecked checks that flows are refused in which no two steps could run side by side.
func TestParallelChecked(t *testing.T) {
	for text, want := range map[string]string{
		"name: n\nparallel: 2\nsteps: [{id: a, command: c}, {id: b, needs: [a], command: c}]\n": "no two steps could be done side by side",
		"name: n\nparallel: 17\nsteps: [{id: a, command: c}]\n":                                 "parallel: 17 is not from 1 to 16",
		"name: n\nparallel: -1\nsteps: [{id: a, command: c}]\n":                                 "parallel: -1 is not from 1 to 16",
	} {
		if _, err := Parse("f.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	p := &Plan{Flow: parse(t, "name: n\nparallel: 3\nsteps: [{id: a, command: c}, {id: b, command: c}]\n")}
	if p.Most() != 3 || !p.Beside() {
		t.Errorf("%d may be side by side", p.Most())
	}
	p.Parallel = 1
	if p.Beside() {
		t.Error("the command line does not say otherwise")
	}
	p.Parallel = 17
	if err := p.checkParallel(); !errors.Is(err, spec.ErrUsage) {
		t.Error(err)
	}
	p = &Plan{Parallel: 2, Agent: "try", Flow: parse(t, "name: n\nsteps: [{id: try, matrix: {n: [1, 2]}, copy: true, prompt: p}, {id: b, prompt: p}, {id: c, prompt: p}]\n")}
	if err := p.checkParallel(); err == nil || !strings.Contains(err.Error(), "called like an agent") {
		t.Error(err)
	}
	// An agent may have the name of a step, if its real name differs.
	p = &Plan{Parallel: 2, Agent: "try", Flow: p.Flow}
	must(t, p.Check(nil))
	must(t, p.Name(map[string]string{"try": "claude"}))
	for room, agent := range map[string]string{"claude.2": "claude", "try.1": "claude"} {
		if !slices.Contains(p.Rooms(), Room{Name: room, Agent: agent, Copy: room == "try.1"}) {
			t.Errorf("there is no %s among the sandboxes %v", room, p.Rooms())
		}
	}
	p = &Plan{Parallel: 2, Agent: "try", Flow: p.Flow}
	must(t, p.Check(nil))
	if err := p.Name(nil); !errors.Is(err, spec.ErrUsage) {
		t.Errorf("an agent whose name is that of a step: %v", err)
	}
	// One sandbox of the agent is named try, and those of the copies try.1 and try.2.
	for _, agent := range []string{"try", Shell} {
		p := &Plan{Agent: agent, Flow: parse(t, strings.ReplaceAll("name: n\nsteps: [{id: AGENT, matrix: {n: [1, 2]}, copy: true, prompt: p}, {id: b, prompt: p}, {id: c, command: p}]\n", "AGENT", agent))}
		if err := p.checkParallel(); err != nil {
			t.Errorf("one at a time: %v", err)
		}
		of := map[string]string{}
		for _, n := range p.Nodes() {
			room := p.RoomOf(n)
			if who := p.AgentOf(n); of[room] != "" && (of[room] != who || n.Step.Copy) {
				t.Errorf("%s is done in the sandbox %s, which is another's", n.ID, room)
			}
			of[room] = p.AgentOf(n)
		}
		if rooms := p.Rooms(); len(rooms) != len(of) {
			t.Errorf("%v, and steps are done in %v", rooms, of)
		}
	}
}
