package changes

import (
	"os"

	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/review"
	"github.com/bothy-dev/bothy/internal/review/apply"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Tidy removes the files that a killed apply left in the workspaces of a sandbox, which is about to
// be removed with their record.
func (ws *Workspaces) Tidy(sb *spec.Sandbox) error {
	if sb.Broken != "" || sb.Mode() != spec.WorkspaceReview {
		return nil
	}
	if err := hostpath.CheckShared(sb); err != nil {
		return err
	}
	d := ws.Store.Sandbox(sb.ID)
	lock, err := store.WaitLock(d.ReviewLock())
	if err != nil {
		return err
	}
	defer lock.Unlock()
	return recoverAll(review.Of(sb, d.Review))
}

// Ready prepares the layers over a sandbox's workspaces for a start, which mounts them. The caller
// holds the sandbox's lock.
func (ws *Workspaces) Ready(sb *spec.Sandbox) error {
	d := ws.Store.Sandbox(sb.ID)
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
		if err := apply.Settle(w); err != nil {
			return &spec.Error{Class: spec.ErrSandbox, Op: "put the changes in " + w.Source + " in order", Err: err, Hint: spec.Hint(err)}
		}
		if err := w.Prepare(); err != nil {
			return err
		}
	}
	return nil
}

// RememberNames records the host's names below a sandbox's layers. An error does not stop a start:
// a name that is not recorded is a conflict later.
func (ws *Workspaces) RememberNames(sb *spec.Sandbox) {
	d := ws.Store.Sandbox(sb.ID)
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
