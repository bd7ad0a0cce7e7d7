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

// RestoreOptions say how files are restored.
type RestoreOptions struct {
	// NoWorkspace leaves alone the directories of the host that the sandbox writes to directly.
	NoWorkspace bool
	// Files leaves out the memory of programs, if it was kept: no program runs afterwards.
	Files bool
	// Discard makes no checkpoint of the present state.
	Discard bool
}

// Restored is the result of a restore.
type Restored struct {
	Before  *checkpoint.Point // a checkpoint of the state before, to come back to; or none
	Ran     bool              // the sandbox ran, and was stopped
	Skipped []string          // paths of the host that could not be restored
	Runs    bool              // programs go on from the checkpoint
}

// Restore restores a sandbox's files from a checkpoint. Its programs resume from there, if their
// memory was kept. A running sandbox is stopped. The rules and the leases stay those of today.
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
	if p, err = shelf.Find(p.Name); err != nil { // the checkpoint may have been removed meanwhile
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
		// But it restores a workspace that is half of another checkpoint.
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

// reachable checks that the directories exist that are to be restored, or kept.
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

// halfway adds a hint about files that are half restored, for example because the disk was full.
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

// keepBefore makes a checkpoint of the present state. Files that are not in it must not be removed.
// If a restore is repeated, keepBefore makes none that equals the one before, because the user may
// try often.
func (e *Engine) keepBefore(sb *spec.Sandbox, p checkpoint.Point, sources []checkpoint.Source, again bool) (*checkpoint.Point, error) {
	m, err := e.Checkpoints(sb).BeginBefore(p)
	if err != nil {
		return nil, err
	}
	d := e.Store.Sandbox(sb.ID)
	all := slices.DeleteFunc(e.kept(sb, d), func(s checkpoint.Source) bool { // also of directories that are not restored
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
			_ = forgetDisk(d) // the next step does that anyway, and would wait for the disk once more
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

// goBack restores files. The caller holds the locks of the checkpoints and of the sandbox.
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
			if !slices.ContainsFunc(sources, isHome) { // programs belong to the files that they have written there
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

// forgetDisk has the next start measure the sandbox's use of the disk again, because its files are
// about to change.
func forgetDisk(d store.Sandbox) error {
	st := d.ReadStatus()
	if st.Disk == nil {
		return nil
	}
	st.Disk = nil
	return store.WriteJSON(d.Status(), st)
}

// finishRestore finishes an interrupted restore. The caller holds the sandbox's lock.
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
		if errors.Is(err, spec.ErrNotFound) || errors.Is(err, spec.ErrDenied) { // a directory was moved away, as the error says
			return failed
		}
		return failed.WithHint("make room if there is none; else restore another one, or this one without keeping what there is: bothy checkpoint restore [--discard] %s CHECKPOINT", sb.Name)
	}
	return nil
}

func errRestoring(sb *spec.Sandbox) error {
	return spec.Errorf(spec.ErrConflict, "a checkpoint of sandbox %s is being restored", sb.Name).WithHint("try again in a moment")
}

// Whole refuses a sandbox whose files are half of a checkpoint: a restore is at work, or was
// interrupted. None of the files can be trusted, and a missing file least of all.
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
		half = shelf.Whole() // no process restores it any more
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
