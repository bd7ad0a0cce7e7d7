package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/bothy-dev/bothy/internal/checkpoint"
	"github.com/bothy-dev/bothy/internal/cli/command"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/spec"
)

// place is a sandbox in which somebody works for a loop, and who.
type place struct {
	sandbox *spec.Sandbox
	agent   *spec.Agent
}

// places are those of who works elsewhere than in the loop's sandbox. One may be made anew
// while others are worked in.
type places struct {
	mu   sync.Mutex
	list map[loop.Seat]place
}

func (l *places) at(seat loop.Seat) (p place, ok bool) {
	if l == nil {
		return p, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	p, ok = l.list[seat]
	return p, ok
}

func (l *places) put(seat loop.Seat, p place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list[seat] = p
}

// any tells whether somebody works elsewhere.
func (l *places) any() bool { return l != nil && len(l.list) > 0 }

// at is where a seat's work is done: in a place of its own, or in the loop's sandbox, if it
// is that of the loop's own agent.
func (s *loopShop) at(seat loop.Seat) (place, error) {
	if p, ok := s.places.at(seat); ok {
		return p, nil
	}
	if seat.Worker == 0 && (seat.Agent == "" || seat.Agent == s.plan.Agent) {
		return place{s.sandbox, s.agent}, nil
	}
	return place{}, spec.Errorf(spec.ErrConflict, "%s has no place in this loop", cmp.Or(seat.Agent, fmt.Sprint("worker ", seat.Worker)))
}

// own tells whether a place has a copy of the files of its own. If the sandboxes write to
// the same directories of the host there is nothing to hand over.
func (s *loopShop) own(p place) bool {
	return p.sandbox.ID != s.sandbox.ID && (s.sandbox.Mode() != spec.WorkspaceLive || len(s.sandbox.Private) > 0)
}

// Begin hands what the loop's sandbox holds to a place.
func (s *loopShop) Begin(ctx context.Context, seat loop.Seat) (int64, error) {
	at, err := s.at(seat)
	if err != nil || !s.own(at) {
		return 0, err
	}
	p, err := s.engine.Checkpoint(ctx, s.sandbox, "", "for "+at.sandbox.Name, false)
	if err == nil {
		err = s.engine.HandOut(ctx, s.sandbox, p, at.sandbox)
	}
	return p.Number, err
}

// point makes a checkpoint of what a seat has done. What an agent did whose turn it was
// comes into the loop's sandbox with it; what one of several workers did has to be
// brought together with what the others do.
func (s *loopShop) point(ctx context.Context, seat loop.Seat, cause string) (checkpoint.Point, error) {
	at, err := s.at(seat)
	if err != nil {
		return checkpoint.Point{}, err
	}
	if !s.own(at) {
		return s.engine.Checkpoint(ctx, s.sandbox, "", cause, false)
	}
	p, err := s.engine.HandIn(ctx, s.sandbox, at.sandbox, cause)
	if err == nil && seat.Worker == 0 {
		err = s.settle(ctx, p)
	}
	return p, err
}

// settle has the loop's sandbox hold what a checkpoint holds. What there was is kept.
func (s *loopShop) settle(ctx context.Context, p checkpoint.Point) error {
	_, err := s.engine.Restore(ctx, s.sandbox, p, engine.RestoreOptions{NoWorkspace: true, Files: true})
	return err
}

// Gone tells whether the sandbox of a seat was removed that has one of its own.
func (s *loopShop) Gone(seat loop.Seat) bool {
	at, err := s.at(seat)
	if err != nil || at.sandbox.ID == s.sandbox.ID {
		return false
	}
	_, err = s.engine.Find(at.sandbox.ID)
	return errors.Is(err, spec.ErrNotFound)
}

// Remake makes an agent's sandbox anew.
func (s *loopShop) Remake(ctx context.Context, seat loop.Seat, before []loop.Place, noted func(loop.Place) error) (p loop.Place, err error) {
	old, err := s.at(seat)
	if err != nil {
		return p, err
	}
	mine := ofSeat(before, seat)
	if err := unmake(s.engine, mine); err != nil {
		return p, err
	}
	program, err := s.app.house(ctx, s.engine, &lodger{name: old.agent.Name, spec: old.agent}, s.sandbox, "")
	if err != nil {
		return p, err
	}
	g := engine.Guest{Agent: old.agent, Program: program, Name: old.sandbox.Name}
	if len(mine) > 0 {
		g.Lent = mine[0].Lent
	}
	sb, err := s.engine.Invite(ctx, s.sandbox, g, func(at *spec.Sandbox) error {
		p = loop.Place{Seat: seat, ID: at.ID, Sandbox: at.Name, Lent: g.Lent}
		return noted(p)
	})
	if err == nil {
		s.places.put(seat, place{sb, old.agent})
	}
	return p, err
}

// ofSeat are the places of one seat.
func ofSeat(list []loop.Place, seat loop.Seat) []loop.Place {
	return slices.DeleteFunc(slices.Clone(list), func(o loop.Place) bool { return o.Seat != seat })
}

// allow bounds what models may take for a place: to what is left, if others take of it.
func (s *loopShop) allow(ctx context.Context, at place, used spec.Bill, job loop.Job) error {
	if !s.places.any() {
		return s.lower(ctx, at.sandbox, job.Budget)
	}
	rest, total := job.Rest, used.Total()
	if rest.Tokens > 0 {
		rest.Tokens += total.Counted()
	}
	if rest.USD > 0 {
		rest.USD += total.USD
	}
	return s.lower(ctx, at.sandbox, rest)
}

// capable are the agents of a plan, if all can be had work without anybody, be given
// their models, and told what there is to tell. The first is the sandbox's.
func capable(e *engine.Engine, p *loop.Plan) ([]*spec.Agent, error) {
	var list []*spec.Agent
	for _, name := range append([]string{p.Agent}, p.Others()...) {
		of, err := loopAgent(e, name)
		if err != nil {
			return nil, err
		}
		if len(p.Models) > 0 && len(of.Headless.Model) == 0 {
			return nil, spec.Errorf(spec.ErrUsage, "the description of %s does not say how it is given a model", of.Title).
				WithHint("model is what is missing there below headless, see docs/agents.md; bothy agent show %s prints it", of.Name)
		}
		if p.Resume && of.Headless.Session == nil {
			return nil, spec.Errorf(spec.ErrUsage, "the description of %s does not say how a session is gone on with", of.Title).
				WithHint("session is what is missing there below headless, see docs/agents.md; bothy agent show %s prints it", of.Name)
		}
		if err := takesAll(of, p); err != nil {
			return nil, err
		}
		list = append(list, of)
	}
	return list, nil
}

// guests are agents that take turns with the one whose the loop's sandbox is.
type guests struct {
	app    *app
	engine *engine.Engine
	flags  createFlags
	agents []*spec.Agent
}

// ready sees, before anything is made, that every guest will have its program and
// something to log in with: half of a rotation would be no rotation.
func (g *guests) ready(ctx context.Context, first *spec.Agent, sb *spec.Sandbox) error {
	if len(g.agents) == 0 {
		return nil
	}
	for _, of := range append([]*spec.Agent{first}, g.agents...) {
		if err := g.credited(of); err != nil {
			return err
		}
		l := &lodger{name: of.Name, spec: of}
		version, err := g.flags.wantsVersion(l)
		if err == nil && version == "" && of.Install == nil && sb.Image == nil {
			version = engine.HostVersion // it has to be there
		}
		if err == nil {
			_, err = g.app.house(ctx, g.engine, l, sb, version)
		}
		if err != nil {
			return &spec.Error{Op: "find the program of " + of.Title, Err: err, Hint: spec.Hint(err)}
		}
	}
	return nil
}

// credited refuses an agent that could not log in.
func (g *guests) credited(of *spec.Agent) error {
	if g.flags.mock != "" || len(g.flags.secrets) > 0 || len(of.Credentials) == 0 && of.Login == nil {
		return nil
	}
	c, err := g.engine.FindCredential(of)
	if err == nil && c.Secret == "" {
		err = spec.Errorf(spec.ErrNotFound, "%s has no credential, and it is to take turns", of.Title).
			WithHint("give it one: %s", strings.Join(waysToLogIn(of), ", or "))
	}
	return err
}

// seats are those of the guests: one for each, or one with each of several workers.
func (g *guests) seats(workers int) (list []loop.Seat) {
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

// make makes the sandboxes of guests, like the loop's. Each is noted before it is there.
func (g *guests) make(ctx context.Context, cmd *command.Command, sb *spec.Sandbox, paths []string, workers int, noted func(loop.Place) error) (list []loop.Place, err error) {
	for i, seat := range g.seats(workers) {
		of := g.agents[i%len(g.agents)]
		f := g.flags // each has its own
		f.name = sb.Name + "-" + of.Name
		if seat.Worker > 0 {
			f.name = fmt.Sprintf("%s-%d-%s", sb.Name, seat.Worker, of.Name)
		}
		made, err := g.app.makeSandbox(cmd, g.engine, &f, &lodger{name: of.Name, spec: of}, paths, func(own *spec.Sandbox) error {
			own.Checkpoint, own.Ports = "", nil // those are of the loop's sandbox
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

// lentTo are the names of what a sandbox is lent.
func lentTo(e *engine.Engine, sb *spec.Sandbox) (names []string, err error) {
	list, err := e.Leases(sb)
	for _, l := range list {
		names = append(names, l.Secret)
	}
	return names, err
}

// unmake removes what nobody will use.
func unmake(e *engine.Engine, list []loop.Place) error {
	var errs []error
	for _, at := range list {
		sb, err := e.Find(at.ID)
		if err == nil {
			err = e.Remove(context.Background(), sb, true)
		}
		if err != nil && !errors.Is(err, spec.ErrNotFound) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// placesOf finds the places of a loop that is gone on with. One may be gone: it is made anew.
func placesOf(e *engine.Engine, p *loop.Plan, list []loop.Place) (*places, error) {
	agents, err := capable(e, p)
	if err != nil {
		return nil, err
	}
	all := map[loop.Seat]place{}
	for _, at := range list {
		if _, there := all[at.Seat]; there { // one that was made anew, and not finished
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
			return nil, spec.Errorf(spec.ErrConflict, "the sandbox %s is that of %s, who does not work in this loop", at.Sandbox, at.Agent)
		}
		all[at.Seat] = place{sb, agents[n]}
	}
	return &places{list: all}, nil
}
