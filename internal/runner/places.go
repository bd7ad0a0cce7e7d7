package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/bothy-dev/bothy/internal/checkpoint"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/otheragent"
	"github.com/bothy-dev/bothy/internal/snapshot"
	"github.com/bothy-dev/bothy/spec"
)

// Place is a sandbox in which an agent works for a loop, and its agent.
type Place struct {
	Sandbox *spec.Sandbox
	Agent   *spec.Agent
}

// Places are the places other than the loop's sandbox. One may be replaced while agents work in others.
type Places struct {
	mu   sync.Mutex
	list map[loop.Seat]Place
}

// NewPlaces returns the places of these seats.
func NewPlaces(list map[loop.Seat]Place) *Places { return &Places{list: list} }

func (l *Places) findPlace(seat loop.Seat) (p Place, ok bool) {
	if l == nil {
		return p, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	p, ok = l.list[seat]
	return p, ok
}

func (l *Places) setPlace(seat loop.Seat, p Place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list[seat] = p
}

// hasAny reports whether agents work elsewhere.
func (l *Places) hasAny() bool { return l != nil && len(l.list) > 0 }

// placeOf returns where a seat works: in a place of its own, or in the loop's sandbox if the seat
// belongs to the loop's own agent.
func (s *Loop) placeOf(seat loop.Seat) (Place, error) {
	if p, ok := s.places.findPlace(seat); ok {
		return p, nil
	}
	if seat.Worker == 0 && (seat.Agent == "" || seat.Agent == s.plan.Agent) {
		return Place{s.Sandbox, s.agent}, nil
	}
	return Place{}, spec.Errorf(spec.ErrConflict, "%s has no place in this loop", cmp.Or(seat.Agent, fmt.Sprint("worker ", seat.Worker)))
}

// ownsFiles reports whether a place has its own copy of the files. If the sandboxes write to the same
// directories of the host, no copy is handed over.
func (s *Loop) ownsFiles(p Place) bool {
	return p.Sandbox.ID != s.Sandbox.ID && (s.Sandbox.Mode() != spec.WorkspaceLive || len(s.Sandbox.Private) > 0)
}

// Begin copies the files of the loop's sandbox into a place.
func (s *Loop) Begin(ctx context.Context, seat loop.Seat) (int64, error) {
	at, err := s.placeOf(seat)
	if err != nil || !s.ownsFiles(at) {
		return 0, err
	}
	p, err := s.snapshots.Checkpoint(ctx, s.Sandbox, "", "for "+at.Sandbox.Name, false)
	if err == nil {
		err = s.exchange().HandOut(ctx, s.Sandbox, p, at.Sandbox)
	}
	return p.Number, err
}

// makeCheckpoint makes a checkpoint of a seat's files. If agents take turns, it also copies the files
// into the loop's sandbox. With several workers, the results must be merged first.
func (s *Loop) makeCheckpoint(ctx context.Context, seat loop.Seat, cause string) (checkpoint.Point, error) {
	at, err := s.placeOf(seat)
	if err != nil {
		return checkpoint.Point{}, err
	}
	if !s.ownsFiles(at) {
		return s.snapshots.Checkpoint(ctx, s.Sandbox, "", cause, false)
	}
	p, err := s.exchange().HandIn(ctx, s.Sandbox, at.Sandbox, cause)
	if err == nil && seat.Worker == 0 {
		err = s.settleFiles(ctx, p)
	}
	return p, err
}

// settleFiles copies a checkpoint into the loop's sandbox. The old files are kept.
func (s *Loop) settleFiles(ctx context.Context, p checkpoint.Point) error {
	_, err := s.snapshots.Restore(ctx, s.Sandbox, p, snapshot.RestoreOptions{NoWorkspace: true, Files: true})
	return err
}

// Gone reports whether a seat's own sandbox was removed.
func (s *Loop) Gone(seat loop.Seat) bool {
	at, err := s.placeOf(seat)
	if err != nil || at.Sandbox.ID == s.Sandbox.ID {
		return false
	}
	_, err = s.engine.Find(at.Sandbox.ID)
	return errors.Is(err, spec.ErrNotFound)
}

// Remake makes a new sandbox for an agent.
func (s *Loop) Remake(ctx context.Context, seat loop.Seat, before []loop.Place, noted func(loop.Place) error) (p loop.Place, err error) {
	old, err := s.placeOf(seat)
	if err != nil {
		return p, err
	}
	mine := ofSeat(before, seat)
	if err := Unmake(s.engine, mine); err != nil {
		return p, err
	}
	program, err := s.host.InstallAgent(ctx, old.Agent, s.Sandbox)
	if err != nil {
		return p, err
	}
	g := otheragent.Guest{Agent: old.Agent, Program: program, Name: old.Sandbox.Name}
	if len(mine) > 0 {
		g.Lent = mine[0].Lent
	}
	sb, err := otheragent.Invite(ctx, s.engine, s.Sandbox, g, func(at *spec.Sandbox) error {
		p = loop.Place{Seat: seat, ID: at.ID, Sandbox: at.Name, Lent: g.Lent}
		return noted(p)
	})
	if err == nil {
		s.places.setPlace(seat, Place{sb, old.Agent})
	}
	return p, err
}

// ofSeat returns the places of one seat.
func ofSeat(list []loop.Place, seat loop.Seat) []loop.Place {
	return slices.DeleteFunc(slices.Clone(list), func(o loop.Place) bool { return o.Seat != seat })
}

// allowBudget limits the model usage of a place: to the rest of the budget, if other places share
// it.
func (s *Loop) allowBudget(ctx context.Context, at Place, used spec.Bill, job loop.Job) error {
	if !s.places.hasAny() {
		return s.lowerBudget(ctx, at.Sandbox, job.Budget)
	}
	rest, total := job.Rest, used.Total()
	if rest.Tokens > 0 {
		rest.Tokens += total.Counted()
	}
	if rest.USD > 0 {
		rest.USD += total.USD
	}
	return s.lowerBudget(ctx, at.Sandbox, rest)
}

// Unmake removes unused places.
func Unmake(e *engine.Engine, list []loop.Place) error {
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
