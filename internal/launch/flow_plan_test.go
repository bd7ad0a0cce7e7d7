package launch

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/flow/flowplan"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// TestPlanFlow checks requests for flows, and the plans or refusals that they become.
func TestPlanFlow(t *testing.T) {
	l := planner(t)
	for _, mode := range []string{"", spec.WorkspaceReview} {
		_, err := l.Engine.Store.Create(&spec.Sandbox{
			Version: spec.Version, ID: store.NewID(), Name: "box" + mode, Agent: "claude", Template: spec.TemplateHost,
			WorkspaceMode: mode, Workspaces: []spec.Mount{{Source: "/boxed", Target: "/boxed"}},
		})
		must(t, err)
	}
	yes, no := true, false
	const (
		shell  = "steps: [{id: a, command: 'true'}]"
		agents = "steps: [{id: a, agent: claude-code, prompt: p}, {id: b, prompt: p}]"
		copied = "steps: [{id: a, agent: claude, prompt: p, copy: true, matrix: {n: [x, y]}}]"
		input  = "inputs: [{name: text, file: text.md, required: true}]\n" + shell
	)
	for _, c := range []struct {
		name, flow string
		change     func(*FlowRequest)
		agents     string
		notes      string
		remove     bool
		dir        string
		about      string // the name that the run's ID begins with
		refused    string
	}{
		{name: "a command", flow: shell, about: "n"},
		{name: "agents", flow: agents, change: func(r *FlowRequest) { r.Plan.Agent = "codex" }, agents: "claude,codex", about: "n", notes: "Claude Code works in it"},
		{name: "no agent", flow: agents, refused: "b"},
		{name: "it removes", flow: "rm: true\n" + shell, remove: true, about: "n"},
		{name: "it would, and need not", flow: "rm: true\n" + shell, change: func(r *FlowRequest) { r.Remove = &no }, about: "n"},
		{name: "it need not, and shall", flow: shell, change: func(r *FlowRequest) { r.Remove = &yes }, remove: true, about: "n"},
		{name: "it would remove changes", flow: "rm: true\n" + shell, change: func(r *FlowRequest) { r.Sandbox.WorkspaceMode = spec.WorkspaceReview }, refused: "rm: true of the flow would throw away"},
		{name: "it shall remove changes", flow: shell, change: func(r *FlowRequest) {
			r.Remove, r.Sandbox.WorkspaceMode = &yes, spec.WorkspaceReview
		}, refused: "--rm would throw away"},
		{name: "a file", flow: input, change: func(r *FlowRequest) { r.Files = []InputFile{{Path: "/x/My Text.md"}} }, about: "my-text"},
		{name: "a file, twice", flow: input, change: func(r *FlowRequest) { r.Files = []InputFile{{Path: "a"}, {Input: "text", Path: "b"}} }, refused: "given twice"},
		{name: "no file", flow: input, refused: "text"},
		{name: "a directory", flow: shell, change: func(r *FlowRequest) { r.Sandbox.Workspaces = []string{"/w"} }, dir: "/w", about: "n"},
		{name: "copies of nothing", flow: copied, refused: "there is none"},
		{name: "copies", flow: copied, change: func(r *FlowRequest) { r.Sandbox.Workspaces = []string{"/w"} }, agents: "claude", dir: "/w", about: "n", notes: "Claude Code works in it"},
		{name: "copies of a copy", flow: copied, change: func(r *FlowRequest) {
			r.Sandbox.Workspaces, r.Sandbox.WorkspaceMode = []string{"/w"}, spec.WorkspaceReview
		}, refused: "--workspace review"},
		{name: "parallel for one step", flow: shell, change: func(r *FlowRequest) { r.Plan.Parallel = 3 }, refused: "--parallel 3"},
		{name: "a fork", flow: copied, change: func(r *FlowRequest) { r.Fork = "boxreview@2" }, agents: "claude", dir: "/boxed", about: "n", notes: "Claude Code works in it"},
		{name: "a fork of live files", flow: copied, change: func(r *FlowRequest) { r.Fork = "box" }, refused: "--workspace live"},
		{name: "a fork of none", flow: copied, change: func(r *FlowRequest) { r.Fork = "@2" }, refused: "--fork takes"},
		{name: "a fork for no copy", flow: shell, change: func(r *FlowRequest) { r.Fork = "boxreview" }, refused: "no step of this flow works in a copy"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := flowplan.Parse("n.yaml", []byte("name: n\n"+c.flow+"\n"))
			must(t, err)
			req := FlowRequest{Plan: flowplan.Plan{Flow: f}}
			if c.change != nil {
				c.change(&req)
			}
			pl, err := l.PlanFlow(req)
			if c.refused != "" {
				if err == nil {
					t.Fatal("it is not refused")
				}
				if text, _ := spec.Flagged(err); !strings.Contains(text, c.refused) {
					t.Fatalf("the error is %s", text)
				}
				return
			}
			must(t, err)
			if got := strings.Join(slices.Sorted(maps.Keys(pl.Agents)), ","); got != c.agents {
				t.Errorf("%s work", got)
			}
			if p := &pl.Plan; p.Remove != c.remove || p.Directory != c.dir || pl.nameSource() != c.about {
				t.Errorf("remove %t, in %s, about %s", p.Remove, p.Directory, pl.nameSource())
			}
			if got := strings.Join(pl.Notes, "\n"); !strings.Contains(got, c.notes) || strings.Contains(got, "Codex") || c.notes == "" && got != "" {
				t.Errorf("the notes are %s", got)
			}
		})
	}
}

// TestRequestFor checks the requests for the sandboxes of a flow.
func TestRequestFor(t *testing.T) {
	l := planner(t)
	yes := true
	m := &flowMaking{Launcher: l, id: "n-2026-11-22-0001", plan: &FlowPlan{}}
	m.plan.Sandbox = spec.Request{Version: "1", Config: &yes, Workspaces: []string{"/w"}}
	for _, c := range []struct {
		room   flowplan.Room
		copies bool
		want   spec.Request
	}{
		{flowplan.Room{Name: "claude", Agent: "claude"}, false, spec.Request{Agent: "claude", Name: "n-2026-11-22-0001-claude", Version: "1", Config: &yes, Workspaces: []string{"/w"}}},
		{flowplan.Room{Name: flowplan.Shell, Agent: flowplan.Shell}, false, spec.Request{Agent: flowplan.Shell, Name: "n-2026-11-22-0001-" + flowplan.Shell, Workspaces: []string{"/w"}}},
		{flowplan.Room{Name: "a", Agent: "claude", Copy: true}, true, spec.Request{Agent: "claude", Name: "n-2026-11-22-0001-a", Version: "1", Config: &yes, WorkspaceMode: spec.WorkspaceReview, Workspaces: []string{"/w"}}},
		{flowplan.Room{Name: "claude", Agent: "claude"}, true, spec.Request{Agent: "claude", Name: "n-2026-11-22-0001-claude", Version: "1", Config: &yes}},
	} {
		got := m.requestFor(c.room, c.copies)
		if got.Agent != c.want.Agent || got.Name != c.want.Name || got.Version != c.want.Version || got.Config != c.want.Config || got.WorkspaceMode != c.want.WorkspaceMode || !slices.Equal(got.Workspaces, c.want.Workspaces) {
			t.Errorf("%+v: %+v", c.room, got)
		}
	}
}

// TestDraftFlow checks that a file is refused that would be written over, before anything is made.
func TestDraftFlow(t *testing.T) {
	l := planner(t)
	if _, err := l.DraftFlow(t.Context(), "translate", t.TempDir(), FlowRequest{}); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("the error is %v", err)
	}
}
