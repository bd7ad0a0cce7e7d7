package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/bothy-dev/bothy/internal/checkpoint"
	"github.com/bothy-dev/bothy/internal/layer"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// RestoreOptions say how files are put back.
type RestoreOptions struct {
	// NoWorkspace leaves the directories of the host alone that the sandbox writes to
	// at once.
	NoWorkspace bool
	// Files leaves what programs held in memory, if it was kept: none runs afterwards.
	Files bool
	// Discard makes no checkpoint of what there is.
	Discard bool
}

// Restored is what became of going back.
type Restored struct {
	Before  *checkpoint.Point // a checkpoint of what there was, to come back to; or none
	Ran     bool              // the sandbox ran, and was stopped
	Skipped []string          // of the host's, what could not be put back
	Runs    bool              // programs go on from the checkpoint
}

// Restore has a sandbox's files be what they were; and programs go on from there, if
// what they held in memory was kept. If it runs, it is stopped. Its rules, and what is
// lent to it, are those of today.
func (e *Engine) Restore(ctx context.Context, sb *spec.Sandbox, p checkpoint.Point, o RestoreOptions) (Restored, error) {
	r, err := e.restore(ctx, sb, p, o)
	if err != nil {
		err = e.opError(fmt.Sprintf("restore checkpoint %s of %s", p.Name, sb.Name), sb, err)
	}
	return r, err
}

func (e *Engine) restore(ctx context.Context, sb *spec.Sandbox, p checkpoint.Point, o RestoreOptions) (r Restored, err error) {
	if sb.Remove {
		return r, spec.Errorf(spec.ErrUsage, "it was made for one command, and goes with it").WithHint("begin a new one from it: bothy checkpoint restore --to NAME")
	}
	shelf, mine, err := e.openCheckpoints(sb)
	if err != nil {
		return r, err
	}
	defer mine.Unlock()
	if err := shelf.Sweep(); err != nil {
		return r, err
	}
	if p, err = shelf.Find(p.Name); err != nil { // it may have been removed meanwhile
		return r, err
	}
	if _, err := shelf.Trees(p); err != nil { // before anything is stopped or kept
		return r, err
	}
	var past *past
	if p.Memory > 0 && !o.Files {
		if past, err = e.openPast(ctx, sb, p); err != nil {
			return r, err
		}
	}
	sources := e.kept(sb, e.Store.Sandbox(sb.ID))
	if past != nil && o.NoWorkspace && slices.ContainsFunc(sources, isWorkspace) {
		return r, spec.Errorf(spec.ErrUsage, "programs cannot go on over files that are not what they were").
			WithHint("put your directories back, too, or leave the programs: --files")
	}
	if err := reachable(p, sources, o); err != nil { // before anything is stopped
		return r, err
	}
	r.Ran = e.Status(sb).State != spec.Stopped
	if past != nil && r.Ran {
		past.authority() // before anything is stopped
	}
	lock, lost, err := e.halt(ctx, sb, 0)
	if err != nil {
		return r, err
	}
	if lock == nil {
		return r, errRemoved(sb)
	}
	defer lock.Unlock()
	if lost != nil && !o.Discard {
		return r, lost
	}
	back, err := shelf.Interrupted()
	if err != nil {
		return r, err
	}
	if o.NoWorkspace {
		// But what is half of another checkpoint is put back.
		sources = slices.DeleteFunc(sources, func(s checkpoint.Source) bool {
			return isWorkspace(s) && (back == nil || !slices.Contains(back.Trees, s.Name))
		})
	}
	if !o.Discard {
		if r.Before, err = e.keepBefore(sb, p, sources, back != nil); err != nil {
			return r, (&spec.Error{Op: "keep what there is", Err: err}).WithHint("--discard does without")
		}
	}
	if r.Skipped, err = e.goBack(sb, p, sources); err != nil {
		return r, halfway(sb, shelf, r.Before, err)
	}
	if past == nil {
		return r, nil
	}
	if len(r.Skipped) > 0 {
		e.say("programs do not go on: not all files are what they were")
		return r, nil
	}
	e.sayOver(p, e.asItIs(sb, false))
	if err := e.startFrom(ctx, sb, lock, past); err != nil {
		return r, (&spec.Error{Op: "have its programs go on", Err: err}).
			WithHint("its files are what they were; the next command starts it anew")
	}
	r.Runs = true
	return r, nil
}

// reachable looks whether the directories are there that are to be put back, or kept.
func reachable(p checkpoint.Point, sources []checkpoint.Source, o RestoreOptions) error {
	for i := range sources {
		s := &sources[i]
		if isWorkspace(*s) && o.NoWorkspace || o.Discard && !slices.Contains(p.Trees, s.Name) {
			continue
		}
		if err := s.Reach(); err != nil {
			return err
		}
	}
	return nil
}

// halfway says what to do about files that are neither what they were nor what they are
// to be, as where there was no room for them.
func halfway(sb *spec.Sandbox, shelf checkpoint.Shelf, before *checkpoint.Point, failed error) error {
	if back, err := shelf.Interrupted(); back == nil && err == nil {
		return failed
	}
	undo := "restore another one"
	if before != nil {
		undo = fmt.Sprintf("go back to what there was: bothy checkpoint restore --discard %s %s", sb.Name, before.Name)
	}
	return (&spec.Error{Op: "put its files back", Err: failed}).WithHint("once that is mended, start it, which goes on with it; or %s", undo)
}

// keepBefore makes a checkpoint of what there is. What is not in it is not to be removed.
// Where it is done again, none is made of what the one before it has: somebody may try
// often.
func (e *Engine) keepBefore(sb *spec.Sandbox, p checkpoint.Point, sources []checkpoint.Source, again bool) (*checkpoint.Point, error) {
	m, err := e.Checkpoints(sb).BeginBefore(p)
	if err != nil {
		return nil, err
	}
	d := e.Store.Sandbox(sb.ID)
	all := slices.DeleteFunc(e.kept(sb, d), func(s checkpoint.Source) bool { // also of what is not put back
		stays := isWorkspace(s) && !slices.ContainsFunc(sources, func(o checkpoint.Source) bool { return o.Name == s.Name })
		if !stays || s.Reach() == nil {
			return false
		}
		e.say("%s is not where it was, and not in the checkpoint of what there is", s.Dir)
		return true
	})
	err = keepIdle(d, all, m)
	for i := range sources {
		sources[i].Before = m.Tree(sources[i].Name)
	}
	if err == nil && again {
		err = differs(m)
	}
	var before checkpoint.Point
	err = store.AtOnce(func() (ended error) {
		before, ended = m.End(err)
		return ended
	}, func() error {
		if err == nil || errors.Is(err, errUnchanged) {
			_ = forgetDisk(d) // which is to come next, and would have the disk waited for once more
		}
		return nil
	})
	if errors.Is(err, errUnchanged) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &before, nil
}

// goBack puts files back. The caller holds the locks of the checkpoints and of the
// sandbox.
func (e *Engine) goBack(sb *spec.Sandbox, p checkpoint.Point, sources []checkpoint.Source) ([]string, error) {
	d := e.Store.Sandbox(sb.ID)
	review, err := store.WaitLock(d.ReviewLock())
	if err != nil {
		return nil, err
	}
	defer review.Unlock()
	if err := forgetDisk(d); err != nil {
		return nil, err
	}
	shelf := e.Checkpoints(sb)
	var skipped []string
	err = e.replaceClones(sb, func() (err error) {
		skipped, err = shelf.Restore(p, sources, func() error {
			if !slices.ContainsFunc(sources, isHome) { // programs belong to what they have written there
				return nil
			}
			if sb.Devcontainer != nil {
				if err := writeSetUps(d, p.CreatedAt, d); err != nil {
					return err
				}
			}
			return (layer.Store{Dir: d.Layers()}).Adopt(shelf.Layer(p))
		})
		return err
	})
	return skipped, err
}

// forgetDisk has the next start look what a sandbox keeps on the disk: its files are
// about to be others.
func forgetDisk(d store.Sandbox) error {
	st := d.ReadStatus()
	if st.Disk == nil {
		return nil
	}
	st.Disk = nil
	return store.WriteJSON(d.Status(), st)
}

// finishRestore finishes going back to a checkpoint, if that was interrupted. The caller
// holds the sandbox's lock.
func (e *Engine) finishRestore(sb *spec.Sandbox) error {
	shelf := e.Checkpoints(sb)
	back, err := shelf.Interrupted()
	if back == nil && err == nil {
		return nil
	}
	if back != nil && back.Handed {
		return e.Whole(sb)
	}
	lock, err := shelf.TryLock()
	if errors.Is(err, store.ErrLocked) {
		return errRestoring(sb)
	}
	if err != nil {
		return err
	}
	defer lock.Unlock()
	if err := e.finish(sb, shelf); err != nil {
		failed := &spec.Error{Op: "finish restoring a checkpoint of " + sb.Name, Err: err}
		if errors.Is(err, spec.ErrNotFound) || errors.Is(err, spec.ErrDenied) { // a directory was moved away: it says so
			return failed
		}
		return failed.WithHint("make room if there is none; else restore another one, or this one without keeping what there is: bothy checkpoint restore [--discard] %s CHECKPOINT", sb.Name)
	}
	return nil
}

func errRestoring(sb *spec.Sandbox) error {
	return spec.Errorf(spec.ErrConflict, "a checkpoint of sandbox %s is being restored", sb.Name).WithHint("try again in a moment")
}

// Whole refuses a sandbox whose files are half of a checkpoint: somebody goes back to it
// just now, or was interrupted. Nothing of them is to be believed, least of all what is
// not there.
func (e *Engine) Whole(sb *spec.Sandbox) error {
	shelf := e.Checkpoints(sb)
	half := shelf.Whole()
	if half == nil {
		return nil
	}
	lock, err := shelf.TryLock()
	if errors.Is(err, store.ErrLocked) {
		return errRestoring(sb)
	}
	if err == nil {
		half = shelf.Whole() // nobody is at it any more
		lock.Unlock()
	}
	if half == nil {
		return nil
	}
	return &spec.Error{Op: "use the files of " + sb.Name, Err: half}
}

func (e *Engine) finish(sb *spec.Sandbox, shelf checkpoint.Shelf) error {
	back, err := shelf.Interrupted()
	if back == nil || err != nil {
		return err
	}
	if back.Handed {
		return shelf.Whole()
	}
	if back.Point.Number == 0 {
		return spec.Errorf(spec.ErrConflict, "the checkpoint is there no more, or cannot be read")
	}
	e.say("going back to checkpoint %s was interrupted; going on with it", back.Point.Name)
	sources := slices.DeleteFunc(e.kept(sb, e.Store.Sandbox(sb.ID)), func(s checkpoint.Source) bool {
		return !slices.Contains(back.Trees, s.Name)
	})
	if _, err := e.keepBefore(sb, back.Point, sources, true); err != nil {
		return err
	}
	_, err = e.goBack(sb, back.Point, sources)
	return err
}
