package engine

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/checkpoint"
	"github.com/bothy-dev/bothy/internal/clone"
	"github.com/bothy-dev/bothy/internal/layer"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/internal/workspace"
	"github.com/bothy-dev/bothy/spec"
)

// Checkpoints are those of a sandbox.
func (e *Engine) Checkpoints(sb *spec.Sandbox) checkpoint.Shelf {
	return checkpoint.Shelf{Dir: e.Store.Sandbox(sb.ID).Checkpoints()}
}

// workspaceTree begins the names of the trees that are directories of the host.
const workspaceTree = "workspace/"

// kept are the directories of a sandbox that a checkpoint holds: its home, its private
// directories, what it has written over its workspaces, its clones of them, and those
// that it writes to at once.
func (e *Engine) kept(sb *spec.Sandbox, d store.Sandbox) []checkpoint.Source {
	list := []checkpoint.Source{{Name: "home", Dir: d.Home()}}
	for i := range sb.Private {
		list = append(list, checkpoint.Source{Name: "private/" + strconv.Itoa(i), Dir: d.Private(i)})
	}
	rules := workspace.Rules{State: e.Store.Path()}
	for i, m := range sb.Workspaces {
		if sb.Reviews(m) {
			list = append(list, checkpoint.Source{
				Name: "review/" + strconv.Itoa(i), Dir: d.Review(i), Without: []string{"work", "gone", "applying.json"},
			})
			continue
		}
		if sb.Clones(m) {
			list = append(list, checkpoint.Source{Name: "clone/" + strconv.Itoa(i), Dir: clone.Tree(d.Clone(i))})
			continue
		}
		if info, err := os.Stat(m.Source); m.ReadOnly || err == nil && !info.IsDir() {
			continue
		}
		src := checkpoint.Source{Name: workspaceTree + strconv.Itoa(i), Dir: m.Source, Shared: true}
		for _, h := range rules.Hidden(m) {
			if rel, err := filepath.Rel(m.Target, h); err == nil {
				src.Without = append(src.Without, rel)
			}
		}
		list = append(list, src)
	}
	return list
}

// checkpointTime bounds how long the conversation about a checkpoint may take: a root
// layer may be gigabytes.
const checkpointTime = 15 * time.Minute

// Checkpoint keeps what a sandbox's files are now. One that runs stands still for a
// moment. The name may be empty; cause is for people.
func (e *Engine) Checkpoint(ctx context.Context, sb *spec.Sandbox, name, cause string) (checkpoint.Point, error) {
	p, err := e.checkpoint(ctx, sb, name, cause)
	if err != nil {
		return p, &spec.Error{Op: "make a checkpoint of " + sb.Name, Err: err}
	}
	return p, nil
}

func (e *Engine) checkpoint(ctx context.Context, sb *spec.Sandbox, name, cause string) (checkpoint.Point, error) {
	shelf, lock, err := e.openCheckpoints(sb)
	if err != nil {
		return checkpoint.Point{}, err
	}
	defer lock.Unlock()
	m, err := shelf.Begin(name, cause)
	if err != nil {
		return checkpoint.Point{}, err
	}
	return m.End(e.keep(ctx, sb, m))
}

// openCheckpoints gives a sandbox's checkpoints to the caller alone. Locks are taken in
// this order: checkpoints, sandbox, review.
func (e *Engine) openCheckpoints(sb *spec.Sandbox) (checkpoint.Shelf, *store.Lock, error) {
	shelf := e.Checkpoints(sb)
	if sb.Broken != "" {
		return shelf, nil, spec.Errorf(spec.ErrConflict, "sandbox %s is broken: %s", sb.Name, sb.Broken)
	}
	lock, err := shelf.Lock()
	return shelf, lock, err
}

// keep keeps what there is, with as little as possible left to do while the sandbox
// stands still or nobody may start it.
func (e *Engine) keep(ctx context.Context, sb *spec.Sandbox, m *checkpoint.Making) error {
	d := e.Store.Sandbox(sb.ID)
	sources := e.kept(sb, d)
	if err := m.Warm(sources); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, checkpointTime)
	defer cancel()
	return e.tellWithin(ctx, sb, func(ctx context.Context, c *unixconn.Conn) error {
		defer c.Close()
		defer context.AfterFunc(ctx, func() { c.Close() })()
		return keepStill(d, sources, m, c)
	}, func() error { return keepIdle(d, sources, m) })
}

// keepStill keeps what there is while the sandbox stands still.
func keepStill(d store.Sandbox, sources []checkpoint.Source, m *checkpoint.Making, c *unixconn.Conn) error {
	review, err := store.WaitLock(d.ReviewLock())
	if err != nil {
		return err
	}
	defer review.Unlock()
	began := time.Now()
	if err := c.SendJSON(wire.Request, wire.Ask{Op: wire.OpStill}); err != nil {
		return spec.ErrStopping
	}
	if err := c.Expect(wire.Reply, &struct{}{}); err != nil {
		return err
	}
	if err := m.Take(sources); err != nil {
		return err
	}
	p := m.Point()
	p.Running, p.Pause = true, spec.Duration(time.Since(began))
	if err := c.SendJSON(wire.Request, struct{}{}); err != nil {
		return tooSlow(err)
	}
	if err := c.Expect(wire.Reply, &spec.RootLayer{}); err != nil {
		return tooSlow(err)
	}
	return keepLayer(m, d)
}

// tooSlow explains why a keeper has broken a conversation off.
func tooSlow(err error) error {
	if _, said := errors.AsType[*spec.Error](err); said {
		return err
	}
	return spec.Errorf(spec.ErrConflict, "the sandbox would have had to stand still for too long: %w", err).
		WithHint("stop it first: bothy stop")
}

// keepIdle is keep for a sandbox that does not run. The caller holds its lock.
func keepIdle(d store.Sandbox, sources []checkpoint.Source, m *checkpoint.Making) error {
	review, err := store.WaitLock(d.ReviewLock())
	if err != nil {
		return err
	}
	defer review.Unlock()
	m.Point().Running, m.Point().Pause = false, 0
	if err := m.Take(sources); err != nil {
		return err
	}
	return keepLayer(m, d)
}

// keepLayer keeps the newest save of the root layer.
func keepLayer(m *checkpoint.Making, d store.Sandbox) error {
	current, err := (layer.Store{Dir: d.Layers()}).Current()
	if err != nil || current == "" {
		return err
	}
	if err := layer.Link(current, m.LayerPlace()); err != nil {
		return err
	}
	size, err := store.TreeSize(m.LayerPlace())
	m.Point().Size += size
	m.Point().Bytes += size
	m.Point().Layer = size
	return err
}

// RemoveCheckpoint removes one.
func (e *Engine) RemoveCheckpoint(sb *spec.Sandbox, p checkpoint.Point) error {
	shelf, lock, err := e.openCheckpoints(sb)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	return shelf.Remove(p)
}

// CheckpointChanges tells what is different in one checkpoint of a sandbox from another;
// from nothing if that has no number.
func (e *Engine) CheckpointChanges(sb *spec.Sandbox, from, to checkpoint.Point) ([]checkpoint.Change, error) {
	shelf := e.Checkpoints(sb)
	packs := shelf.Packs()
	defer packs.Close()
	var err error
	var x, y []checkpoint.Tree
	if from.Number > 0 {
		x, err = shelf.Trees(from)
	}
	if err == nil {
		y, err = shelf.Trees(to)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, spec.Errorf(spec.ErrNotFound, "the checkpoint was removed just now")
	}
	if err != nil {
		return nil, err
	}
	return checkpoint.Compare(x, y, packs)
}

// isWorkspace tells the trees that are directories of the host.
func isWorkspace(s checkpoint.Source) bool { return strings.HasPrefix(s.Name, workspaceTree) }
