package engine

import (
	"context"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/bothy-dev/bothy/internal/checkpoint"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// HandOut has another sandbox of the same workspaces hold in them, and in its private
// directories, what one held at a checkpoint. Its home, its programs and what it is lent
// stay its own. It is stopped; what it held there is gone. If that is cut short it holds
// half of it, and neither starts nor is reviewed until it was done again.
func (e *Engine) HandOut(ctx context.Context, of *spec.Sandbox, p checkpoint.Point, to *spec.Sandbox) error {
	if err := e.handOut(ctx, of, p, to); err != nil {
		return &spec.Error{Op: "hand what " + of.Name + " held at checkpoint " + p.Name + " to " + to.Name, Err: err}
	}
	return nil
}

func (e *Engine) handOut(ctx context.Context, of *spec.Sandbox, p checkpoint.Point, to *spec.Sandbox) error {
	if err := sameWork(of, to); err != nil {
		return err
	}
	shelf, mine, err := e.openCheckpoints(of)
	if err != nil {
		return err
	}
	defer mine.Unlock()
	theirs, its, err := e.openCheckpoints(to)
	if err != nil {
		return err
	}
	defer its.Unlock()
	lock, err := e.halted(ctx, to)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	back, err := theirs.Interrupted()
	if err == nil && (back == nil || !back.Handed) { // going back is of more than what is handed out
		err = e.finish(to, theirs)
	}
	if err != nil {
		return err
	}
	d := e.Store.Sandbox(to.ID)
	review, err := store.WaitLock(d.ReviewLock())
	if err != nil {
		return err
	}
	defer review.Unlock()
	if err := forgetDisk(d); err != nil {
		return err
	}
	return e.replaceClones(to, func() error { return shelf.Hand(p, to.ID, theirs, e.work(to)) })
}

// HandIn makes a checkpoint of a sandbox in which its workspaces and private directories
// hold what another sandbox has made of what was handed to it. The sandbox itself is not
// changed by that: [Engine.Restore] does it, if it is wanted. Both are stopped.
func (e *Engine) HandIn(ctx context.Context, to, from *spec.Sandbox, cause string) (checkpoint.Point, error) {
	p, err := e.handIn(ctx, to, from, cause)
	if err != nil {
		err = &spec.Error{Op: "make a checkpoint of " + to.Name + " with what " + from.Name + " has done", Err: err}
	}
	return p, err
}

func (e *Engine) handIn(ctx context.Context, to, from *spec.Sandbox, cause string) (p checkpoint.Point, err error) {
	if err := sameWork(to, from); err != nil {
		return p, err
	}
	shelf, unlock, err := e.still(ctx, to)
	if err != nil {
		return p, err
	}
	defer unlock()
	lock, err := e.halted(ctx, from)
	if err != nil {
		return p, err
	}
	defer lock.Unlock()
	if err := e.finishRestore(from); err != nil { // half of something is not what it has made
		return p, err
	}
	theirs, err := store.WaitLock(e.Store.Sandbox(from.ID).ReviewLock())
	if err != nil {
		return p, err
	}
	defer theirs.Unlock()
	m, err := shelf.BeginOf(from.ID, cause)
	if err != nil {
		return p, err
	}
	d := e.Store.Sandbox(to.ID)
	return m.End(keepIdle(d, instead(e.kept(to, d), e.work(from)), m))
}

// still gives a sandbox that does not run to the caller alone, with its checkpoints. Going
// back to one that was cut short is finished first.
func (e *Engine) still(ctx context.Context, sb *spec.Sandbox) (shelf checkpoint.Shelf, unlock func(), err error) {
	shelf, mine, err := e.openCheckpoints(sb)
	if err != nil {
		return shelf, nil, err
	}
	lock, err := e.halted(ctx, sb)
	if err != nil {
		mine.Unlock()
		return shelf, nil, err
	}
	unlock = func() {
		lock.Unlock()
		mine.Unlock()
	}
	if err = e.finish(sb, shelf); err == nil {
		err = e.room()
	}
	if err != nil {
		unlock()
	}
	return shelf, unlock, err
}

// halted stops a sandbox, and gives its lock.
func (e *Engine) halted(ctx context.Context, sb *spec.Sandbox) (*store.Lock, error) {
	lock, lost, err := e.halt(ctx, sb, 0)
	if lost != nil {
		e.say("%v", lost)
	}
	if err == nil && lock == nil {
		err = errRemoved(sb)
	}
	return lock, err
}

// work are the directories of a sandbox that hold what it works on, but for those of the
// host.
func (e *Engine) work(sb *spec.Sandbox) []checkpoint.Source {
	return slices.DeleteFunc(e.kept(sb, e.Store.Sandbox(sb.ID)), func(s checkpoint.Source) bool { return isWorkspace(s) || !isWork(s.Name) })
}

// instead puts other directories in the place of those of the same names.
func instead(list, others []checkpoint.Source) []checkpoint.Source {
	for i, s := range list {
		if n := slices.IndexFunc(others, func(o checkpoint.Source) bool { return o.Name == s.Name }); n >= 0 {
			list[i] = others[n]
		}
	}
	return list
}

// sameWork refuses sandboxes that do not work on the same in the same way.
func sameWork(a, b *spec.Sandbox) error {
	if a.Mode() != b.Mode() || !slices.Equal(a.Workspaces, b.Workspaces) || !slices.Equal(a.Private, b.Private) {
		return spec.Errorf(spec.ErrConflict, "%s and %s do not work on the same directories in the same way", a.Name, b.Name)
	}
	return nil
}

// Joined is what came of bringing two states together.
type Joined struct {
	Ours  checkpoint.Point // what the sandbox held
	Point checkpoint.Point // what they are together; of number 0 if there are conflicts
	// Alone says that it has what the one had, and nothing else: nobody did anything
	// meanwhile.
	Alone bool
	// Conflicts are paths that both have changed, as they are inside; Texts are those whose lines
	// were brought together.
	Conflicts, Texts []string
}

// ReadyToJoin has the layers of a sandbox be ready for others to be brought into: from here
// on what the host changes is known to be newer than what is done inside, and what it
// deletes to have been there.
func (e *Engine) ReadyToJoin(ctx context.Context, sb *spec.Sandbox) error {
	_, unlock, err := e.still(ctx, sb)
	if err != nil {
		return err
	}
	defer unlock()
	if err := e.readyLayers(sb); err != nil {
		return err
	}
	e.rememberNames(sb)
	return nil
}

// Join makes a checkpoint of a sandbox that has what it holds now, and what was done from
// one of its checkpoints to another. Of a path that both have changed only texts are brought
// together, by their lines, and what git keeps of a repository is as the sandbox has it: commits are not brought along,
// only files. The sandbox is stopped, and not changed by that.
func (e *Engine) Join(ctx context.Context, sb *spec.Sandbox, base, theirs checkpoint.Point, cause string) (Joined, error) {
	j, err := e.join(ctx, sb, base, theirs, cause)
	if err != nil {
		err = &spec.Error{Op: "bring what was done into " + sb.Name, Err: err}
	}
	return j, err
}

func (e *Engine) join(ctx context.Context, sb *spec.Sandbox, base, theirs checkpoint.Point, cause string) (j Joined, err error) {
	if sb.Mode() != spec.WorkspaceReview {
		return j, spec.Errorf(spec.ErrUsage, "only what is kept for a review can be brought together")
	}
	shelf, unlock, err := e.still(ctx, sb)
	if err != nil {
		return j, err
	}
	defer unlock()
	m, err := shelf.Begin("", cause+": before")
	if err != nil {
		return j, err
	}
	d := e.Store.Sandbox(sb.ID)
	ours, err := m.End(keepIdle(d, e.kept(sb, d), m))
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
	j.Alone = !slices.ContainsFunc(both.Besides, func(c checkpoint.Change) bool { return isInside(c.Path) })
	return j, err
}

// Settle has a sandbox hold in its workspaces what a checkpoint has there, unless it
// holds anything else there by now than at another: then nothing is changed, and moved is
// true. Both are one step, between which nobody can do anything. What there was is kept;
// its home and its programs stay what they are. The sandbox is stopped.
func (e *Engine) Settle(ctx context.Context, sb *spec.Sandbox, since, p checkpoint.Point) (moved bool, err error) {
	if moved, err = e.settle(ctx, sb, since, p); err != nil {
		err = &spec.Error{Op: "put what was done into " + sb.Name, Err: err}
	}
	return moved, err
}

func (e *Engine) settle(ctx context.Context, sb *spec.Sandbox, since, p checkpoint.Point) (bool, error) {
	_, unlock, err := e.still(ctx, sb)
	if err != nil {
		return false, err
	}
	defer unlock()
	sources := slices.DeleteFunc(e.kept(sb, e.Store.Sandbox(sb.ID)), func(s checkpoint.Source) bool { return !isReview(s.Name) })
	before, err := e.keepBefore(sb, p, sources, false)
	if err != nil {
		return false, err
	}
	list, err := e.CheckpointChanges(sb, since, *before)
	if err != nil || slices.ContainsFunc(list, func(c checkpoint.Change) bool { return isReview(c.Tree) && isInside(c.Path) }) {
		return err == nil, err
	}
	_, err = e.goBack(sb, p, sources)
	return false, err
}

// joinTrees brings the layers over the workspaces together.
func joinTrees(sb *spec.Sandbox, shelf checkpoint.Shelf, base, ours, theirs checkpoint.Point) (checkpoint.Merged, error) {
	var trees [3][]checkpoint.Tree
	for i, p := range []checkpoint.Point{base, ours, theirs} {
		var err error
		if trees[i], err = shelf.Trees(p); err != nil {
			return checkpoint.Merged{}, err
		}
	}
	packs := shelf.Packs()
	defer packs.Close()
	shown := &shownBelow{sb: sb, base: trees[0], since: base.CreatedAt.Add(-clockStep)}
	return checkpoint.Merge(trees[0], trees[1], trees[2], packs, checkpoint.Merging{Trees: isReview, Ours: isNotJoined, Below: shown.text})
}

func isReview(tree string) bool { return strings.HasPrefix(tree, reviewTree) }

// isNotJoined tells the paths of a layer of which each sandbox has its own: the record of
// what the host had when it began, and what git keeps. Every command of git writes to its
// index: two sandboxes would never agree.
func isNotJoined(_, at string) bool {
	return !isInside(at) || slices.Contains(strings.Split(at, "/"), ".git")
}

// isInside tells the paths of a layer that can be seen inside.
func isInside(at string) bool { return at == "up" || strings.HasPrefix(at, "up/") }

// placeInside is where a path of a layer is inside.
func placeInside(sb *spec.Sandbox, c checkpoint.Change) string {
	for i, m := range sb.Workspaces {
		if c.Tree == reviewTree+strconv.Itoa(i) {
			return path.Join(m.Target, strings.TrimPrefix(c.Path, "up/"))
		}
	}
	return c.Path
}
