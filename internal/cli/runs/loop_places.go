package runs

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/agentprogram"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/runner"
	"github.com/bothy-dev/bothy/spec"
)

// capable returns the agents of a plan, the sandbox's agent first. It refuses agents that cannot work
// without a terminal, take their models, continue a session if the plan says so, or take the whole
// prompt.
func capable(e *engine.Engine, p *loopplan.Plan) ([]*spec.Agent, error) {
	var list []*spec.Agent
	for _, name := range append([]string{p.Agent}, p.Others()...) {
		of, err := runner.Worker(e.Agents, name)
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

// guests are agents that take turns with the agent of the loop's sandbox.
type guests struct {
	app     *app
	engine  *engine.Engine
	request spec.Request // of the loop's sandbox
	agents  []*spec.Agent
}

// checkReady checks, before anything is made, that each agent has a credential and, if several take turns,
// that each has a program: a rotation must be complete.
func (g *guests) checkReady(ctx context.Context, first *spec.Agent, sb *spec.Sandbox) error {
	p := g.app.Provisioner(g.engine)
	all := append([]*spec.Agent{first}, g.agents...)
	for _, of := range all {
		if err := p.CheckCredential(&g.request, of, sb); err != nil {
			return err
		}
	}
	if len(g.agents) == 0 { // a single agent's program is checked when its sandbox is made
		return nil
	}
	for _, of := range all {
		version := g.request.Version
		if version == "" && of.Install == nil && sb.Image == nil {
			version = agentprogram.HostVersion // it must be on the host
		}
		if _, err := p.Install(ctx, of, sb, version); err != nil {
			return &spec.Error{Op: "find the program of " + of.Title, Err: err, Hint: spec.Hint(err)}
		}
	}
	return nil
}

// guestSeats returns the seats of the guests: one for each, or with several workers one for each and worker.
func (g *guests) guestSeats(workers int) (list []loop.Seat) {
	for n := range max(workers, 1) {
		for _, of := range g.agents {
			s := loop.Seat{Agent: of.Name}
			if workers > 1 {
				s.Worker = n + 1
			}
			list = append(list, s)
		}
	}
	return list
}

// makeSandboxes makes the sandboxes of guests, like the loop's. It calls noted for each before the sandbox
// exists.
func (g *guests) makeSandboxes(ctx context.Context, cmd *cobra.Command, sb *spec.Sandbox, workers int, noted func(loop.Place) error) (list []loop.Place, err error) {
	for i, seat := range g.guestSeats(workers) {
		of := g.agents[i%len(g.agents)]
		req := g.request
		req.Agent, req.Name = of.Name, sb.Name+"-"+of.Name
		if seat.Worker > 0 {
			req.Name = fmt.Sprintf("%s-%d-%s", sb.Name, seat.Worker, of.Name)
		}
		made, err := g.app.MakeSandbox(ctx, cmd, g.engine, req, func(own *spec.Sandbox) error {
			own.Loop = sb.Loop
			own.Checkpoint, own.Ports = "", nil // these belong to the loop's sandbox
			own.Budget = sb.Budget
			if err := context.Cause(ctx); err != nil {
				return err
			}
			list = append(list, loop.Place{Seat: seat, ID: own.ID, Sandbox: own.Name})
			return noted(list[len(list)-1])
		})
		if err == nil {
			list[len(list)-1].Lent, err = lentTo(g.engine, made)
		}
		if err != nil {
			return list, err
		}
	}
	return list, nil
}

// lentTo returns the names of the secrets that a sandbox is lent.
func lentTo(e *engine.Engine, sb *spec.Sandbox) (names []string, err error) {
	list, err := e.Credentials().Leases(sb)
	for _, l := range list {
		names = append(names, l.Secret)
	}
	return names, err
}

// placesOf finds the places of a resumed loop. A missing place will be replaced.
func placesOf(e *engine.Engine, p *loopplan.Plan, list []loop.Place) (*runner.Places, error) {
	agents, err := capable(e, p)
	if err != nil {
		return nil, err
	}
	all := map[loop.Seat]runner.Place{}
	for _, at := range list {
		if _, there := all[at.Seat]; there { // a replacement that was not finished
			continue
		}
		sb, err := e.Find(at.ID)
		if errors.Is(err, spec.ErrNotFound) {
			sb, err = &spec.Sandbox{ID: at.ID, Name: at.Sandbox}, nil
		}
		if err != nil {
			return nil, err
		}
		n := 0
		if at.Agent != "" {
			n = slices.IndexFunc(agents, func(a *spec.Agent) bool { return a.Name == at.Agent })
		}
		if n < 0 {
			return nil, spec.Errorf(spec.ErrConflict, "the sandbox %s belongs to %s, which does not work in this loop", at.Sandbox, at.Agent)
		}
		all[at.Seat] = runner.Place{Sandbox: sb, Agent: agents[n]}
	}
	return runner.NewPlaces(all), nil
}
