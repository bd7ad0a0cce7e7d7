package launch

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/task"
	"github.com/bothy-dev/bothy/internal/task/book"
	"github.com/bothy-dev/bothy/spec"
)

// Checks what a new loop needs from its sandbox, its tasks and its reviewers, before the sandbox exists.

// checkSandbox checks that the plan fits the sandbox to create, and fills in where the loop works.
func (pl *LoopPlan) checkSandbox(sb *spec.Sandbox) error {
	p := &pl.Plan
	m := sb.Workspaces[0]
	if info, err := os.Stat(m.Source); err != nil || !info.IsDir() {
		return errors.Join(err, spec.Errorf(spec.ErrUsage, "%s is not a directory", m.Source))
	}
	root, err := hostpath.OpenRealRoot(m.Source)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, v := range sb.Volumes {
		if !v.ReadOnly {
			return spec.Errorf(spec.ErrUsage, "-v %s: what the agent writes there would count for the gates, and what they write would stay", v).
				WithHint("share it read-only (:ro), or give the sandbox a directory of its own: %s", spec.Option("private"))
		}
	}
	if p.Tasks != nil && sb.Tasks == spec.TasksWrite {
		return spec.Errorf(spec.ErrUsage, "%s write: the agent could close tasks itself, done or not", spec.Option("share-tasks")).
			WithHint("have it see them, or add new ones: %s add", spec.Option("share-tasks"))
	}
	for _, path := range p.Protect {
		if err := protectable(root, path); err != nil {
			return spec.Errorf(spec.ErrUsage, "%s %s: %w", spec.Option("protect"), path, err)
		}
	}
	p.Directory, p.Sandbox = m.Source, sb.ID
	if p.Tasks != nil {
		p.Tasks.Restore = len(hostpath.Live(sb)) == 0 // do not restore files that others share
	}
	return joinable(p, sb)
}

// protectable refuses a path that contains a link, which the agent could point elsewhere. A missing
// path is protected from being created.
func protectable(root *os.Root, path string) error {
	at := ""
	for name := range strings.SplitSeq(filepath.Clean(path), "/") {
		at = filepath.Join(at, name)
		info, err := root.Lstat(at)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return spec.Errorf(spec.ErrUsage, "%s is a symbolic link", at).WithHint("protect the file that it leads to")
		}
	}
	return nil
}

// joinable refuses a sandbox in which the work of several workers could not be merged.
func joinable(p *loopplan.Plan, sb *spec.Sandbox) error {
	if !p.Parallel() {
		return nil
	}
	switch sb.Mode() {
	case spec.WorkspaceLive:
		return spec.Errorf(spec.ErrUsage, "%s %d: all would write to %s at once, and over each other's work", spec.Option("parallel"), p.Workers, p.Directory).
			WithHint("give each a layer of its own, from which the work is brought together: %s %s", spec.Option("workspace"), spec.WorkspaceReview)
	case spec.WorkspaceClone:
		return spec.Errorf(spec.ErrUsage, "%s %d: clones are merged by git, and by a person who can answer its questions", spec.Option("parallel"), p.Workers).
			WithHint("have files be brought together: %s %s", spec.Option("workspace"), spec.WorkspaceReview)
	}
	if len(sb.Private) > 0 {
		return spec.Errorf(spec.ErrUsage, "%s %d: each worker would have its own %s, and their contents cannot be merged", spec.Option("parallel"), p.Workers, strings.Join(sb.Private, ", ")).
			WithHint("leave %s out, and the setting private", spec.Option("private"))
	}
	return nil
}

// checkTasks refuses a loop over tasks if none is ready, and fills in the project of the tasks.
func (l *Launcher) checkTasks(ctx context.Context, pl *LoopPlan) error {
	t := pl.Plan.Tasks
	if t == nil {
		return nil
	}
	b, err := book.NearestTo(ctx, l.Engine.Store.Tasks(), pl.Plan.Directory)
	if err != nil {
		return err
	}
	defer b.Close()
	t.Project = b.Project()
	if err := pl.addBoxes(ctx, b); err != nil {
		return err
	}
	g, err := b.View(ctx)
	if err == nil && len(g.Ready(&task.Filter{Labels: t.Labels}, task.ByPriority, time.Now().UTC())) == 0 {
		err = spec.Errorf(spec.ErrNotFound, "no task of %s is ready", t.Project).
			WithHint("bothy task add writes one down, bothy task ls tells what the others wait for")
	}
	return err
}

// addBoxes adds the boxes to the project's tasks. Existing tasks stay as they are: an agent may have ticked a
// box, and nothing has checked that.
func (pl *LoopPlan) addBoxes(ctx context.Context, s task.Store) error {
	if len(pl.Boxes) == 0 {
		return nil
	}
	return s.Change(ctx, func(g *task.Graph) error {
		_, err := g.Import(pl.Boxes, false, time.Now().UTC())
		return err
	})
}
