package launch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/bothy-dev/bothy/internal/agentprogram"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/runner"
	"github.com/bothy-dev/bothy/internal/snapshot"
	"github.com/bothy-dev/bothy/spec"
)

// Makes and finds the places of a loop besides its own sandbox.

// checkReady checks, before anything is made, that each agent of a loop has a credential and, if several take
// turns, that each has a program: a rotation must be complete.
func (l *Launcher) checkReady(ctx context.Context, pl *LoopPlan, sb *spec.Sandbox) error {
	for _, of := range pl.Agents {
		if err := l.CheckCredential(&pl.Sandbox, of, sb); err != nil {
			return err
		}
	}
	if len(pl.Agents) == 1 { // its program is checked when its sandbox is made
		return nil
	}
	for _, of := range pl.Agents {
		version := pl.Sandbox.Version
		if version == "" && of.Install == nil && sb.Image == nil {
			version = agentprogram.HostVersion // it must be on the host
		}
		if _, err := l.Install(ctx, of, sb, version); err != nil {
			return &spec.Error{Op: "find the program of " + of.Title, Err: err, Hint: spec.Hint(err)}
		}
	}
	return nil
}

// guestSeats returns the seats of the agents that take turns with the first one: one for each, or with several
// workers one for each and worker.
func guestSeats(agents []*spec.Agent, workers int) (list []loop.Seat) {
	for n := range max(workers, 1) {
		for _, of := range agents[1:] {
			s := loop.Seat{Agent: of.Name}
			if workers > 1 {
				s.Worker = n + 1
			}
			list = append(list, s)
		}
	}
	return list
}

// makeGuests makes the sandboxes of the agents that take turns with the first one. They are like the loop's. It
// calls noted for each before the sandbox exists.
func (l *Launcher) makeGuests(ctx context.Context, pl *LoopPlan, sb *spec.Sandbox, noted func(loop.Place) error) (list []loop.Place, err error) {
	for _, seat := range guestSeats(pl.Agents, pl.Plan.Workers) {
		req := pl.Sandbox
		req.Agent, req.Name = seat.Agent, sb.Name+"-"+seat.Agent
		if seat.Worker > 0 {
			req.Name = fmt.Sprintf("%s-%d-%s", sb.Name, seat.Worker, seat.Agent)
		}
		made, err := l.makeSandbox(ctx, run.Loops, req, func(own *spec.Sandbox) error {
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
			list[len(list)-1].Lent, err = l.lentTo(made)
		}
		if err != nil {
			return list, err
		}
	}
	return list, nil
}

// makeWorkers makes a sandbox for each worker, like the loop's. It calls noted for each before the sandbox
// exists.
func (l *Launcher) makeWorkers(ctx context.Context, p *loopplan.Plan, sb *spec.Sandbox, noted func(loop.Place) error) (list []loop.Place, err error) {
	if !p.Parallel() {
		return nil, nil
	}
	s := l.snapshots()
	if err := snapshot.NewExchange(s).ReadyToJoin(ctx, sb); err != nil {
		return nil, err
	}
	from, err := s.Checkpoint(ctx, sb, "", fmt.Sprintf("for %d workers", p.Workers), false)
	for n := 1; err == nil && n <= p.Workers; n++ {
		_, err = s.ForkNoted(ctx, sb, from, sb.Name+"-"+strconv.Itoa(n), true, func(at *spec.Sandbox) error {
			list = append(list, loop.Place{Seat: loop.Seat{Worker: n}, ID: at.ID, Sandbox: at.Name})
			return noted(list[n-1])
		})
	}
	return list, err
}

// lentTo returns the names of the secrets that a sandbox is lent.
func (l *Launcher) lentTo(sb *spec.Sandbox) (names []string, err error) {
	list, err := l.Engine.Credentials().Leases(sb)
	for _, lease := range list {
		names = append(names, lease.Secret)
	}
	return names, err
}

// placesOf finds the places of a resumed loop. A missing place will be replaced.
func placesOf(e *engine.Engine, p *loopplan.Plan, list []loop.Place) (*runner.Places, error) {
	agents, err := capable(e.Agents, p)
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
