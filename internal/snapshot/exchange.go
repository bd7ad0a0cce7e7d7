package snapshot

import (
	"context"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/bothy-dev/bothy/internal/checkpoint"
	"github.com/bothy-dev/bothy/internal/checkpoint/manifest"
	"github.com/bothy-dev/bothy/internal/checkpoint/merge"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Exchange brings the work of sandboxes that work on the same directories from one to another.
type Exchange struct{ snapshots *Snapshots }

// NewExchange returns the exchange of work between the sandboxes of snapshots.
func NewExchange(s *Snapshots) *Exchange { return &Exchange{s} }

// HandOut puts the state that one sandbox held at a checkpoint into another sandbox of the same
// workspaces: into its workspaces and its private directories. The other keeps its home, its
// programs and its leases. HandOut stops it, and its state there is lost. After an interrupted
// HandOut it holds half of the new state; it neither starts nor is reviewed until HandOut is
// repeated.
func (x *Exchange) HandOut(ctx context.Context, of *spec.Sandbox, p checkpoint.Point, to *spec.Sandbox) error {
	if err := x.handOut(ctx, of, p, to); err != nil {
		return &spec.Error{Op: "hand what " + of.Name + " held at checkpoint " + p.Name + " to " + to.Name, Err: err}
	}
	return nil
}

func (x *Exchange) handOut(ctx context.Context, of *spec.Sandbox, p checkpoint.Point, to *spec.Sandbox) error {
	if err := sameWork(of, to); err != nil {
		return err
	}
	shelf, mine, err := x.snapshots.openCheckpoints(of)
	if err != nil {
		return err
	}
	defer mine.Unlock()
	theirs, its, err := x.snapshots.openCheckpoints(to)
	if err != nil {
		return err
	}
	defer its.Unlock()
	lock, err := x.haltSandbox(ctx, to)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	back, err := theirs.Interrupted()
	if err == nil && (back == nil || !back.Handed) { // a restore covers more than a handover
		err = x.snapshots.finishInterrupted(to, theirs)
	}
	if err != nil {
		return err
	}
	d := x.snapshots.directory(to)
	review, err := store.WaitLock(d.ReviewLock())
	if err != nil {
		return err
	}
	defer review.Unlock()
	if err := forgetDisk(d); err != nil {
		return err
	}
	return x.snapshots.replaceClones(to, func() error { return shelf.Hand(p, to.ID, theirs, workIn(x.snapshots.sourcesIn(to, d))) })
}

// HandIn makes a checkpoint of a sandbox with the workspaces and private directories of another
// sandbox, which has worked on a handover. HandIn does not change the sandbox itself: the caller
// can do that with [Snapshots.Restore]. Both sandboxes are stopped.
func (x *Exchange) HandIn(ctx context.Context, to, from *spec.Sandbox, cause string) (checkpoint.Point, error) {
	p, err := x.handIn(ctx, to, from, cause)
	if err != nil {
		err = &spec.Error{Op: "make a checkpoint of " + to.Name + " with what " + from.Name + " has done", Err: err}
	}
	return p, err
}

func (x *Exchange) handIn(ctx context.Context, to, from *spec.Sandbox, cause string) (p checkpoint.Point, err error) {
	if err := sameWork(to, from); err != nil {
		return p, err
	}
	shelf, unlock, err := x.stopAndLock(ctx, to)
	if err != nil {
		return p, err
	}
	defer unlock()
	lock, err := x.haltSandbox(ctx, from)
	if err != nil {
		return p, err
	}
	defer lock.Unlock()
	if err := x.snapshots.finishRestore(from); err != nil { // a half-restored state is not its work
		return p, err
	}
	theirs, err := store.WaitLock(x.snapshots.directory(from).ReviewLock())
	if err != nil {
		return p, err
	}
	defer theirs.Unlock()
	m, err := shelf.BeginOf(from.ID, cause)
	if err != nil {
		return p, err
	}
	d := x.snapshots.directory(to)
	return m.End(keepIdle(d, replaceSources(x.snapshots.sourcesIn(to, d), workIn(x.snapshots.sourcesIn(from, x.snapshots.directory(from)))), m))
}

// stopAndLock stops a sandbox, and locks it and its checkpoints for the caller. It also finishes an
// interrupted restore.
func (x *Exchange) stopAndLock(ctx context.Context, sb *spec.Sandbox) (shelf checkpoint.Shelf, unlock func(), err error) {
	shelf, mine, err := x.snapshots.openCheckpoints(sb)
	if err != nil {
		return shelf, nil, err
	}
	lock, err := x.haltSandbox(ctx, sb)
	if err != nil {
		mine.Unlock()
		return shelf, nil, err
	}
	unlock = func() {
		lock.Unlock()
		mine.Unlock()
	}
	if err = x.snapshots.finishInterrupted(sb, shelf); err == nil {
		err = x.snapshots.engine.CheckRoom()
	}
	if err != nil {
		unlock()
	}
	return shelf, unlock, err
}

// haltSandbox stops a sandbox, and returns its lock.
func (x *Exchange) haltSandbox(ctx context.Context, sb *spec.Sandbox) (*store.Lock, error) {
	lock, lost, err := x.snapshots.engine.Halt(ctx, sb)
	if lost != nil {
		x.snapshots.say("%v", lost)
	}
	return lock, err
}

// replaceSources replaces directories in the list by others of the same names.
func replaceSources(list, others []checkpoint.Source) []checkpoint.Source {
	for i, src := range list {
		if n := slices.IndexFunc(others, func(o checkpoint.Source) bool { return o.Name == src.Name }); n >= 0 {
			list[i] = others[n]
		}
	}
	return list
}

// sameWork refuses two sandboxes that do not work on the same directories in the same way.
func sameWork(a, b *spec.Sandbox) error {
	if a.Mode() != b.Mode() || !slices.Equal(a.Workspaces, b.Workspaces) || !slices.Equal(a.Private, b.Private) {
		return spec.Errorf(spec.ErrConflict, "%s and %s do not work on the same directories in the same way", a.Name, b.Name)
	}
	return nil
}

// Joined is the result of merging two states.
type Joined struct {
	Ours  checkpoint.Point // the state of the sandbox before
	Point checkpoint.Point // the merged state; its number is 0 if there are conflicts
	// Alone means that the merged state holds the other state and nothing else: the sandbox has not
	// changed anything itself.
	Alone bool
	// Conflicts are paths that both have changed, as seen inside. Texts are paths whose lines were
	// merged.
	Conflicts, Texts []string
}

// ReadyToJoin prepares the layers of a sandbox for a merge. From here on Bothy can tell that a
// change of the host is newer than the work inside, and that a file that the host deletes did
// exist.
func (x *Exchange) ReadyToJoin(ctx context.Context, sb *spec.Sandbox) error {
	_, unlock, err := x.stopAndLock(ctx, sb)
	if err != nil {
		return err
	}
	defer unlock()
	workspaces := x.snapshots.engine.Changes()
	if err := workspaces.Ready(sb); err != nil {
		return err
	}
	workspaces.RememberNames(sb)
	return nil
}

// Join makes a checkpoint of a sandbox that merges its present state with the changes from one of its
// checkpoints to another. If both changed a path, only texts are merged, by their lines. Git's own files
// stay as they are in the sandbox: only files are merged, not commits. Join stops the sandbox, and does
// not change its files.
func (x *Exchange) Join(ctx context.Context, sb *spec.Sandbox, base, theirs checkpoint.Point, cause string) (Joined, error) {
	j, err := x.joinState(ctx, sb, base, theirs, cause)
	if err != nil {
		err = &spec.Error{Op: "bring the work into " + sb.Name, Err: err}
	}
	return j, err
}

func (x *Exchange) joinState(ctx context.Context, sb *spec.Sandbox, base, theirs checkpoint.Point, cause string) (j Joined, err error) {
	if sb.Mode() != spec.WorkspaceReview {
		return j, spec.Errorf(spec.ErrUsage, "only changes kept for a review can be combined")
	}
	shelf, unlock, err := x.stopAndLock(ctx, sb)
	if err != nil {
		return j, err
	}
	defer unlock()
	m, err := shelf.Begin("", cause+": before")
	if err != nil {
		return j, err
	}
	d := x.snapshots.directory(sb)
	ours, err := m.End(keepIdle(d, x.snapshots.sourcesIn(sb, d), m))
	if err != nil {
		return j, err
	}
	j.Ours = ours
	both, err := joinTrees(sb, shelf, base, ours, theirs)
	for _, c := range both.Conflicts {
		j.Conflicts = append(j.Conflicts, placeInside(sb, c))
	}
	for _, c := range both.Texts {
		j.Texts = append(j.Texts, placeInside(sb, c))
	}
	if err != nil || len(both.Conflicts) > 0 {
		return j, err
	}
	if m, err = shelf.BeginMerged(ours, both, cause); err != nil {
		return j, err
	}
	j.Point, err = m.End(keepLayer(m, d))
	j.Alone = !slices.ContainsFunc(both.Besides, func(c merge.Change) bool { return isInside(c.Path) })
	return j, err
}

// Settle puts a checkpoint's state of the workspaces into a sandbox, unless its workspaces have
// changed since another checkpoint. In that case it changes nothing, and moved is true. The check
// and the change are one step: no other command can change anything in between. Settle keeps the
// state before in a checkpoint; the home and the programs stay as they are. The sandbox is stopped.
func (x *Exchange) Settle(ctx context.Context, sb *spec.Sandbox, since, p checkpoint.Point) (moved bool, err error) {
	if moved, err = x.settle(ctx, sb, since, p); err != nil {
		err = &spec.Error{Op: "put the work into " + sb.Name, Err: err}
	}
	return moved, err
}

func (x *Exchange) settle(ctx context.Context, sb *spec.Sandbox, since, p checkpoint.Point) (bool, error) {
	_, unlock, err := x.stopAndLock(ctx, sb)
	if err != nil {
		return false, err
	}
	defer unlock()
	sources := slices.DeleteFunc(x.snapshots.sourcesIn(sb, x.snapshots.directory(sb)), func(src checkpoint.Source) bool { return !isReview(src.Name) })
	before, err := x.snapshots.keepPresent(sb, p, sources, false)
	if err != nil {
		return false, err
	}
	list, err := x.snapshots.Changes(sb, since, *before)
	if err != nil || slices.ContainsFunc(list, func(c merge.Change) bool { return isReview(c.Tree) && isInside(c.Path) }) {
		return err == nil, err
	}
	_, err = x.snapshots.restoreFiles(sb, p, sources)
	return false, err
}

// joinTrees merges the layers over the workspaces.
func joinTrees(sb *spec.Sandbox, shelf checkpoint.Shelf, base, ours, theirs checkpoint.Point) (merge.Merged, error) {
	var trees [3][]manifest.Tree
	for i, p := range []checkpoint.Point{base, ours, theirs} {
		var err error
		if trees[i], err = shelf.Trees(p); err != nil {
			return merge.Merged{}, err
		}
	}
	packs := shelf.Packs()
	defer packs.Close()
	shown := &shownBelow{sb: sb, base: trees[0], since: base.CreatedAt.Add(-clockStep)}
	return merge.Trees(trees[0], trees[1], trees[2], packs, merge.Merging{Trees: isReview, Ours: isNotJoined, Below: shown.readText})
}

func isReview(tree string) bool { return strings.HasPrefix(tree, reviewTree) }

// isNotJoined reports whether each sandbox keeps its own version of a path of a layer: the record
// of the host's state when the sandbox began, and git's own files. Every git command writes to the
// index, so two sandboxes would never agree.
func isNotJoined(_, at string) bool {
	return !isInside(at) || slices.Contains(strings.Split(at, "/"), ".git")
}

// isInside reports whether a path of a layer can be seen inside.
func isInside(at string) bool { return at == "up" || strings.HasPrefix(at, "up/") }

// placeInside returns where a path of a layer is inside.
func placeInside(sb *spec.Sandbox, c merge.Change) string {
	for i, m := range sb.Workspaces {
		if c.Tree == reviewTree+strconv.Itoa(i) {
			return path.Join(m.Target, strings.TrimPrefix(c.Path, "up/"))
		}
	}
	return c.Path
}
