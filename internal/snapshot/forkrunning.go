package snapshot

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/bothy-dev/bothy/internal/checkpoint"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// forkRunning makes forks of a running sandbox. The programs of each resume from the same moment.
func (s *Snapshots) forkRunning(ctx context.Context, from *spec.Sandbox, names []string) (made []*spec.Sandbox, err error) {
	defer func() {
		if err != nil {
			err = s.engine.Keepers().OpError("fork "+from.Name, from, err)
		}
	}()
	if err := s.checkMemory(from, true); err != nil {
		return nil, err
	}
	shelf, lock, err := s.openCheckpoints(from)
	if err != nil {
		return nil, err
	}
	defer lock.Unlock()
	if err := s.engine.CheckRoom(); err != nil {
		return nil, err
	}
	m, err := shelf.Begin("", "fork")
	if err != nil {
		return nil, err
	}
	memory, err := shelf.Passing()
	if err != nil {
		_, err = m.End(err)
		return nil, err
	}
	defer func() { err = errors.Join(err, store.RemoveTree(memory)) }()
	at, err := s.keepState(ctx, from, m, memory)
	p, err := m.End(err)
	if err != nil {
		return nil, err
	}
	s.tellLeftOut(p)
	made, err = s.forkEach(ctx, from, p, names, &engine.Memory{Dir: memory, Authority: func() *wire.Authority { return at.authority }})
	if len(made) == 0 { // no fork begins from it
		err = errors.Join(err, shelf.Remove(p))
	}
	return made, err
}

// forkAbreast is how many forks start at once: a start computes, and also waits.
const forkAbreast = 4

// forkEach makes the forks one after the other, and starts several at once.
func (s *Snapshots) forkEach(ctx context.Context, from *spec.Sandbox, p checkpoint.Point, names []string, memory *engine.Memory) (made []*spec.Sandbox, err error) {
	slots := make(chan struct{}, forkAbreast)
	errs := make([]error, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		if err = context.Cause(ctx); err != nil {
			break
		}
		var sb *spec.Sandbox
		if sb, err = s.forkFiles(ctx, from, p, name, true, nil); err != nil {
			break
		}
		made = append(made, sb)
		slots <- struct{}{}
		all.Go(func() {
			errs[i] = s.resumeFork(ctx, from, sb, memory)
			<-slots
		})
	}
	all.Wait()
	running := made[:0]
	for i, sb := range made {
		if errs[i] == nil {
			running = append(running, sb)
		}
	}
	return running, errors.Join(append(errs, err)...)
}

// resumeFork starts a new fork whose programs resume from memory. If they cannot, it removes the fork.
func (s *Snapshots) resumeFork(ctx context.Context, from, sb *spec.Sandbox, memory *engine.Memory) error {
	err := context.Cause(ctx)
	if err == nil {
		s.engine.Credentials().LendAgain(ctx, from, sb, true)
		err = s.startFork(ctx, sb, memory)
	}
	if err == nil {
		return s.engine.FinishFork(sb)
	}
	if errors.Is(err, errStarted) { // it has work in it by now
		return errors.Join(spec.Errorf(spec.ErrConflict, "another command has started %s before its programs could go on: it is a fork of the files alone", sb.Name), s.engine.FinishFork(sb))
	}
	if from.Mode() == spec.WorkspaceLive && spec.Hint(err) == "" {
		err = (&spec.Error{Op: "go on in " + sb.Name, Err: err}).
			WithHint("if a file that a program has open was removed meanwhile: --files, or --workspace review")
	}
	if rerr := s.engine.Remove(context.WithoutCancel(ctx), sb, true); rerr != nil {
		return errors.Join(err, fmt.Errorf("remove %s again: %w", sb.Name, rerr))
	}
	return err
}

// errStarted means that another command has started a fork before its programs could resume.
var errStarted = errors.New("it was started")

func (s *Snapshots) startFork(ctx context.Context, sb *spec.Sandbox, memory *engine.Memory) error {
	d := s.directory(sb)
	lock, err := lockFork(ctx, d)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	if d.ReadStatus().StartedAt != nil {
		return errStarted
	}
	return s.engine.Resume(ctx, sb, lock, memory)
}

// Waits for the lock of a fork that another process holds, and that it does not start.
const (
	forkLockTime = 10 * time.Second
	forkLockPoll = 5 * time.Millisecond
)

// lockFork takes the lock of a fork that no command has started. Other processes may hold it for a
// moment: a command that checks whether the fork runs, and each child of this process, which has
// copies of its files until it executes its program.
func lockFork(ctx context.Context, d store.Sandbox) (*store.Lock, error) {
	for end := time.Now().Add(forkLockTime); ; {
		lock, err := store.TryLock(d.Lock())
		if !errors.Is(err, store.ErrLocked) {
			return lock, err
		}
		if d.MayHaveStarted() || time.Now().After(end) {
			return nil, errStarted
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(forkLockPoll):
		}
	}
}
