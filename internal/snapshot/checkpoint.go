package snapshot

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/checkpoint"
	"github.com/bothy-dev/bothy/internal/checkpoint/manifest"
	"github.com/bothy-dev/bothy/internal/checkpoint/merge"
	"github.com/bothy-dev/bothy/internal/clone"
	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/layer"
	"github.com/bothy-dev/bothy/internal/review"
	"github.com/bothy-dev/bothy/internal/review/apply"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/internal/workspace"
	"github.com/bothy-dev/bothy/spec"
)

// workspaceTree prefixes the names of the trees that are directories of the host.
const workspaceTree = "workspace/"

// reviewTree prefixes the names of the layers over reviewed workspaces.
const reviewTree = "review/"

// sourcesIn returns the directories of a sandbox that a checkpoint holds: its home, its private
// directories, the layers over its workspaces, its clones of them, and those that it writes to
// directly.
func (s *Snapshots) sourcesIn(sb *spec.Sandbox, d store.Sandbox) []checkpoint.Source {
	list := []checkpoint.Source{{Name: "home", Dir: d.Home()}}
	for i := range sb.Private {
		list = append(list, checkpoint.Source{Name: "private/" + strconv.Itoa(i), Dir: d.Private(i)})
	}
	rules := workspace.Rules{State: s.engine.Store.Path()}
	for i, m := range sb.Workspaces {
		if sb.Reviews(m) {
			list = append(list, checkpoint.Source{
				Name: reviewTree + strconv.Itoa(i), Dir: d.Review(i), Without: []string{"work", "gone", "applying.json"},
				Gone: func() ([]string, error) { return appliedIn(sb, d, i) },
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
		list = append(list, checkpoint.Source{Name: workspaceTree + strconv.Itoa(i), Dir: m.Source, Shared: true, Without: hiddenIn(rules, m)})
	}
	return list
}

// hiddenIn returns the paths in a mount that a sandbox does not see, relative to the mount.
func hiddenIn(rules workspace.Rules, m spec.Mount) (list []string) {
	hidden, err := rules.Hidden(m)
	if err != nil { // without the mount table no sandbox starts, either
		hidden = rules.HiddenNames(m)
	}
	for _, h := range hidden {
		if rel, err := filepath.Rel(m.Target, h); err == nil {
			list = append(list, rel)
		}
	}
	return list
}

// appliedIn returns the paths in the layer over the n-th workspace that the host has, too, relative
// to the layer's directory. They are not changes any more. If they were restored, they would be
// changes again, under inodes that are not known.
func appliedIn(sb *spec.Sandbox, d store.Sandbox, n int) ([]string, error) {
	list := review.Of(sb, d.Review)
	at := slices.IndexFunc(list, func(w review.Workspace) bool { return w.Layer.Dir == d.Review(n) })
	if at < 0 {
		return nil, nil
	}
	paths, err := apply.AppliedPaths(list[at])
	for i := range paths {
		paths[i] = filepath.Join(filepath.Base(list[at].Layer.Upper()), paths[i])
	}
	return paths, err
}

// checkpointTime bounds the conversation about a checkpoint: a root layer may be gigabytes.
const checkpointTime = 15 * time.Minute

// Checkpoint keeps the present files of a sandbox; a full one also keeps the memory of its
// programs. A running sandbox pauses for a moment. The name may be empty; cause is for people.
func (s *Snapshots) Checkpoint(ctx context.Context, sb *spec.Sandbox, name, cause string, full bool) (checkpoint.Point, error) {
	p, err := s.checkpoint(ctx, sb, name, cause, full)
	if err != nil {
		return p, s.engine.Keepers().OpError("make a checkpoint of "+sb.Name, sb, err)
	}
	return p, nil
}

func (s *Snapshots) checkpoint(ctx context.Context, sb *spec.Sandbox, name, cause string, full bool) (checkpoint.Point, error) {
	if full {
		if err := s.checkMemory(sb, false); err != nil {
			return checkpoint.Point{}, err
		}
	}
	shelf, lock, err := s.openCheckpoints(sb)
	if err != nil {
		return checkpoint.Point{}, err
	}
	defer lock.Unlock()
	if err := s.engine.CheckRoom(); err != nil {
		return checkpoint.Point{}, err
	}
	m, err := shelf.Begin(name, cause)
	if err != nil {
		return checkpoint.Point{}, err
	}
	if !full {
		_, err := s.keepState(ctx, sb, m, "")
		return m.End(err)
	}
	at, err := s.keepState(ctx, sb, m, m.MemoryPlace())
	if err == nil {
		s.sealAuthority(ctx, sb, m.MemoryPlace(), at.authority)
		err = m.KeptMemory()
	}
	return m.End(err)
}

// errUnchanged means that a checkpoint would keep nothing new.
var errUnchanged = errors.New("nothing has changed")

// attempt is the result of an automatic checkpoint.
type attempt struct {
	took  time.Duration // the work, without the wait for another command's checkpoint
	saved *time.Time    // when the root layer was saved that was looked at; nil if none was, or if that is not known
}

// checkpointUnasked makes an automatic checkpoint. It returns errUnchanged if nothing has changed
// since the one before. With the time of the root layer's save back then, a sandbox that seems
// unchanged need not pause. It also removes surplus older checkpoints.
func (s *Snapshots) checkpointUnasked(ctx context.Context, sb *spec.Sandbox, cause string, saved *time.Time) (did attempt, err error) {
	shelf, lock, err := s.openCheckpoints(sb)
	if err != nil {
		return did, err
	}
	defer lock.Unlock()
	defer func(began time.Time) { did.took = time.Since(began) }(time.Now())
	if err := shelf.Thin(time.Now()); err != nil { // a full disk may have no room without that
		return did, err
	}
	if err := s.engine.CheckRoom(); err != nil {
		return did, err
	}
	m, err := shelf.Begin("", cause)
	if err != nil {
		return did, err
	}
	m.Point().Unasked = true
	did.saved, err = s.keepChanges(ctx, sb, m, saved)
	if _, err := m.End(err); err != nil {
		return did, err
	}
	return did, shelf.Thin(time.Now())
}

// keepChanges calls keepState if anything is new. It returns when the root layer that it looked at was
// saved.
func (s *Snapshots) keepChanges(ctx context.Context, sb *spec.Sandbox, m *checkpoint.Making, saved *time.Time) (*time.Time, error) {
	if root := s.engine.Status(sb).Root.SavedAt; saved != nil && root != nil && root.Equal(*saved) {
		if err := m.Warm(s.sourcesIn(sb, s.directory(sb))); err != nil {
			return nil, err
		}
		if err := checkFilesDiffer(m); err != nil {
			return root, err
		}
	}
	at, err := s.keepState(ctx, sb, m, "")
	if err != nil {
		return nil, err
	}
	return at.saved, checkDiffers(m)
}

// checkDiffers returns errUnchanged if a checkpoint holds the same as the one before.
func checkDiffers(m *checkpoint.Making) error {
	if same, err := layer.Same(m.ParentLayer(), m.Layer()); err != nil || !same {
		return err
	}
	return checkFilesDiffer(m)
}

// checkFilesDiffer is checkDiffers without the root layer.
func checkFilesDiffer(m *checkpoint.Making) error {
	same, err := m.Unchanged()
	if err == nil && same {
		return errUnchanged
	}
	return err
}

// openCheckpoints locks a sandbox's checkpoints for a caller that compares them with the
// directories that the sandbox shares.
func (s *Snapshots) openCheckpoints(sb *spec.Sandbox) (checkpoint.Shelf, *store.Lock, error) {
	if err := hostpath.CheckShared(sb); err != nil {
		return s.Checkpoints(sb), nil, err
	}
	return s.lockCheckpoints(sb)
}

// lockCheckpoints locks a sandbox's checkpoints for the caller. Locks are taken in this order:
// checkpoints, sandbox, review.
func (s *Snapshots) lockCheckpoints(sb *spec.Sandbox) (checkpoint.Shelf, *store.Lock, error) {
	shelf := s.Checkpoints(sb)
	if err := sb.CheckBroken(); err != nil {
		return shelf, nil, err
	}
	defer s.engine.Keepers().Patiently("another command works with the checkpoints of sandbox %s; waiting for it", sb.Name)()
	lock, err := shelf.Lock()
	return shelf, lock, err
}

// moment holds facts about the moment of a checkpoint that the checkpoint does not hold.
type moment struct {
	saved     *time.Time      // when its root layer was saved
	authority *wire.Authority // the authority that programs trust, if their memory is kept
}

// keepState keeps the state of a sandbox. It does as much as possible before the sandbox pauses, or
// before it locks the sandbox against a start. A memory image goes to the directory memory, if that
// is named.
func (s *Snapshots) keepState(ctx context.Context, sb *spec.Sandbox, m *checkpoint.Making, memory string) (at moment, err error) {
	d := s.directory(sb)
	sources := s.sourcesIn(sb, d)
	if err := m.Warm(sources); err != nil {
		return at, err
	}
	ctx, cancel := context.WithTimeout(ctx, checkpointTime)
	defer cancel()
	err = s.engine.Keepers().TellWithin(ctx, sb, func(ctx context.Context, c *unixconn.Conn) (err error) {
		defer c.Close()
		defer context.AfterFunc(ctx, func() { c.Close() })()
		at, err = keepStill(d, sources, m, c, memory)
		return err
	}, func() error {
		if memory != "" {
			return spec.Errorf(spec.ErrConflict, "sandbox %s does not run: it has no memory to keep", sb.Name).
				WithHint("start it, or take its files alone: --files")
		}
		at.saved = d.ReadStatus().Root.SavedAt
		return keepIdle(d, sources, m)
	})
	return at, err
}

// keepStill keeps the state of a sandbox while it is paused.
func keepStill(d store.Sandbox, sources []checkpoint.Source, m *checkpoint.Making, c *unixconn.Conn, memory string) (at moment, err error) {
	review, err := store.WaitLock(d.ReviewLock())
	if err != nil {
		return at, err
	}
	defer review.Unlock()
	if memory != "" { // a keeper that just ended may have left it
		if other, err := startedByOther(d.ReadStatus().KeeperPID); err != nil || other {
			return at, cmp.Or(err, errOtherBuild())
		}
		if err := errors.Join(store.RemoveTree(memory), os.Mkdir(memory, 0o700)); err != nil {
			return at, err
		}
	}
	if err := c.SendJSON(wire.Request, wire.Ask{Op: wire.OpStill, Unasked: m.Point().Unasked, Memory: memory}); err != nil {
		return at, spec.ErrStopping
	}
	if err := c.Expect(wire.Reply, &struct{}{}); err != nil {
		return at, err
	}
	if err := m.Take(sources); err != nil {
		return at, err
	}
	unheard := c.SendJSON(wire.Request, struct{}{}) // the keeper may have said why before it went
	var stood wire.Stood
	if err := c.Expect(wire.Reply, &stood); err != nil {
		return at, brokenOff(d, errors.Join(unheard, err))
	}
	if memory != "" {
		if err := writtenByUs(memory); err != nil {
			return at, err
		}
	}
	p := m.Point()
	p.Running, p.Pause = true, stood.Pause
	return moment{saved: stood.SavedAt, authority: stood.Authority}, keepLayer(m, d) // it stays the newest save during this conversation
}

// writtenByUs refuses a memory image that another build wrote: this build could not resume it, and
// the other may be gone. An image without a build is incomplete, which is noticed later.
func writtenByUs(memory string) error {
	build, err := memoryBuild()
	if err != nil {
		return err
	}
	if errors.Is(driver.CheckBuild(memory, build), spec.ErrConflict) {
		return errOtherBuild()
	}
	return nil
}

// errOtherBuild refuses to keep the memory of a sandbox that another build started.
func errOtherBuild() error {
	return spec.Errorf(spec.ErrConflict, "another build of bothy started this sandbox, and this one could not go on with its memory").
		WithHint("stop it and start it again first, which loses what programs have in memory; or keep its files alone: --files")
}

// brokenOff explains why a keeper broke off a conversation.
func brokenOff(d store.Sandbox, err error) error {
	if said, ok := errors.AsType[*spec.Error](err); ok {
		return said
	}
	if st, known := d.LastStatus(); known && st.State != spec.Running {
		return spec.ErrStopping
	}
	return spec.Errorf(spec.ErrConflict, "its keeper broke off: it was killed, or the sandbox would have had to stand still for too long").
		WithHint("try again; if that is of no use, stop it first: bothy stop")
}

// keepIdle is keepState for a sandbox that does not run. The caller holds its lock.
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
	added := int64(1)
	if before := m.ParentLayer(); before != "" {
		same, err := layer.Same(before, current)
		if err != nil {
			return err
		}
		if same { // the same save is on the disk already
			current, added = before, 0
		}
	}
	if err := layer.Link(current, m.LayerPlace()); err != nil {
		return err
	}
	size, err := store.TreeSize(m.LayerPlace())
	m.Point().Size += size
	m.Point().Bytes += added * size
	m.Point().Layer = size
	return err
}

// Remove removes a checkpoint.
func (s *Snapshots) Remove(sb *spec.Sandbox, p checkpoint.Point) error {
	shelf, lock, err := s.lockCheckpoints(sb)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	return shelf.Remove(p)
}

// Changes returns the differences of one checkpoint of a sandbox from another. If from
// has no number, it compares with nothing.
func (s *Snapshots) Changes(sb *spec.Sandbox, from, to checkpoint.Point) ([]merge.Change, error) {
	shelf := s.Checkpoints(sb)
	packs := shelf.Packs()
	defer packs.Close()
	var err error
	var x, y []manifest.Tree
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
	return merge.Compare(x, y, packs)
}

// isHome reports whether a tree is the home, which is restored whenever all of a sandbox is.
func isHome(src checkpoint.Source) bool { return src.Name == "home" }

// isWorkspace reports whether a tree is a directory of the host.
func isWorkspace(src checkpoint.Source) bool { return strings.HasPrefix(src.Name, workspaceTree) }
