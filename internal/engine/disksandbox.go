package engine

import (
	"errors"
	"io/fs"
	"time"

	"github.com/bothy-dev/bothy/internal/clone"

	"github.com/bothy-dev/bothy/internal/build/cache"
	"github.com/bothy-dev/bothy/internal/quota"
	"github.com/bothy-dev/bothy/internal/review"
	"github.com/bothy-dev/bothy/internal/rootfs"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// justNow is how long a sandbox is kept after its last use, although no run needs it.
const justNow = 2 * time.Minute

// diskSandboxes are the sandboxes as parts of the disk's use.
type diskSandboxes struct{ *Engine }

// listItems returns the size of each sandbox, and why it is kept.
func (e diskSandboxes) listItems(m *quota.Meter) ([]rootfs.Item, error) {
	infos, err := e.List()
	if err != nil {
		return nil, err
	}
	claimed := e.claimed()
	var items []rootfs.Item
	for _, i := range infos {
		for _, w := range review.Of(i.Spec, e.Store.Sandbox(i.Spec.ID).Review) {
			m.Leave(w.Layer.Idle()) // only root may look into it
		}
		it := rootfs.Item{Kind: rootfs.KindSandbox, Name: i.Spec.Name, Agent: i.Spec.Agent, Bytes: m.Add(e.Store.Sandbox(i.Spec.ID).Dir), Used: i.Spec.CreatedAt}
		if i.Status.UsedAt != nil {
			it.Used = *i.Status.UsedAt
		}
		if i.Status.State != spec.Stopped {
			it.Running, it.Kept = true, "it runs"
		} else if it.Kept = e.spared(i.Spec, claimed); it.Kept == "" && time.Since(it.Used) < justNow {
			it.Kept, it.Fresh = "it was used just now", true
		}
		it.Erase = func() error { return e.removeStopped(i.Spec) }
		items = append(items, it)
	}
	return items, nil
}

// claims are the sandboxes that runs need, by ID, each with its run.
type claims struct {
	by     map[string]string
	unread error // why it is not known which sandboxes some runs need
}

func (e diskSandboxes) claimed() (c claims) {
	if e.Claims != nil {
		c.by, c.unread = e.Claims()
	}
	return c
}

// spared returns why a stopped sandbox must not be removed as unneeded, or the empty string if it
// may be.
func (e diskSandboxes) spared(sb *spec.Sandbox, c claims) string {
	switch {
	case sb.Build != nil && cache.Running(sb.Build.Lock):
		return "its build runs"
	case store.IsLocked(e.Store.Sandbox(sb.ID).MakingLock()):
		return "it is being made"
	case c.by[sb.ID] != "":
		return "the run " + c.by[sb.ID] + " could go on with it"
	case e.Changes().Pending(sb):
		return "it " + e.unsaved(sb)
	case c.unread != nil:
		return "a run may need it that cannot be read: " + c.unread.Error()
	}
	return ""
}

// unsaved returns why [changes.Workspaces.Pending] reports a sandbox.
func (e diskSandboxes) unsaved(sb *spec.Sandbox) string {
	switch {
	case sb.Broken != "":
		return "is broken, and may have work in it"
	case e.Whole(sb) != nil:
		return "has files that are half of a checkpoint"
	case sb.Mode() == spec.WorkspaceClone && e.Changes().CloneWork(sb) == clone.InFiles:
		return "has files in its clone that are not committed"
	case sb.Mode() == spec.WorkspaceClone:
		return "has work in its clone that was not fetched"
	}
	return "has changes that are neither applied nor discarded"
}

// removeStopped removes a sandbox unless it runs, or is needed by now.
func (e diskSandboxes) removeStopped(sb *spec.Sandbox) error {
	d := e.Store.Sandbox(sb.ID)
	lock, err := store.TryLock(d.Lock())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // another command removed it
	case errors.Is(err, store.ErrLocked):
		return spec.Errorf(spec.ErrConflict, "sandbox %s was started meanwhile", sb.Name)
	case err != nil:
		return err
	}
	defer lock.Unlock()
	if why := e.spared(sb, e.claimed()); why != "" {
		return spec.Errorf(spec.ErrConflict, "sandbox %s stays: %s", sb.Name, why)
	}
	if _, err := e.release(sb, d, d.ReadStatus()); err != nil {
		return err
	}
	return e.eraseFiles(sb)
}
