package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/bothy-dev/bothy/internal/checkpoint"
	"github.com/bothy-dev/bothy/internal/keeper"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// past is what a sandbox goes on from when it starts, instead of booting.
type past struct {
	dir       string                 // of the memory image
	authority func() *wire.Authority // whom programs trust; nil if that cannot be had again
}

// authorityName is the file of a memory image with the key of whom programs trust,
// sealed as secrets are.
const authorityName = "authority"

// sealAuthority keeps whom programs trust beside an image of their memory. One that
// cannot be sealed is not kept, and said.
func (e *Engine) sealAuthority(ctx context.Context, sb *spec.Sandbox, dir string, a *wire.Authority) {
	if err := e.trySeal(ctx, dir, a); err != nil {
		e.say("the key of the certificate authority of sandbox %s is not kept, and programs that go on from this checkpoint will not trust their connections where Bothy looks into them: %v", sb.Name, err)
	}
}

func (e *Engine) trySeal(ctx context.Context, dir string, a *wire.Authority) error {
	if a == nil {
		return errors.New("the sandbox did not tell it")
	}
	sealed, err := e.Credentials().Values.Seal(ctx, authorityName, a.Key)
	if err != nil {
		return err
	}
	return store.WriteFile(filepath.Join(dir, authorityName), []byte(sealed))
}

// openPast makes ready what programs go on from. It refuses what they cannot go on
// from here. An authority that cannot be had is said. It is asked for at once, and
// waited for when it is needed: who opens it is a process of its own.
func (e *Engine) openPast(ctx context.Context, sb *spec.Sandbox, p checkpoint.Point) (*past, error) {
	dir := e.Checkpoints(sb).Memory(p)
	build, err := memoryBuild()
	if err != nil {
		return nil, err
	}
	m, err := keeper.OpenMemory(dir, build)
	if err != nil {
		return nil, err
	}
	if size, err := store.TreeSize(dir); err != nil || size != p.Memory {
		return nil, (&spec.Error{Op: "look at the memory of checkpoint " + p.Name, Err: errors.Join(err, errors.New("it is not whole"))}).
			WithHint("go back to the files alone: --files")
	}
	authority := sync.OnceValue(func() *wire.Authority {
		key, err := e.openAuthority(ctx, dir)
		if err != nil {
			e.say("programs that go on from checkpoint %s of %s do not trust their connections where Bothy looks into them, until they are started again: %v", p.Name, sb.Name, err)
			return nil
		}
		return &wire.Authority{Certificate: m.Certificate, Key: key}
	})
	go authority()
	return &past{dir, authority}, nil
}

func (e *Engine) openAuthority(ctx context.Context, dir string) (wire.Value, error) {
	sealed, err := os.ReadFile(filepath.Join(dir, authorityName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("the key of their certificate authority was not kept")
	}
	if err != nil {
		return nil, err
	}
	return e.Credentials().Values.Open(ctx, authorityName, string(sealed))
}

// slowRead is how many bytes of an image are read in a second at least, when several are
// read at once.
const slowRead = 16 << 20

// startFrom starts a sandbox that goes on from a memory image. The caller holds the
// lock of the checkpoints that it lies in, and the sandbox's.
func (e *Engine) startFrom(ctx context.Context, sb *spec.Sandbox, lock *store.Lock, from *past) error {
	from.authority() // somebody may be asked for a passphrase, and takes his time
	size, err := store.TreeSize(from.dir)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout+time.Duration(size/slowRead)*time.Second)
	defer cancel()
	c, err := e.startWith(ctx, sb, lock, from)
	if err != nil {
		return err
	}
	e.attend(sb)
	return order(ctx, sb, c, wire.Ask{Op: wire.OpUp})
}

// forkRunning makes forks of a sandbox that runs. Each goes on from the same moment, for
// itself.
func (e *Engine) forkRunning(ctx context.Context, from *spec.Sandbox, names []string) (made []*spec.Sandbox, err error) {
	defer func() {
		if err != nil {
			err = e.opError("fork "+from.Name, from, err)
		}
	}()
	shelf, lock, err := e.openCheckpoints(from)
	if err != nil {
		return nil, err
	}
	defer lock.Unlock()
	if err := e.room(); err != nil {
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
	at, err := e.keep(ctx, from, m, memory)
	p, err := m.End(err)
	if err != nil {
		return nil, err
	}
	e.sayLeft(p)
	made, err = e.forkEach(ctx, from, p, names, &past{memory, func() *wire.Authority { return at.authority }})
	if len(made) == 0 { // who begins from it is not there
		err = errors.Join(err, shelf.Remove(p))
	}
	return made, err
}

// forkAbreast is how many forks start at once: each start works, and waits.
const forkAbreast = 4

// forkEach makes the forks one after the other, and starts several at once.
func (e *Engine) forkEach(ctx context.Context, from *spec.Sandbox, p checkpoint.Point, names []string, past *past) (made []*spec.Sandbox, err error) {
	slots := make(chan struct{}, forkAbreast)
	errs := make([]error, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		if err = context.Cause(ctx); err != nil {
			break
		}
		var sb *spec.Sandbox
		if sb, err = e.forkFiles(ctx, from, p, name, true, nil); err != nil {
			break
		}
		made = append(made, sb)
		slots <- struct{}{}
		all.Go(func() {
			errs[i] = e.goOn(ctx, from, sb, past)
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

// goOn has a fork that was just made go on with what programs held in memory. One that
// cannot is removed again.
func (e *Engine) goOn(ctx context.Context, from, sb *spec.Sandbox, past *past) error {
	err := context.Cause(ctx)
	if err == nil {
		e.Credentials().LendAgain(ctx, from, sb, true)
		err = e.startFork(ctx, sb, past)
	}
	if err == nil {
		return e.forked(sb)
	}
	if errors.Is(err, errStarted) { // and has work in it by now
		return errors.Join(spec.Errorf(spec.ErrConflict, "somebody has started %s before its programs could go on: it is a fork of the files alone", sb.Name), e.forked(sb))
	}
	if from.Mode() == spec.WorkspaceLive && spec.Hint(err) == "" {
		err = (&spec.Error{Op: "go on in " + sb.Name, Err: err}).
			WithHint("if a file that a program has open was removed meanwhile: --files, or --workspace review")
	}
	if rerr := e.Remove(context.WithoutCancel(ctx), sb, true); rerr != nil {
		return errors.Join(err, fmt.Errorf("remove %s again: %w", sb.Name, rerr))
	}
	return err
}

// errStarted says that a fork was started before its programs could go on.
var errStarted = errors.New("it was started")

func (e *Engine) startFork(ctx context.Context, sb *spec.Sandbox, past *past) error {
	d := e.Store.Sandbox(sb.ID)
	lock, err := lockFork(ctx, d)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	if d.ReadStatus().StartedAt != nil {
		return errStarted
	}
	return e.startFrom(ctx, sb, lock, past)
}

// forkLockTime is how long somebody may have the lock of a fork that he does not start.
const forkLockTime = 10 * time.Second

// lockFork takes the lock of a fork that nobody has started. Others have it for a moment: who
// looks whether it runs, and each child of ours that is started beside it, which has copies of
// our files until it executes its program.
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
		case <-time.After(lockPoll):
		}
	}
}

// forked says that a fork is what it was to be: its programs go on in it. Before that, it is
// nothing without who makes it.
func (e *Engine) forked(sb *spec.Sandbox) error {
	defer e.makers.end(sb.ID)
	err := os.Remove(e.Store.Sandbox(sb.ID).MakerLock())
	if errors.Is(err, fs.ErrNotExist) { // it was removed
		return nil
	}
	return err
}

// unforked refuses a fork in which programs are to go on, and do not yet: started as it is,
// it would have its files alone.
func (e *Engine) unforked(sb *spec.Sandbox) error {
	if sb.Remove { // it has a maker, and is no fork
		return nil
	}
	d := e.Store.Sandbox(sb.ID)
	awaited := d.Awaited() // before the rest: who lets go has done it
	if d.MayHaveStarted() || !d.HasMaker() {
		return nil
	}
	if awaited {
		return spec.Errorf(spec.ErrConflict, "sandbox %s is being forked: its programs do not go on yet", sb.Name).WithHint("try again in a moment")
	}
	return spec.Errorf(spec.ErrConflict, "sandbox %s is half a fork: the command that made it was ended before programs could go on in it", sb.Name).
		WithHint("remove it: bothy rm -f %s; and fork once more", sb.Name)
}
