package launch

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/runstate"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// planner returns a launcher with the built-in agents, and nothing else.
func planner(t *testing.T) *Launcher {
	t.Helper()
	st, err := store.Open(t.TempDir())
	must(t, err)
	l, _ := launcherOf(t, &engine.Engine{Store: st, Agents: agent.NewCatalog(t.TempDir())})
	return l
}

// TestPlanLoop checks requests for loops, and the plans or refusals that they become.
func TestPlanLoop(t *testing.T) {
	l := planner(t)
	review := loopplan.Criterion{ID: "good", Reviewer: &loopplan.Reviewer{Agent: "claude-code", Prompt: "judge"}}
	for _, c := range []struct {
		name      string
		change    func(*LoopRequest)
		agents    string // of the plan, by comma
		models    string
		reviewers string
		prompt    string
		note      string // in a note
		refused   string // in the error; empty: none
		err       error
	}{
		{name: "an agent", agents: "claude", prompt: "work"},
		{name: "another name of it", change: func(r *LoopRequest) { r.Plan.Agent = "claude-code" }, agents: "claude", prompt: "work"},
		{name: "a model", change: func(r *LoopRequest) { r.Model = "opus" }, agents: "claude", models: "opus", prompt: "work"},
		{name: "turns", change: func(r *LoopRequest) { r.Plan.Agent, r.Rotation = "", "claude:opus,codex:gpt" }, agents: "claude,codex", models: "opus,gpt", prompt: "work"},
		{name: "turns that another begins", change: func(r *LoopRequest) { r.Rotation = "codex:gpt,claude:opus" }, refused: "the rotation begins with codex", err: spec.ErrUsage},
		{name: "a model besides turns", change: func(r *LoopRequest) { r.Model, r.Rotation = "opus", "claude:opus" }, refused: "exclude each other", err: spec.ErrUsage},
		{name: "no agent", change: func(r *LoopRequest) { r.Plan.Agent = "" }, refused: "agent is missing", err: spec.ErrUsage},
		{name: "an unknown agent", change: func(r *LoopRequest) { r.Plan.Agent = "clod" }, refused: "clod", err: spec.ErrNotFound},
		{name: "tasks", change: func(r *LoopRequest) { r.Plan.Prompt, r.Plan.Tasks = "", &loopplan.Tasks{Tries: 5} }, agents: "claude", prompt: runstate.TaskPrompt},
		{name: "no prompt", change: func(r *LoopRequest) { r.Plan.Prompt = " " }, refused: "the prompt is empty", err: spec.ErrUsage},
		{name: "no worker", change: func(r *LoopRequest) { r.Plan.Workers = 0 }, refused: "0", err: spec.ErrUsage},
		{name: "a reviewer, twice", change: func(r *LoopRequest) {
			other := review
			other.ID = "better"
			r.Plan.Gates = []loopplan.Criterion{review, other}
		}, agents: "claude", reviewers: "claude", prompt: "work"},
		{name: "an unknown reviewer", change: func(r *LoopRequest) {
			r.Plan.Gates = []loopplan.Criterion{{ID: "good", Reviewer: &loopplan.Reviewer{Agent: "clod", Prompt: "judge"}}}
		}, refused: "gate good", err: spec.ErrNotFound},
		{name: "a budget", change: func(r *LoopRequest) { r.Plan.Limits.Tokens = 9 }, agents: "claude", prompt: "work"},
		{name: "a budget that counts by the agent", change: func(r *LoopRequest) { r.Plan.Agent, r.Plan.Limits.Tokens = "cursor", 9 }, refused: "cursor", err: spec.ErrUsage},
	} {
		t.Run(c.name, func(t *testing.T) {
			req := LoopRequest{Plan: loopplan.Usual(), Sandbox: spec.Request{Workspaces: []string{"/w"}}}
			req.Plan.Prompt, req.Plan.Agent, req.Plan.Until = "work", "claude", []string{"make test"}
			if c.change != nil {
				c.change(&req)
			}
			pl, err := l.PlanLoop(req)
			if c.refused != "" {
				if !errors.Is(err, c.err) || !strings.Contains(strings.ToLower(err.Error()), c.refused) {
					t.Fatalf("the error is %v", err)
				}
				return
			}
			must(t, err)
			if joinNames(pl.Agents) != c.agents || pl.Sandbox.Agent != pl.Agents[0].Name || pl.Plan.Agent != pl.Agents[0].Name {
				t.Errorf("%s work, first %s in a sandbox of %s", joinNames(pl.Agents), pl.Plan.Agent, pl.Sandbox.Agent)
			}
			if strings.Join(pl.Plan.Models, ",") != c.models || joinNames(pl.Reviewers) != c.reviewers || pl.Plan.Prompt != c.prompt {
				t.Errorf("models %q, reviewers %s, prompt %q", pl.Plan.Models, joinNames(pl.Reviewers), pl.Plan.Prompt)
			}
			if list := strings.Join(pl.Notes, "\n"); !strings.Contains(list, c.note) || c.note == "" && list != "" {
				t.Errorf("the notes are %s", list)
			}
		})
	}
}

// joinNames joins the names of agents.
func joinNames(list []*spec.Agent) string {
	var all []string
	for _, of := range list {
		all = append(all, of.Name)
	}
	return strings.Join(all, ",")
}

// TestGuestSeats checks that each agent but the first has a seat, for each worker if there are several.
func TestGuestSeats(t *testing.T) {
	two := []*spec.Agent{{Name: "a"}, {Name: "b"}}
	for workers, want := range map[int][]int{0: {0}, 1: {0}, 3: {1, 2, 3}} {
		var got []int
		for _, s := range guestSeats(two, workers) {
			if s.Agent != "b" {
				t.Errorf("%d workers: a seat of %s", workers, s.Agent)
			}
			got = append(got, s.Worker)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d workers: seats %v", workers, got)
		}
	}
	if list := guestSeats(two[:1], 3); len(list) > 0 {
		t.Errorf("one agent has the seats %v", list)
	}
}

// TestCheckSandbox checks which sandboxes a loop refuses.
func TestCheckSandbox(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		name    string
		plan    loopplan.Plan
		box     spec.Sandbox
		refused string
	}{
		{name: "live"},
		{name: "a volume that is written", box: spec.Sandbox{Volumes: []spec.Mount{{Source: "/v", Target: "/v"}}}, refused: "-v"},
		{name: "a volume that is read", box: spec.Sandbox{Volumes: []spec.Mount{{Source: "/v", Target: "/v", ReadOnly: true}}}},
		{name: "tasks that the agent closes", plan: loopplan.Plan{Tasks: &loopplan.Tasks{}}, box: spec.Sandbox{Tasks: spec.TasksWrite}, refused: "--share-tasks write"},
		{name: "workers on live files", plan: loopplan.Plan{Workers: 2}, refused: "--parallel 2: all would write"},
		{name: "workers on clones", plan: loopplan.Plan{Workers: 2}, box: spec.Sandbox{WorkspaceMode: spec.WorkspaceClone}, refused: "clones are merged by git"},
		{name: "workers on layers", plan: loopplan.Plan{Workers: 2}, box: spec.Sandbox{WorkspaceMode: spec.WorkspaceReview}},
		{name: "workers with private directories", plan: loopplan.Plan{Workers: 2}, box: spec.Sandbox{WorkspaceMode: spec.WorkspaceReview, Private: []string{"node_modules"}}, refused: "node_modules"},
	} {
		c.box.ID, c.box.Workspaces = "id", []spec.Mount{{Source: dir, Target: dir}}
		pl := &LoopPlan{LoopRequest: LoopRequest{Plan: c.plan}}
		err := pl.checkSandbox(&c.box)
		if c.refused == "" && (err != nil || pl.Plan.Directory != dir || pl.Plan.Sandbox != "id") {
			t.Errorf("%s: %v; it works in %s of %s", c.name, err, pl.Plan.Directory, pl.Plan.Sandbox)
		}
		if c.refused == "" {
			continue
		}
		if !errors.Is(err, spec.ErrUsage) {
			t.Errorf("%s: %v", c.name, err)
		} else if text, _ := spec.Flagged(err); !strings.Contains(text, c.refused) {
			t.Errorf("%s: %s", c.name, text)
		}
	}
}
