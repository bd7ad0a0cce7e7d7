package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/checkpoint"
	"github.com/bothy-dev/bothy/internal/clone"
	"github.com/bothy-dev/bothy/internal/layer"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Fork makes a new sandbox of each name, that begins with what another held at a
// checkpoint; an empty name is chosen. It has the rules of the other and is lent the same,
// by leases of its own; ports of the host it has none. Where the other writes to the host's
// files at once, the new one keeps its changes for review, over what the files are now: two
// that wrote to the same ones would be in each other's way. From a full checkpoint its
// programs go on, unless only the files are wanted. Those that it made are given also when
// others could not be made, or were not to be made any more.
func (e *Engine) Fork(ctx context.Context, from *spec.Sandbox, p checkpoint.Point, names []string, files bool) (made []*spec.Sandbox, err error) {
	e.sweep()
	if err := e.free(names); err != nil {
		return nil, e.opError("fork "+from.Name, from, err)
	}
	e.sayLeft(p)
	if p.Memory > 0 && !files {
		e.sayOver(p, e.asItIs(from, true))
	}
	for _, name := range names {
		if ctx.Err() != nil {
			return made, context.Cause(ctx)
		}
		sb, err := e.ForkNoted(ctx, from, p, name, files, nil)
		if err != nil {
			return made, err
		}
		made = append(made, sb)
	}
	return made, nil
}

// ForkNow is Fork of what the other is now: if it runs, programs go on in each fork from
// the same moment, unless only the files are wanted. Of that a checkpoint stays.
func (e *Engine) ForkNow(ctx context.Context, from *spec.Sandbox, names []string, files bool) (made []*spec.Sandbox, err error) {
	e.sweep()
	if err := e.free(names); err != nil { // before anything is kept
		return nil, e.opError("fork "+from.Name, from, err)
	}
	if !files && e.Status(from).State == spec.Running {
		return e.forkRunning(ctx, from, names)
	}
	p, err := e.Checkpoint(ctx, from, "", "fork", false)
	if err != nil {
		return nil, err
	}
	if made, err = e.Fork(ctx, from, p, names, files); len(made) == 0 { // who begins from it is not there
		err = errors.Join(err, e.RemoveCheckpoint(from, p))
	}
	return made, err
}

// ForkNoted is Fork for a caller that writes down what it makes before it is there:
// noted is told the fork, and none is made if that fails. It may be nil.
func (e *Engine) ForkNoted(ctx context.Context, from *spec.Sandbox, p checkpoint.Point, name string, files bool, noted func(*spec.Sandbox) error) (*spec.Sandbox, error) {
	sb, err := e.fork(ctx, from, p, name, files, noted)
	if err != nil {
		return nil, e.opError("fork "+from.Name, from, err)
	}
	return sb, nil
}

// sayLeft says what is missing in a sandbox that begins from a checkpoint.
func (e *Engine) sayLeft(p checkpoint.Point) {
	if n := p.Left - p.LeftShared; n > 0 {
		e.say("%d files could not be read when checkpoint %s was made, or are devices, and are not in what begins from it", n, p.Name)
	}
}

// asItIs are the directories and files of the host over which programs go on, from a full
// checkpoint of a sandbox, as they are now: they are not in it, or not put back. Of those of
// a fork none is put back.
func (e *Engine) asItIs(sb *spec.Sandbox, forked bool) (places []string) {
	back := map[string]bool{}
	for _, s := range e.kept(sb, e.Store.Sandbox(sb.ID)) {
		back[s.Dir] = isWorkspace(s) && !forked
	}
	for _, m := range slices.Concat(sb.Workspaces, sb.Volumes) {
		if !sb.Clones(m) && !back[m.Source] {
			places = append(places, m.Source)
		}
	}
	return places
}

// sayOver says that programs go on over files that may be others than those that they had.
func (e *Engine) sayOver(p checkpoint.Point, places []string) {
	if len(places) > 0 {
		e.say("the programs of checkpoint %s go on over %s as it is now: what they have open there may not be what it was; --files does without them", p.Name, strings.Join(places, ", "))
	}
}

func (e *Engine) fork(ctx context.Context, from *spec.Sandbox, p checkpoint.Point, name string, files bool, noted func(*spec.Sandbox) error) (*spec.Sandbox, error) {
	_, lock, err := e.openCheckpoints(from)
	if err != nil {
		return nil, err
	}
	defer lock.Unlock()
	var past *past
	if p.Memory > 0 && !files {
		if past, err = e.openPast(ctx, from, p); err != nil {
			return nil, err
		}
	}
	sb, err := e.forkFiles(ctx, from, p, name, past != nil, noted)
	if err != nil {
		return nil, err
	}
	if past != nil {
		if err := e.goOn(ctx, from, sb, past); err != nil {
			return nil, err
		}
		return sb, nil
	}
	e.Credentials().LendAgain(ctx, from, sb, false)
	return sb, nil
}

// forkFiles makes a fork that does not run and is lent nothing. If programs are to go on in
// it, it is nothing without this process before they do. The caller holds the lock of the
// checkpoints.
func (e *Engine) forkFiles(ctx context.Context, from *spec.Sandbox, p checkpoint.Point, name string, programs bool, noted func(*spec.Sandbox) error) (*spec.Sandbox, error) {
	sb := *from
	sb.ID, sb.Name, sb.CreatedAt = store.NewID(), name, time.Now().UTC()
	sb.Ports, sb.Remove = nil, false
	if noted == nil { // a person's: the loop that works in the other does not in this one
		sb.Loop = ""
	}
	if sb.Mode() == spec.WorkspaceLive {
		sb.WorkspaceMode = spec.WorkspaceReview
	}
	named := func() (err error) {
		if name == "" {
			sb.Name, err = e.freeFork(from)
		}
		if err == nil && noted != nil {
			err = noted(&sb)
		}
		return err
	}
	fill := []func(store.Sandbox) error{func(d store.Sandbox) error { return e.fill(from, &sb, p, d) }}
	if programs {
		fill = append(fill, e.makers.begin(sb.ID, store.Sandbox.MakerLock))
	}
	return &sb, e.addCopy(ctx, &sb, named, fill...)
}

// addCopy adds a sandbox that is like another, which may be removed meanwhile. Last is
// called when the names are the caller's alone; it may be nil.
func (e *Engine) addCopy(ctx context.Context, sb *spec.Sandbox, last func() error, fill ...func(store.Sandbox) error) error {
	if sb.Image != nil {
		if err := e.Images().Hold(); err != nil {
			return err
		}
		defer e.Images().Release() // after the names: it may sweep
	}
	names, err := e.holdNames(ctx)
	if err != nil {
		return err
	}
	defer names.Unlock()
	if last != nil {
		if err := last(); err != nil {
			return err
		}
	}
	return e.add(ctx, sb, fill...)
}

// freeFork is a name for one of several forks.
func (e *Engine) freeFork(from *spec.Sandbox) (string, error) {
	taken, err := e.names()
	for n := 1; err == nil; n++ {
		if name := fmt.Sprintf("%s-fork-%d", from.Name, n); !taken[name] {
			return name, nil
		}
	}
	return "", err
}

// fill has the directory of a fork hold what the other held.
func (e *Engine) fill(from, sb *spec.Sandbox, p checkpoint.Point, d store.Sandbox) error {
	clones := e.clones(from)
	for i, c := range clone.Of(sb, d.Clone) {
		if err := clones[i].Fork(c.Dir); err != nil {
			return err
		}
	}
	if err := e.fillFiles(e.Checkpoints(from), p, sb, d); err != nil {
		return err
	}
	if !e.Credentials().NeverLent(from) { // what was taken back is not lent again by itself
		if err := os.WriteFile(d.Lent(), nil, 0o600); err != nil {
			return err
		}
	}
	if from.Devcontainer != nil {
		if err := writeSetUps(e.Store.Sandbox(from.ID), p.CreatedAt, d); err != nil {
			return err
		}
	}
	theirs := e.Store.Sandbox(from.ID)
	return store.AtOnce(
		func() error { return copyDocument(theirs.Policy(), d.Policy()) },
		func() error { return copyDocument(theirs.Mock(), d.Mock()) },
		func() error { return copyDocument(theirs.Uploads(), d.Uploads()) },
		func() error { return store.SyncFS(d.Dir) }, // all else
	)
}

// fillFiles has the directory of a new sandbox hold what another's files were, but for
// the workspaces, and for those with logins or placeholders in them, which are of the other.
func (e *Engine) fillFiles(shelf checkpoint.Shelf, p checkpoint.Point, sb *spec.Sandbox, d store.Sandbox) error {
	if err := shelf.Fill(p, slices.DeleteFunc(e.kept(sb, d), isWorkspace)); err != nil {
		return err
	}
	if err := layer.Link(shelf.Layer(p), layer.Store{Dir: d.Layers()}.First()); err != nil {
		return err
	}
	home, err := os.OpenRoot(d.Home())
	if err != nil {
		return err
	}
	defer home.Close()
	return e.removeLendable(sb, home)
}

// copyDocument copies one that there may be.
func copyDocument(from, to string) error {
	data, err := os.ReadFile(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", filepath.Base(from), err)
	}
	return store.WriteFile(to, data)
}
