package engine

import (
	"errors"
	"os"
	"slices"

	"github.com/bothy-dev/bothy/internal/clone"
	"github.com/bothy-dev/bothy/internal/review"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/workspace"
	"github.com/bothy-dev/bothy/spec"
)

// Reviewed returns the workspaces of a sandbox whose changes wait for a review.
func (e *Engine) Reviewed(sb *spec.Sandbox) ([]review.Workspace, error) {
	if sb.Broken != "" {
		return nil, BrokenError(sb)
	}
	if sb.Mode() == spec.WorkspaceClone {
		return nil, spec.Errorf(spec.ErrUsage, "sandbox %s works on a clone of its own: what it commits is fetched, not applied", sb.Name).
			WithHint("bothy fetch %s, then for instance: git diff HEAD...bothy/%s, git merge bothy/%s", sb.Name, sb.Name, sb.Name)
	}
	if sb.Mode() != spec.WorkspaceReview {
		return nil, spec.Errorf(spec.ErrUsage, "sandbox %s writes to your files at once: there is nothing to review", sb.Name).
			WithHint("a sandbox is made for reviews: bothy create --workspace %s ...", spec.WorkspaceReview)
	}
	if err := e.DirectoriesAnswer(sb); err != nil {
		return nil, err
	}
	if err := e.Whole(sb); err != nil {
		return nil, err
	}
	e.finishApplies(sb)
	return review.Of(sb, e.Store.Sandbox(sb.ID).Review), nil
}

// finishApplies finishes or undoes an apply that was killed, in each workspace. It leaves an apply
// alone that is at work.
func (e *Engine) finishApplies(sb *spec.Sandbox) {
	d := e.Store.Sandbox(sb.ID)
	list := review.Of(sb, d.Review)
	if !slices.ContainsFunc(list, review.Workspace.Interrupted) {
		return
	}
	lock, err := store.TryLock(d.ReviewLock())
	if errors.Is(err, store.ErrLocked) {
		return
	}
	if err == nil {
		defer lock.Unlock()
		err = recoverAll(list)
	}
	if err != nil {
		e.say("what an interrupted apply began is not finished: %v", err)
	}
}

func recoverAll(list []review.Workspace) error {
	var errs []error
	for _, w := range list {
		errs = append(errs, w.Recover())
	}
	return errors.Join(errs...)
}

// Pending reports whether a sandbox may have changes that are neither applied nor discarded,
// commits among them, or work in a clone that was not fetched. It is also true if that cannot be
// told: the sandbox is broken, its files are half of a checkpoint, or its directories do not
// answer.
func (e *Engine) Pending(sb *spec.Sandbox) bool {
	if sb.Broken != "" {
		return true
	}
	if e.repositoriesAnswer(sb) != nil || e.Whole(sb) != nil {
		return true
	}
	e.finishApplies(sb)
	for _, w := range review.Of(sb, e.Store.Sandbox(sb.ID).Review) {
		list, err := w.Changes()
		if err != nil || slices.ContainsFunc(list, review.Change.Matters) {
			return true
		}
	}
	return slices.ContainsFunc(e.clones(sb), clone.Clone.Pending)
}

// Apply brings changes to the host. Applied changes leave the layer at once or, if the sandbox
// runs, before its next start: the directories of a mounted overlay must not be touched.
func (e *Engine) Apply(sb *spec.Sandbox, w review.Workspace, orders []review.Order) ([]review.Outcome, error) {
	var done []review.Outcome
	err := e.reviewing(sb, func(stopped bool) (err error) {
		done, err = w.Apply(orders, stopped)
		return err
	})
	return done, err
}

// Discard throws changes away. The sandbox must not run.
func (e *Engine) Discard(sb *spec.Sandbox, w review.Workspace, changes []review.Change) ([]review.Outcome, error) {
	var done []review.Outcome
	err := e.discarding(sb, func() (err error) {
		done, err = w.Discard(changes)
		return err
	})
	return done, err
}

// DiscardAll throws all changes away, however many. The sandbox must not run.
func (e *Engine) DiscardAll(sb *spec.Sandbox, w review.Workspace) error {
	return e.discarding(sb, w.DiscardAll)
}

func (e *Engine) discarding(sb *spec.Sandbox, do func() error) error {
	return e.reviewing(sb, func(stopped bool) error {
		if !stopped {
			return spec.Errorf(spec.ErrConflict, "sandbox %s runs: nothing can be taken away from under it", sb.Name).
				WithHint("stop it first: bothy stop %s", sb.Name)
		}
		return do()
	})
}

// checkReviewed refuses a directory that cannot have a layer over it: it contains the layer itself,
// or directories that are not on a disk.
func (e *Engine) checkReviewed(sb *spec.Sandbox) error {
	rules := workspace.Rules{State: e.Store.Path()}
	for _, m := range sb.Workspaces {
		if sb.Reviews(m) && len(rules.HiddenNames(m)) > 0 {
			return spec.Errorf(spec.ErrUsage, "changes in %s cannot be reviewed: Bothy's state directory, or what the kernel shows, lies in it", m.Source).
				WithHint("share a directory below, or set BOTHY_HOME to one outside of the workspace")
		}
	}
	return nil
}

// reviewing calls do while no other command applies or discards. If the sandbox does not run, it
// cannot start meanwhile.
func (e *Engine) reviewing(sb *spec.Sandbox, do func(stopped bool) error) error {
	d := e.Store.Sandbox(sb.ID)
	mine, err := store.WaitLock(d.ReviewLock())
	if err != nil {
		return err
	}
	defer mine.Unlock()
	if err := e.Whole(sb); err != nil { // a restore holds this lock, unless it was killed
		return err
	}
	lock, err := store.TryLock(d.Lock())
	switch {
	case errors.Is(err, store.ErrLocked):
		return do(false)
	case err != nil:
		return err
	}
	defer lock.Unlock()
	return do(true)
}

// erase removes the files of a sandbox that has ended. First it removes the files that a killed
// apply left in its workspaces: their record goes with the sandbox. The caller holds the sandbox's
// lock.
func (e *Engine) erase(sb *spec.Sandbox) error {
	if err := e.tidyWorkspaces(sb); err != nil {
		e.say("files of an interrupted apply, named .bothy-apply-..., may be left in the workspace: %v", err)
	}
	return e.Store.Remove(sb.ID)
}

func (e *Engine) tidyWorkspaces(sb *spec.Sandbox) error {
	if sb.Broken != "" || sb.Mode() != spec.WorkspaceReview {
		return nil
	}
	if err := e.DirectoriesAnswer(sb); err != nil {
		return err
	}
	d := e.Store.Sandbox(sb.ID)
	lock, err := store.WaitLock(d.ReviewLock())
	if err != nil {
		return err
	}
	defer lock.Unlock()
	return recoverAll(review.Of(sb, d.Review))
}

// readyLayers makes the layers over a sandbox's workspaces ready to be mounted. The caller holds
// the sandbox's lock.
func (e *Engine) readyLayers(sb *spec.Sandbox) error {
	d := e.Store.Sandbox(sb.ID)
	list := review.Of(sb, d.Review)
	if len(list) == 0 {
		return nil
	}
	lock, err := store.WaitLock(d.ReviewLock())
	if err != nil {
		return err
	}
	defer lock.Unlock()
	for _, w := range list {
		if err := os.MkdirAll(w.Layer.Dir, 0o700); err != nil {
			return err
		}
		if err := w.Settle(); err != nil {
			return &spec.Error{Class: spec.ErrSandbox, Op: "put the changes in " + w.Source + " in order", Err: err, Hint: spec.Hint(err)}
		}
		if err := w.Prepare(); err != nil {
			return err
		}
	}
	return nil
}

// PrepareLayers prepares the layers over the workspaces of a stopped sandbox as a start does, and
// records the host's names below them. The caller holds the sandbox's lock.
func (e *Engine) PrepareLayers(sb *spec.Sandbox) error {
	if err := e.readyLayers(sb); err != nil {
		return err
	}
	e.rememberNames(sb)
	return nil
}

// rememberNames records the host's names below a sandbox's layers. An error does not stop a start:
// a name that is not recorded is a conflict later.
func (e *Engine) rememberNames(sb *spec.Sandbox) {
	d := e.Store.Sandbox(sb.ID)
	list := review.Of(sb, d.Review)
	if len(list) == 0 {
		return
	}
	lock, err := store.WaitLock(d.ReviewLock())
	if err != nil {
		return
	}
	defer lock.Unlock()
	for _, w := range list {
		_ = w.Remember()
	}
}
