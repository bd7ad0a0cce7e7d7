package changes

import (
	"errors"
	"slices"

	"github.com/bothy-dev/bothy/internal/clone"
	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/review"
	"github.com/bothy-dev/bothy/internal/review/apply"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/workspace"
	"github.com/bothy-dev/bothy/spec"
)

// Reviewed returns the workspaces of a sandbox whose changes wait for a review.
func (ws *Workspaces) Reviewed(sb *spec.Sandbox) ([]review.Workspace, error) {
	if err := sb.CheckBroken(); err != nil {
		return nil, err
	}
	if sb.Mode() == spec.WorkspaceClone {
		return nil, spec.Errorf(spec.ErrUsage, "sandbox %s works on its own clone: its commits are fetched, not applied", sb.Name).
			WithHint("bothy fetch %s, then for instance: git diff HEAD...bothy/%s, git merge bothy/%s", sb.Name, sb.Name, sb.Name)
	}
	if sb.Mode() != spec.WorkspaceReview {
		return nil, spec.Errorf(spec.ErrUsage, "sandbox %s writes to your files at once: there is nothing to review", sb.Name).
			WithHint("a sandbox is made for reviews: bothy create --workspace %s ...", spec.WorkspaceReview)
	}
	if err := hostpath.CheckShared(sb); err != nil {
		return nil, err
	}
	if err := ws.checkWhole(sb); err != nil {
		return nil, err
	}
	ws.finishApplies(sb)
	return review.Of(sb, ws.Store.Sandbox(sb.ID).Review), nil
}

// finishApplies finishes or undoes an apply that was killed, in each workspace. It leaves an apply
// alone that is at work.
func (ws *Workspaces) finishApplies(sb *spec.Sandbox) {
	d := ws.Store.Sandbox(sb.ID)
	list := review.Of(sb, d.Review)
	if !slices.ContainsFunc(list, apply.Interrupted) {
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
		ws.report("what an interrupted apply began is not finished: %v", err)
	}
}

func recoverAll(list []review.Workspace) error {
	var errs []error
	for _, w := range list {
		errs = append(errs, apply.Recover(w))
	}
	return errors.Join(errs...)
}

// Pending reports whether a sandbox may have changes that are neither applied nor discarded,
// commits among them, or work in a clone that was not fetched. It is also true if that cannot be
// told: the sandbox is broken, its files are half of a checkpoint, or its directories do not
// answer.
func (ws *Workspaces) Pending(sb *spec.Sandbox) bool {
	if sb.Broken != "" {
		return true
	}
	if hostpath.CheckSources(sb) != nil || ws.checkWhole(sb) != nil {
		return true
	}
	ws.finishApplies(sb)
	for _, w := range review.Of(sb, ws.Store.Sandbox(sb.ID).Review) {
		list, err := w.Changes()
		if err != nil || slices.ContainsFunc(list, review.Change.Matters) {
			return true
		}
	}
	return ws.CloneWork(sb) != clone.NoWork
}

// CloneWork returns the work in the clones of a sandbox that the host may not have.
func (ws *Workspaces) CloneWork(sb *spec.Sandbox) (work clone.Work) {
	for _, c := range ws.clones(sb) {
		work = max(work, c.Pending())
	}
	return work
}

// Apply brings changes to the host. Applied changes leave the layer at once or, if the sandbox
// runs, before its next start: the directories of a mounted overlay must not be touched.
func (ws *Workspaces) Apply(sb *spec.Sandbox, w review.Workspace, orders []apply.Order) ([]apply.Outcome, error) {
	var done []apply.Outcome
	err := ws.reviewing(sb, func(stopped bool) (err error) {
		done, err = apply.Orders(w, orders, stopped)
		return err
	})
	return done, err
}

// Discard throws changes away. The sandbox must not run.
func (ws *Workspaces) Discard(sb *spec.Sandbox, w review.Workspace, changes []review.Change) ([]apply.Outcome, error) {
	var done []apply.Outcome
	err := ws.discarding(sb, func() (err error) {
		done, err = apply.Discard(w, changes)
		return err
	})
	return done, err
}

// DiscardAll throws all changes away, however many. The sandbox must not run.
func (ws *Workspaces) DiscardAll(sb *spec.Sandbox, w review.Workspace) error {
	return ws.discarding(sb, func() error { return apply.DiscardAll(w) })
}

func (ws *Workspaces) discarding(sb *spec.Sandbox, do func() error) error {
	return ws.reviewing(sb, func(stopped bool) error {
		if !stopped {
			return spec.Errorf(spec.ErrConflict, "sandbox %s runs: nothing can be taken away from under it", sb.Name).
				WithHint("stop it first: bothy stop %s", sb.Name)
		}
		return do()
	})
}

// CheckReviewed refuses a directory that cannot have a layer over it: it contains the layer itself,
// or directories that are not on a disk.
func (ws *Workspaces) CheckReviewed(sb *spec.Sandbox) error {
	rules := workspace.Rules{State: ws.Store.Path()}
	for _, m := range sb.Workspaces {
		if sb.Reviews(m) && len(rules.HiddenNames(m)) > 0 {
			return spec.Errorf(spec.ErrUsage, "changes in %s cannot be reviewed: it contains Bothy's state directory, or a view of the kernel", m.Source).
				WithHint("share a directory below, or set BOTHY_HOME to one outside of the workspace")
		}
	}
	return nil
}

// reviewing calls do while no other command applies or discards. If the sandbox does not run, it
// cannot start meanwhile.
func (ws *Workspaces) reviewing(sb *spec.Sandbox, do func(stopped bool) error) error {
	d := ws.Store.Sandbox(sb.ID)
	mine, err := store.WaitLock(d.ReviewLock())
	if err != nil {
		return err
	}
	defer mine.Unlock()
	if err := ws.checkWhole(sb); err != nil { // a restore holds this lock, unless it was killed
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
