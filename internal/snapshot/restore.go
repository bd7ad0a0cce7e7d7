package snapshot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bothy-dev/bothy/internal/checkpoint"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/layer"
	"github.com/bothy-dev/bothy/internal/setup"
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
func (s *Snapshots) Restore(ctx context.Context, sb *spec.Sandbox, p checkpoint.Point, o RestoreOptions) (Restored, error) {
	r, err := s.restore(ctx, sb, p, o)
	if err != nil {
		err = s.engine.Keepers().OpError(fmt.Sprintf("restore checkpoint %s of %s", p.Name, sb.Name), sb, err)
	}
	return r, err
}

func (s *Snapshots) restore(ctx context.Context, sb *spec.Sandbox, p checkpoint.Point, o RestoreOptions) (r Restored, err error) {
	if sb.Remove {
		return r, spec.Errorf(spec.ErrUsage, "it was made for one command, and goes with it").WithHint("begin a new one from it: bothy checkpoint restore --to NAME")
	}
	shelf, mine, err := s.openCheckpoints(sb)
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
	var memory *engine.Memory
	if p.Memory > 0 && !o.Files {
		if memory, err = s.openMemory(ctx, sb, p, false); err != nil {
			return r, err
		}
	}
	sources := s.sourcesIn(sb, s.directory(sb))
	if memory != nil && o.NoWorkspace && slices.ContainsFunc(sources, isWorkspace) {
		return r, spec.Errorf(spec.ErrUsage, "programs cannot go on over files that are not what they were").
			WithHint("put your directories back, too, or leave the programs: --files")
	}
	if err := checkReachable(p, sources, o); err != nil { // before anything is stopped
		return r, err
	}
	r.Ran = s.engine.Status(sb).State != spec.Stopped
	if memory != nil && r.Ran {
		memory.Authority() // before anything is stopped
	}
	lock, lost, err := s.engine.Halt(ctx, sb)
	if err != nil {
		return r, err
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
		sources = slices.DeleteFunc(sources, func(src checkpoint.Source) bool {
			return isWorkspace(src) && (back == nil || !slices.Contains(back.Trees, src.Name))
		})
	}
	if !o.Discard {
		if r.Before, err = s.keepPresent(sb, p, sources, back != nil); err != nil {
			return r, (&spec.Error{Op: "keep what there is", Err: err}).WithHint("--discard does without")
		}
	}
	if r.Skipped, err = s.restoreFiles(sb, p, sources); err != nil {
		return r, halfRestored(sb, shelf, r.Before, err)
	}
	if memory == nil {
		return r, nil
	}
	if len(r.Skipped) > 0 {
		s.say("programs do not go on: not all files are what they were")
		return r, nil
	}
	s.warnSharedFiles(p, s.sharedPlaces(sb, false))
	if err := s.engine.Resume(ctx, sb, lock, memory); err != nil {
		return r, (&spec.Error{Op: "have its programs go on", Err: err}).
			WithHint("its files are what they were; the next command starts it anew")
	}
	r.Runs = true
	return r, nil
}

// checkReachable checks that the directories exist that are to be restored, or kept.
func checkReachable(p checkpoint.Point, sources []checkpoint.Source, o RestoreOptions) error {
	for i := range sources {
		src := &sources[i]
		if isWorkspace(*src) && o.NoWorkspace || o.Discard && !slices.Contains(p.Trees, src.Name) {
			continue
		}
		if err := src.Reach(); err != nil {
			return err
		}
	}
	return nil
}

// halfRestored adds a hint about files that are half restored, for example because the disk was full.
func halfRestored(sb *spec.Sandbox, shelf checkpoint.Shelf, before *checkpoint.Point, failed error) error {
	if back, err := shelf.Interrupted(); back == nil && err == nil {
		return failed
	}
	undo := "restore another one"
	if before != nil {
		undo = fmt.Sprintf("go back to what there was: bothy checkpoint restore --discard %s %s", sb.Name, before.Name)
	}
	return (&spec.Error{Op: "put its files back", Err: failed}).WithHint("once that is mended, start it, which goes on with it; or %s", undo)
}

// keepPresent makes a checkpoint of the present state. Files that are not in it must not be removed.
// If a restore is repeated, keepPresent makes none that equals the one before, because the user may
// try often.
func (s *Snapshots) keepPresent(sb *spec.Sandbox, p checkpoint.Point, sources []checkpoint.Source, again bool) (*checkpoint.Point, error) {
	m, err := s.Checkpoints(sb).BeginBefore(p)
	if err != nil {
		return nil, err
	}
	d := s.directory(sb)
	all := slices.DeleteFunc(s.sourcesIn(sb, d), func(src checkpoint.Source) bool { // also of directories that are not restored
		stays := isWorkspace(src) && !slices.ContainsFunc(sources, func(o checkpoint.Source) bool { return o.Name == src.Name })
		if !stays || src.Reach() == nil {
			return false
		}
		s.say("%s is not where it was, and not in the checkpoint of what there is", src.Dir)
		return true
	})
	err = keepIdle(d, all, m)
	for i := range sources {
		sources[i].Before = m.Tree(sources[i].Name)
	}
	if err == nil && again {
		err = checkDiffers(m)
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

// restoreFiles restores files. The caller holds the locks of the checkpoints and of the sandbox.
func (s *Snapshots) restoreFiles(sb *spec.Sandbox, p checkpoint.Point, sources []checkpoint.Source) ([]string, error) {
	d := s.directory(sb)
	review, err := store.WaitLock(d.ReviewLock())
	if err != nil {
		return nil, err
	}
	defer review.Unlock()
	if err := forgetDisk(d); err != nil {
		return nil, err
	}
	shelf := s.Checkpoints(sb)
	var skipped []string
	err = s.replaceClones(sb, func() (err error) {
		skipped, err = shelf.Restore(p, sources, func() error {
			if !slices.ContainsFunc(sources, isHome) { // programs belong to the files that they have written there
				return nil
			}
			if sb.Devcontainer != nil {
				if err := restoreSetUps(d, p.CreatedAt, d); err != nil {
					return err
				}
			}
			return (layer.Store{Dir: d.Layers()}).Adopt(shelf.Layer(p))
		})
		return err
	})
	return skipped, err
}

// replaceClones notes that the files of a sandbox's clones are about to be replaced. Its lock keeps
// fetches out meanwhile.
func (s *Snapshots) replaceClones(sb *spec.Sandbox, replace func() error) error {
	list := s.clones(sb)
	if len(list) == 0 {
		return replace()
	}
	lock, err := store.TryLock(s.directory(sb).CloneLock())
	if errors.Is(err, store.ErrLocked) {
		return spec.Errorf(spec.ErrConflict, "another command fetches from sandbox %s just now", sb.Name).WithHint("try again when that is done")
	}
	if err != nil {
		return err
	}
	defer lock.Unlock()
	for _, c := range list {
		if err := c.Changed(); err != nil {
			return err
		}
	}
	return replace()
}

// forgetDisk makes the next start measure the sandbox's use of the disk again, because its files are
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
func (s *Snapshots) finishRestore(sb *spec.Sandbox) error {
	shelf := s.Checkpoints(sb)
	back, err := shelf.Interrupted()
	if back == nil && err == nil {
		return nil
	}
	if back != nil && back.Handed {
		return s.engine.Whole(sb)
	}
	lock, err := shelf.TryLock()
	if errors.Is(err, store.ErrLocked) {
		if err := s.engine.Whole(sb); err == nil || errors.Is(err, spec.ErrConflict) {
			return err // the other process restores it, or has done so by now
		}
		return s.finishRestore(sb) // the other process did something else
	}
	if err != nil {
		return err
	}
	defer lock.Unlock()
	if err := s.finishInterrupted(sb, shelf); err != nil {
		failed := &spec.Error{Op: "finish restoring a checkpoint of " + sb.Name, Err: err}
		if errors.Is(err, spec.ErrNotFound) || errors.Is(err, spec.ErrDenied) { // a directory was moved away, as the error says
			return failed
		}
		return failed.WithHint("make room if there is none; else restore another one, or this one without keeping what there is: bothy checkpoint restore [--discard] %s CHECKPOINT", sb.Name)
	}
	return nil
}

func (s *Snapshots) finishInterrupted(sb *spec.Sandbox, shelf checkpoint.Shelf) error {
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
	s.say("going back to checkpoint %s was interrupted; going on with it", back.Point.Name)
	sources := slices.DeleteFunc(s.sourcesIn(sb, s.directory(sb)), func(src checkpoint.Source) bool {
		return !slices.Contains(back.Trees, src.Name)
	})
	if _, err := s.keepPresent(sb, back.Point, sources, true); err != nil {
		return err
	}
	_, err = s.restoreFiles(sb, back.Point, sources)
	return err
}

// restoreSetUps writes which commands of its devcontainer.json one sandbox had run at a time into
// the directory of another, or its own: restored files have no trace of later commands.
func restoreSetUps(from store.Sandbox, at time.Time, to store.Sandbox) error {
	text, err := setup.RecordAt(from, at)
	if err != nil {
		return err
	}
	return store.WriteFile(to.SetUp(), text)
}
