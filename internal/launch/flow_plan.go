package launch

import (
	"cmp"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/flow/flowplan"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/runner"
	"github.com/bothy-dev/bothy/spec"
)

// FlowRequest asks for a new run of a flow.
type FlowRequest struct {
	// Plan is the flow as it is asked for, with its values and limits. Its files, its directory and its
	// sandboxes follow from the other fields.
	Plan  flowplan.Plan
	Files []InputFile
	// Given are further files, by their names below inputs/.
	Given map[string][]byte
	// Remove says whether the sandboxes are removed when the flow has ended. Nil: the flow says so.
	Remove *bool
	// Sandbox asks for each of the sandboxes: without an agent; its name is the beginning of their names, and
	// its workspaces are those that the flow works on.
	Sandbox spec.Request
	// Fork is SANDBOX or SANDBOX@CHECKPOINT, which the copies start from. Empty: from the workspaces.
	Fork string
	// Into is the parent of the run's directory. Empty: the state directory.
	Into string
}

// InputFile is a file that a flow is given.
type InputFile struct {
	Input string // the name of the input; empty: the only one
	Path  string // as the person named it
	Data  []byte
}

// FlowPlan is a run of a flow after all decisions that need no sandbox.
type FlowPlan struct {
	FlowRequest
	Agents map[string]*spec.Agent // by their own names
	Notes  []string               // for a person

	fork fork
}

// PlanFlow decides what a request for a flow means. It changes nothing.
func (l *Launcher) PlanFlow(req FlowRequest) (*FlowPlan, error) {
	pl := &FlowPlan{FlowRequest: req}
	p := &pl.Plan
	byHand := p.Agent // an agent that the person chose, and not the author of the flow
	if err := pl.decideRemoval(); err != nil {
		return nil, err
	}
	if err := pl.takeFiles(); err != nil {
		return nil, err
	}
	agents, err := flowAgents(l.Engine.Agents, p)
	if err == nil {
		pl.Agents, err = canonicalAgents(p, agents)
	}
	if err == nil {
		err = l.checkFlowBudget(pl)
	}
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(pl.Agents)) {
		if byHand == "" || name != p.Agent {
			pl.Notes = append(pl.Notes, pl.Agents[name].Title+" works in it, with its login and what its preset lets it reach")
		}
	}
	if pl.fork, err = l.findFork(pl); err != nil {
		return nil, err
	}
	if paths := pl.Sandbox.Workspaces; len(paths) > 0 {
		p.Directory = paths[0] // resolved when a sandbox exists
	}
	if err := pl.checkMode(); err != nil {
		return nil, err
	}
	if of := pl.fork.of; of != nil && !hasCopies(p.Rooms()) {
		return nil, spec.Errorf(spec.ErrUsage, "%s %s: no step of this flow works in a copy", spec.Option("fork"), of.Name)
	}
	return pl, nil
}

// decideRemoval decides whether the sandboxes are removed at the end. It refuses to remove sandboxes that hold
// changes for review.
func (pl *FlowPlan) decideRemoval() error {
	var asks any = spec.Option("rm")
	if pl.Plan.Remove = pl.Plan.Flow.Remove; pl.Remove != nil {
		pl.Plan.Remove = *pl.Remove
	} else {
		asks = "rm: true of the flow"
	}
	if mode := pl.workspaceMode(); pl.Plan.Remove && mode != spec.WorkspaceLive && !pl.Plan.Drafts {
		return spec.Errorf(spec.ErrUsage, "%s would throw away what waits in %s %s", asks, spec.Option("workspace"), mode).WithHint("%s=false; use bothy rm when you have taken it", spec.Option("rm"))
	}
	return nil
}

// workspaceMode returns how writes reach the workspaces.
func (pl *FlowPlan) workspaceMode() string {
	return cmp.Or(pl.Sandbox.WorkspaceMode, spec.WorkspaceLive)
}

// takeFiles assigns the given files to the inputs of the flow, and checks the flow with them.
func (pl *FlowPlan) takeFiles() error {
	p, given := &pl.Plan, maps.Clone(pl.Given)
	if given == nil {
		given = map[string][]byte{}
	}
	p.Values, p.Sandboxes = maps.Clone(p.Values), map[string]string{}
	if p.Values == nil {
		p.Values = map[string]string{}
	}
	p.Files = append([]string{}, slices.Collect(maps.Keys(given))...)
	for _, file := range pl.Files {
		as, err := p.Flow.FileInput(file.Input)
		if err != nil {
			return err
		}
		if _, twice := given[as]; twice {
			return spec.Errorf(spec.ErrUsage, "%s: %s is given twice", spec.Option("file"), as)
		}
		given[as] = append([]byte{}, file.Data...) // not nil
		p.Files = append(p.Files, as)
	}
	slices.Sort(p.Files)
	pl.Given = given
	return p.Check(given)
}

// checkFlowBudget refuses limits that would not limit the flow's agents.
func (l *Launcher) checkFlowBudget(pl *FlowPlan) error {
	b := bounds{budget: pl.Plan.Budget()}
	if b.budget == (spec.Budget{}) {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(pl.Agents)) {
		m, err := l.MeteringOf(&pl.Sandbox, pl.Agents[name])
		if err == nil {
			err = b.checkAgent(pl.Agents[name], m)
		}
		if err != nil {
			return err
		}
	}
	pl.Notes = append(pl.Notes, b.notes...)
	return nil
}

// nameSource returns the name to derive the run's ID from: the first file given, as with Looplia, or else
// the flow.
func (pl *FlowPlan) nameSource() string {
	if len(pl.Files) > 0 {
		base := filepath.Base(pl.Files[0].Path)
		if slug := run.Slug(strings.TrimSuffix(base, filepath.Ext(base))); slug != "" {
			return slug
		}
	}
	return pl.Plan.Flow.Name
}

// flowAgents finds the agents that do the steps, without the shell.
func flowAgents(known agent.Catalog, p *flowplan.Plan) (map[string]*spec.Agent, error) {
	agents := map[string]*spec.Agent{}
	for _, n := range p.Nodes() {
		if n.Step.Prompt == "" || p.Never(n) {
			continue
		}
		of, err := runner.Worker(known, p.AgentOf(n))
		if err != nil {
			return nil, err
		}
		if p.ModelOf(n) != "" && len(of.Headless.Model) == 0 {
			return nil, spec.Errorf(spec.ErrUsage, "step %s: it is not known how %s is told a model", n.ID, of.Title).WithHint("add model below headless to its description, see docs/guide/own-agent.md")
		}
		agents[p.AgentOf(n)] = of
	}
	return agents, nil
}

// canonicalAgents returns the agents by their own names, and replaces the names that the flow uses for them.
func canonicalAgents(p *flowplan.Plan, agents map[string]*spec.Agent) (map[string]*spec.Agent, error) {
	list, called := map[string]*spec.Agent{}, map[string]string{}
	for as, of := range agents {
		list[of.Name] = of
		if as != of.Name {
			called[as] = of.Name
		}
	}
	return list, p.Name(called)
}

// checkMode refuses ways to work on PATH that do not fit the flow's sandboxes.
func (pl *FlowPlan) checkMode() error {
	p, mode, rooms := &pl.Plan, pl.workspaceMode(), pl.Plan.Rooms()
	onPath := len(pl.Sandbox.Workspaces) > 0
	var names []string
	copies := false
	for _, r := range rooms {
		names, copies = append(names, r.Name), copies || r.Copy
	}
	switch {
	case copies && !onPath:
		return spec.Errorf(spec.ErrUsage, "the flow works on copies of a directory, and there is none").WithHint("name it behind the file")
	case copies && mode != spec.WorkspaceLive:
		return spec.Errorf(spec.ErrUsage, "%s %s: the flow works on copies, which wait for bothy diff and bothy apply", spec.Option("workspace"), mode).WithHint("leave it out")
	case mode != spec.WorkspaceLive && onPath && p.Fresh():
		return spec.Errorf(spec.ErrUsage, "%s %s: steps with fresh have a new sandbox each time, and would see nothing of what waits in another", spec.Option("workspace"), mode).
			WithHint("give a copy of the project as PATH")
	case p.Parallel > 1 && !p.Beside():
		return spec.Errorf(spec.ErrUsage, "%s %d: nothing of this flow could be done side by side%s", spec.Option("parallel"), p.Parallel, pl.inTheWay()).
			WithHint("leave it out")
	case len(rooms) > 1 && mode != spec.WorkspaceLive && onPath:
		return spec.Errorf(spec.ErrUsage, "%s %s: each of %s has a sandbox of its own, and none would see what the others change", spec.Option("workspace"), mode, strings.Join(names, ", ")).
			WithHint("give a copy of the project as PATH")
	}
	return nil
}

// inTheWay says why steps cannot run in parallel.
func (pl *FlowPlan) inTheWay() string {
	if len(pl.Sandbox.Workspaces) == 0 {
		return ": each step needs the one before it"
	}
	return ": what works on PATH itself is done one step at a time, but for commands with fresh; see docs/guide/flow-runs.md"
}
