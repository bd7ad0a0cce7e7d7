package changes

import (
	"context"
	"errors"
	"time"

	"github.com/bothy-dev/bothy/internal/clone"
	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/review"
	"github.com/bothy-dev/bothy/internal/review/beneath"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// clones returns the clones of a sandbox.
func (ws *Workspaces) clones(sb *spec.Sandbox) []clone.Clone {
	return clone.Of(sb, ws.Store.Sandbox(sb.ID).Clone)
}

// CheckCloned checks that git references can contain the sandbox's name.
func CheckCloned(sb *spec.Sandbox) error {
	if sb.Mode() != spec.WorkspaceClone {
		return nil
	}
	if err := clone.CheckName(sb.Name); err != nil {
		return spec.Errorf(spec.ErrUsage, "git references cannot contain the sandbox name %q: %w", sb.Name, err).
			WithHint("choose another with --name")
	}
	return nil
}

// cloneNotice is how long a clone takes before the user is told.
const cloneNotice = 2 * time.Second

// MakeClones returns the step of a sandbox's creation that makes its clones.
func (ws *Workspaces) MakeClones(ctx context.Context, sb *spec.Sandbox) func(store.Sandbox) error {
	return func(d store.Sandbox) error {
		all := clone.Of(sb, d.Clone)
		if len(all) == 0 {
			return nil
		}
		paths, err := hostpath.Load(ws.Store)
		if err != nil {
			return err
		}
		seen := map[string]string{}
		for _, c := range all {
			patience := time.AfterFunc(cloneNotice, func() { ws.report("cloning %s", c.Source) })
			made, err := clone.Make(ctx, paths, c.Source, c.Dir)
			patience.Stop()
			if err != nil {
				return err
			}
			rec, err := c.Record()
			if err != nil {
				return err
			}
			if other := seen[rec.Git]; other != "" {
				return spec.Errorf(spec.ErrUsage, "%s and %s belong to one repository: fetches from their clones would have the same names", other, c.Source).
					WithHint("make a sandbox for each")
			}
			seen[rec.Git] = c.Source
			ws.tellClone(c, made)
		}
		return nil
	}
}

// tellClone tells the user at which commit a clone is, and which parts it lacks.
func (ws *Workspaces) tellClone(c clone.Clone, made *clone.Made) {
	at := made.Commit[:12]
	if made.Branch != "" {
		at = made.Branch + " at " + at
	}
	ws.report("cloned %s: %s; without uncommitted files", c.Source, at)
	if made.Submodules > 0 {
		ws.report("%s empty inside; there: git submodule update --init", spec.FormatCount(made.Submodules, "submodule"))
	}
	if made.Pointers > 0 {
		ws.report("%s kept by git LFS, and only a pointer inside; there: git lfs pull", spec.FormatCount(made.Pointers, "file"))
	}
}

// Cloned returns the repositories from which a sandbox's commits can be fetched. These are its
// clones or, if its changes are reviewed, the repositories with its layers over them.
func (ws *Workspaces) Cloned(sb *spec.Sandbox) ([]clone.Clone, error) {
	if err := sb.CheckBroken(); err != nil {
		return nil, err
	}
	if err := hostpath.CheckSources(sb); err != nil {
		return nil, err
	}
	switch sb.Mode() {
	case spec.WorkspaceClone:
		return ws.clones(sb), nil
	case spec.WorkspaceReview:
		return ws.repositories(sb)
	}
	return nil, spec.Errorf(spec.ErrUsage, "sandbox %s works on your files, not on a clone: there is nothing to fetch", sb.Name).
		WithHint("a sandbox is made with a clone: bothy create --workspace %s ...", spec.WorkspaceClone)
}

// repositories returns the repositories among the reviewed workspaces.
func (ws *Workspaces) repositories(sb *spec.Sandbox) (list []clone.Clone, err error) {
	if err := clone.CheckName(sb.Name); err != nil {
		return nil, spec.Errorf(spec.ErrUsage, "git references cannot contain the sandbox name %q: %w", sb.Name, err)
	}
	lock, err := store.WaitLock(ws.Store.Sandbox(sb.ID).CloneLock())
	if err != nil {
		return nil, err
	}
	defer lock.Unlock()
	var errs []error
	for i, m := range sb.Workspaces {
		if !sb.Reviews(m) {
			continue
		}
		c := clone.Clone{Mount: m, Dir: ws.Store.Sandbox(sb.ID).Clone(i)}
		if err := c.Adopt(); err != nil {
			errs = append(errs, &spec.Error{Op: "find the repository of " + m.Source, Err: err, Hint: spec.Hint(err)})
			continue
		}
		list = append(list, c)
	}
	if len(list) > 0 {
		return list, nil // a directory without a repository has no commits
	}
	return nil, errors.Join(errs...)
}

// written returns the paths of a reviewed workspace at which the sandbox has changes.
func (ws *Workspaces) written(sb *spec.Sandbox, source string) (paths []string, err error) {
	for _, w := range review.Of(sb, ws.Store.Sandbox(sb.ID).Review) {
		if w.Source != source {
			continue
		}
		list, err := w.Changes()
		if err != nil {
			return nil, err
		}
		for _, c := range list {
			// A directory that leads to another change, or has another mode, has files of the host in it.
			if !c.Implied && (c.Kind != review.Mode || c.New.Form != beneath.Directory) {
				paths = append(paths, c.Path)
			}
		}
	}
	return paths, nil
}

// Fetch brings the commits of a sandbox into the repository that was cloned. Concurrent calls take
// turns.
func (ws *Workspaces) Fetch(ctx context.Context, sb *spec.Sandbox, c clone.Clone, inside clone.Inside, o clone.Order) (*clone.Report, error) {
	lock, err := store.WaitLock(ws.Store.Sandbox(sb.ID).CloneLock())
	if err != nil {
		return nil, err
	}
	defer lock.Unlock()
	if sb.Mode() == spec.WorkspaceClone { // a start would finish the restore, and wait for this lock
		if err := ws.checkWhole(sb); err != nil {
			return nil, err
		}
	}
	if o.Paths, err = hostpath.Load(ws.Store); err != nil {
		return nil, err
	}
	o.Sandbox, o.Moved = sb.Name, sb.Mode() == spec.WorkspaceReview && len(o.Branches) == 0
	if sb.Mode() == spec.WorkspaceReview {
		o.Written = func() ([]string, error) { return ws.written(sb, c.Source) }
	}
	return c.Fetch(ctx, inside, o)
}
