package launch

import (
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/runner"
	"github.com/bothy-dev/bothy/internal/runstate"
	"github.com/bothy-dev/bothy/internal/task"
	"github.com/bothy-dev/bothy/spec"
)

// LoopRequest asks for a new loop.
type LoopRequest struct {
	// Plan is the loop as it is asked for; see [loopplan.Usual]. Its directory and its sandbox follow from
	// Sandbox. With tasks it needs no prompt.
	Plan loopplan.Plan
	// Model is the only model that works. Rotation says which agents and models take turns: see
	// [loopplan.Rotate]. Both may be empty.
	Model, Rotation string
	// Sandbox asks for the loop's sandbox. Its agent follows from Plan, and its first workspace is the
	// directory to work on.
	Sandbox spec.Request
	Hints   []string     // for the first iteration, besides the prompt
	Boxes   []*task.Task // to add to the tasks of the project; existing ones stay as they are
}

// LoopPlan is a loop after all decisions that need no sandbox.
type LoopPlan struct {
	LoopRequest
	Agents    []*spec.Agent // the sandbox's agent first, and those that take turns with it
	Reviewers []*spec.Agent // sorted by name
	Notes     []string      // for a person
}

// PlanLoop decides what a request for a loop means. It changes nothing.
func (l *Launcher) PlanLoop(req LoopRequest) (*LoopPlan, error) {
	pl := &LoopPlan{LoopRequest: req}
	p := &pl.Plan
	if err := pl.chooseAgents(l.Engine.Agents); err != nil {
		return nil, err
	}
	if p.Tasks != nil && p.Prompt == "" {
		p.Prompt = runstate.TaskPrompt
	}
	if p.Workers < 1 { // 0 stands for one in plans from before workers existed
		return nil, loopplan.TooMany(p.Workers)
	}
	if strings.TrimSpace(p.Prompt) == "" {
		return nil, spec.Errorf(spec.ErrUsage, "the prompt is empty").
			WithHint("give the prompt in words or in a file (-f), or have tasks be done: %s", spec.Option("tasks"))
	}
	if err := p.Check(); err != nil {
		return nil, err
	}
	if p.Agent == "" {
		return nil, spec.Errorf(spec.ErrUsage, "%s is missing", spec.Option("agent")).WithHint("name the agent that works; bothy agent ls lists them")
	}
	var err error
	if pl.Agents, err = capable(l.Engine.Agents, p); err != nil {
		return nil, err
	}
	if pl.Reviewers, err = loopReviewers(l.Engine.Agents, p); err != nil {
		return nil, err
	}
	pl.Sandbox.Agent = pl.Agents[0].Name
	if p.Budget() == (spec.Budget{}) {
		return pl, nil
	}
	w, err := l.MeteringOf(&pl.Sandbox, pl.Agents[0])
	if err == nil {
		pl.Notes, err = checkLoopBudget(p, w, pl.Agents, pl.Reviewers)
	}
	return pl, err
}

// chooseAgents decides which agent works with which models.
func (pl *LoopPlan) chooseAgents(known agent.Catalog) error {
	p := &pl.Plan
	name := func(called string) (string, error) {
		of, err := known.Called(called)
		if err != nil {
			return "", err
		}
		return of.Name, nil
	}
	if err := p.Name(name); err != nil {
		return err
	}
	switch {
	case pl.Rotation == "":
		if pl.Model != "" {
			p.Models = []string{pl.Model}
		}
		return nil
	case pl.Model != "":
		return spec.Errorf(spec.ErrUsage, "%s and %s exclude each other", spec.Option("model"), spec.Option("rotation"))
	}
	turns, err := loopplan.Rotate(pl.Rotation)
	if err != nil {
		return err
	}
	given := p.Agent
	p.Rotate(turns)
	if err := p.Name(name); err != nil {
		return err
	}
	if first := p.Agent; given != "" && given != first {
		return spec.Errorf(spec.ErrUsage, "%s is %s, and the rotation begins with %s", spec.Option("agent"), given, first).
			WithHint("leave %s out: the rotation says who works", spec.Option("agent"))
	}
	return nil
}

// capable returns the agents of a plan, the sandbox's agent first. It refuses agents that cannot work
// without a terminal, take their models, continue a session if the plan says so, or take the whole
// prompt.
func capable(known agent.Catalog, p *loopplan.Plan) ([]*spec.Agent, error) {
	var list []*spec.Agent
	for _, name := range append([]string{p.Agent}, p.Others()...) {
		of, err := runner.Worker(known, name)
		if err != nil {
			return nil, err
		}
		if len(p.Models) > 0 && len(of.Headless.Model) == 0 {
			return nil, spec.Errorf(spec.ErrUsage, "the description of %s does not say how it is given a model", of.Title).
				WithHint("add model below headless, see docs/guide/own-agent.md; bothy agent show %s prints it", of.Name)
		}
		if p.Resume && of.Headless.Session == nil {
			return nil, spec.Errorf(spec.ErrUsage, "the description of %s does not say how a session is gone on with", of.Title).
				WithHint("add session below headless, see docs/guide/own-agent.md; bothy agent show %s prints it", of.Name)
		}
		if err := runner.TakesAll(of, p); err != nil {
			return nil, err
		}
		list = append(list, of)
	}
	return list, nil
}

// loopReviewers finds the agents that review a loop, each once, sorted by name.
func loopReviewers(known agent.Catalog, p *loopplan.Plan) ([]*spec.Agent, error) {
	var found []*spec.Agent
	for _, c := range p.Reviewers() {
		of, err := runner.Worker(known, c.Reviewer.Agent)
		if err == nil && c.Reviewer.Model != "" && len(of.Headless.Model) == 0 {
			err = spec.Errorf(spec.ErrUsage, "the description of %s does not say how it is given a model", of.Title).
				WithHint("add model below headless, see docs/guide/own-agent.md")
		}
		if err != nil {
			return nil, &spec.Error{Op: "gate " + c.ID, Err: err, Hint: spec.Hint(err)}
		}
		if !slices.ContainsFunc(found, func(a *spec.Agent) bool { return a.Name == of.Name }) {
			found = append(found, of)
		}
	}
	slices.SortFunc(found, func(a, b *spec.Agent) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}
