package runner

import (
	"context"
	"sync"

	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/records"
	"github.com/bothy-dev/bothy/spec"
)

// Team is a runner for several workers.
type Team struct {
	*Loop
	mu     sync.Mutex
	before map[loop.Seat]spec.Bill // before their current work
}

var _ loop.TeamRunner = (*Team)(nil)

// NewTeam returns the runner of a loop with several workers.
func NewTeam(l *Loop) *Team { return &Team{Loop: l, before: map[loop.Seat]spec.Bill{}} }

// Work notes the bill, and then does the work.
func (b *Team) Work(ctx context.Context, job loop.Job) (loop.Work, error) {
	at, err := b.placeOf(job.Seat)
	if err != nil {
		return loop.Work{}, err
	}
	bill, err := records.Bill(ctx, b.engine.Keepers(), at.Sandbox)
	if err != nil {
		return loop.Work{}, err
	}
	b.mu.Lock()
	b.before[job.Seat] = bill
	b.mu.Unlock()
	return b.Loop.Work(ctx, job)
}

// Spent returns the gateway's count since the start of a seat's current work.
func (b *Team) Spent(ctx context.Context, seat loop.Seat) (int64, float64, error) {
	at, err := b.placeOf(seat)
	if err != nil {
		return 0, 0, err
	}
	b.mu.Lock()
	before := b.before[seat]
	b.mu.Unlock()
	now, err := records.Bill(ctx, b.engine.Keepers(), at.Sandbox)
	since := now.Since(before)
	return since.Counted(), since.USD, err
}

// Join merges a worker's changes with the files of the loop's sandbox.
func (b *Team) Join(ctx context.Context, base, theirs int64, cause string) (loop.Join, error) {
	from, err := b.checkpoint(base)
	if err != nil {
		return loop.Join{}, err
	}
	to, err := b.checkpoint(theirs)
	if err != nil {
		return loop.Join{}, err
	}
	j, err := b.exchange().Join(ctx, b.Sandbox, from, to, cause)
	return loop.Join{Checkpoint: j.Point.Number, Ours: j.Ours.Number, Alone: j.Alone, Conflicts: j.Conflicts, Texts: j.Texts}, err
}

// Hand puts a checkpoint into a worker's sandbox.
func (b *Team) Hand(ctx context.Context, seat loop.Seat, number int64) error {
	p, err := b.checkpoint(number)
	if err != nil {
		return err
	}
	at, err := b.placeOf(seat)
	if err != nil {
		return err
	}
	return b.exchange().HandOut(ctx, b.Sandbox, p, at.Sandbox)
}

// Settle puts a checkpoint into the loop's sandbox.
func (b *Team) Settle(ctx context.Context, ours, number int64) error {
	before, err := b.checkpoint(ours)
	if err != nil {
		return err
	}
	p, err := b.checkpoint(number)
	if err != nil {
		return err
	}
	moved, err := b.exchange().Settle(ctx, b.Sandbox, before, p)
	if err == nil && moved {
		err = loop.ErrMoved
	}
	return err
}

// Remake makes a new sandbox for a worker.
func (b *Team) Remake(ctx context.Context, seat loop.Seat, before []loop.Place, noted func(loop.Place) error) (p loop.Place, err error) {
	if seat.Agent != "" {
		return b.Loop.Remake(ctx, seat, before, noted)
	}
	if err := Unmake(b.engine, ofSeat(before, seat)); err != nil {
		return p, err
	}
	old, err := b.placeOf(seat)
	if err != nil {
		return p, err
	}
	from, err := b.snapshots.Checkpoint(ctx, b.Sandbox, "", "for "+old.Sandbox.Name+", which is made anew", false)
	if err != nil {
		return p, err
	}
	sb, err := b.snapshots.ForkNoted(ctx, b.Sandbox, from, old.Sandbox.Name, true, func(at *spec.Sandbox) error {
		p = loop.Place{Seat: seat, ID: at.ID, Sandbox: at.Name}
		return noted(p)
	})
	if err == nil {
		b.places.setPlace(seat, Place{sb, old.Agent})
	}
	return p, err
}
