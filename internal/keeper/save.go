package keeper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/keeper/status"
	"github.com/bothy-dev/bothy/internal/layer"
	"github.com/bothy-dev/bothy/spec"
)

// saver writes the root layer to disk: at the end, on request, and in the background soon after
// the sandbox has worked.
type saver struct {
	wall  driver.Wall
	store layer.Store
	log   *slog.Logger
	every time.Duration
	note  func(spec.RootLayer) // writes it into the status
	must  []driver.Mount       // mounts that must answer

	mu       sync.Mutex // held while a save runs; taken before smu
	smu      sync.Mutex // guards all below, which callers read while a save runs
	state    spec.RootLayer
	worked   time.Duration // CPU time of the wall at the last save
	lastCost time.Duration // how long the last save took
}

// newSaver makes a saver for a wall that is up.
func newSaver(wall driver.Wall, layers layer.Store, every time.Duration, must []driver.Mount, st *status.File, log *slog.Logger) *saver {
	s := &saver{
		wall: wall, store: layers, log: log, every: every,
		note:  func(r spec.RootLayer) { st.Update(func(s *spec.Status) { s.Root = r }) },
		state: st.Get().Root,
		must:  must,
	}
	if s.every <= 0 {
		s.every = defaultSaveEvery
	}
	s.state.Bound = spec.Duration(s.longestWait())
	s.worked = s.wall.CPU()
	return s
}

// dutyCycle keeps background saves below this share of the time: the next save waits this many
// times as long as the last one took.
const dutyCycle = 20

func (s *saver) savedLayer() spec.RootLayer {
	s.smu.Lock()
	defer s.smu.Unlock()
	return s.state
}

// saveLayer writes the layer; the next start begins from it.
func (s *saver) saveLayer(ctx context.Context) error {
	return s.saveThen(ctx, s.wall.RoomToSave, s.settled)
}

// saveLast is the last save. It tries even without room: unsaved changes are lost in any case.
func (s *saver) saveLast(ctx context.Context) error {
	return s.saveThen(ctx, func() error { return nil }, func() func() time.Duration { return func() time.Duration { return 0 } })
}

func (s *saver) saveThen(ctx context.Context, room func() error, settled func() func() time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	rest, err := s.writeSave(settled, func(dir string) (time.Duration, error) {
		if err := room(); err != nil {
			return 0, err
		}
		return s.writeRoot(ctx, dir)
	})
	if err == nil {
		rest()
	}
	return err
}

// writeRoot writes the layer, and returns how long that took. The wait before, until restored memory is
// loaded, does not count: the next saves would be delayed by a multiple of it.
func (s *saver) writeRoot(ctx context.Context, dir string) (time.Duration, error) {
	var began time.Time
	err := whileAnswering(ctx, s.must, func(ctx context.Context) error {
		if err := s.wall.Settle(ctx); err != nil {
			return err
		}
		began = time.Now()
		return s.wall.SaveRoot(ctx, dir)
	})
	if began.IsZero() {
		return 0, err
	}
	return time.Since(began), err
}

// awaitSave returns when no save is running.
func (s *saver) awaitSave() {
	s.mu.Lock()
	s.mu.Unlock() //nolint:staticcheck // nothing else to do
}

// otherError is an error of work beside a save of the layer; the layer itself is fine.
type otherError struct{ error }

func (e otherError) Unwrap() error { return e.error }

// savePaused saves the layer while the sandbox is paused by pause. It calls meanwhile during the
// pause, and afterwards once the save is on disk and is the newest.
func (s *saver) savePaused(ctx context.Context, pause func(context.Context) (func(), error), meanwhile, afterwards func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := func() func() time.Duration {
		now := s.wall.CPU()
		return func() time.Duration { return now }
	}
	rest, err := s.writeSave(now, func(dir string) (time.Duration, error) {
		resume, err := pause(ctx)
		if err != nil {
			return 0, otherError{err}
		}
		defer resume()
		if err := s.wall.RoomToSave(); err != nil {
			return 0, err
		}
		took, err := s.writeRoot(ctx, dir)
		if err != nil {
			return took, err
		}
		return took, meanwhile()
	})
	if err != nil {
		return err
	}
	var beside sync.WaitGroup
	beside.Go(rest)
	defer beside.Wait()
	return afterwards()
}

// writeSave writes a save and makes it the newest. fill returns how long it took to write the layer;
// the time to sync it to disk is added. write calls settled when the layer is written. While
// the disk works it calls the returned function for the CPU time from which later work counts.
// The caller runs rest, and holds the lock until rest is done: callers that wait for the save
// need not wait for rest.
func (s *saver) writeSave(settled func() func() time.Duration, fill func(dir string) (time.Duration, error)) (rest func(), err error) {
	var worked, cost time.Duration
	var filled time.Time
	var counted sync.WaitGroup
	bytes, tidy, err := s.store.Add(func(dir string) (err error) {
		cost, err = fill(dir)
		filled = time.Now()
		later := settled() // before the inside does much work
		counted.Go(func() { worked = later() })
		return err
	})
	if !filled.IsZero() {
		cost += time.Since(filled)
	}
	counted.Wait()
	if _, other := errors.AsType[otherError](err); other || errors.Is(err, errLeft) {
		return nil, err // the layer is fine
	}
	s.smu.Lock()
	s.lastCost = cost
	s.worked = worked
	s.state.Bound = spec.Duration(s.longestWait())
	if err != nil {
		s.state.SaveError = err.Error()
	} else {
		now := time.Now().UTC()
		s.state.SavedAt, s.state.Bytes, s.state.SaveError = &now, bytes, ""
	}
	state := s.state
	s.smu.Unlock()
	if err != nil {
		s.note(state)
		return nil, fmt.Errorf("save the root layer: %w", err)
	}
	return func() { s.note(state); tidy() }, nil
}

// longestWait returns the longest time that a change waits for a save while the sandbox works.
func (s *saver) longestWait() time.Duration {
	return max(s.every, dutyCycle*s.lastCost) + s.every
}

// saveInBackground saves in the background until the context ends.
func (s *saver) saveInBackground(ctx context.Context) {
	tick := time.NewTicker(s.every)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s.smu.Lock()
		early := time.Since(last) < dutyCycle*s.lastCost
		idle := s.wall.CPU()-s.worked < driver.IdleCPU
		s.smu.Unlock()
		if early || idle {
			continue
		}
		if err := s.saveLayer(ctx); err != nil && !errors.Is(err, context.Canceled) {
			s.log.Warn("background save", "err", err)
		}
		last = time.Now()
	}
}

// afterSave and afterSaveWork bound the CPU time that the wall itself still uses after a save. It
// does not count as work of the inside.
const (
	afterSave     = 50 * time.Millisecond
	afterSaveWork = 3 * time.Millisecond
)

// settled returns the CPU time from which the inside's next work counts: the time now, or a moment
// later if the save's own work explains the difference.
func (s *saver) settled() func() time.Duration {
	now := s.wall.CPU()
	return func() time.Duration {
		time.Sleep(afterSave)
		if later := s.wall.CPU(); later-now < afterSaveWork {
			return later
		}
		return now
	}
}
