package launch

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/runstate"
	"github.com/bothy-dev/bothy/internal/workspace"
	"github.com/bothy-dev/bothy/spec"
)

// Handles flows whose files are in a directory of the user's, where rm removes them like any other
// files.

// settleInto creates the directory, and checks that no sandbox can write to it. It also clears the
// remains of runs that were deleted there.
func (l *Launcher) settleInto(ctx context.Context, pl *FlowPlan) error {
	e := l.Engine
	if pl.Into == "" {
		return nil
	}
	paths, err := e.Paths()
	if err == nil {
		pl.Into, err = filepath.Abs(pl.Into)
	}
	if err == nil && workspace.Within(e.Store.Path(), pl.Into) {
		err = e.Directories().CheckRunFiles(pl.Into)
	}
	if err == nil {
		err = beyond(paths, pl.Into)
	}
	if err != nil {
		return err
	}
	if err = os.MkdirAll(pl.Into, 0o700); err == nil {
		pl.Into, err = filepath.EvalSymlinks(pl.Into)
	}
	if err != nil {
		return &spec.Error{Class: spec.ErrUsage, Op: "make the directory for the runs", Err: err}
	}
	if err := e.Directories().CheckRunFiles(pl.Into); err != nil {
		return err
	}
	return l.clearGone(ctx, pl.Into)
}

// beyond refuses an absolute path, which need not exist, if it leads through a directory that a
// sandbox writes to. A program inside may have created a link on the way.
func beyond(paths *hostpath.Guard, dir string) error {
	for at := dir; ; at = filepath.Dir(at) {
		p, err := paths.Find(at)
		if errors.Is(err, fs.ErrNotExist) && at != "/" {
			continue // a missing directory cannot lead elsewhere
		}
		if err != nil {
			return err
		}
		if p.Top != "" {
			return spec.Errorf(spec.ErrDenied, "%s is in %s, which a sandbox writes to", dir, p.Top).
				WithHint("name a directory that is not in what a sandbox writes to")
		}
		return nil
	}
}

// writesInto refuses a sandbox of the flow that could write to the run's files.
func writesInto(dir string, sb *spec.Sandbox) error {
	for _, m := range hostpath.Live(sb) {
		if dir != "" && (workspace.Within(m.Source, dir) || workspace.Within(dir, m.Source)) {
			return spec.Errorf(spec.ErrUsage, "%s %s: the sandboxes of the flow write to %s", spec.Option("into"), dir, m.Source).WithHint("name a directory that is not shared with them")
		}
	}
	return nil
}

// clearGone removes the remains of flows whose files were deleted from a directory. It removes their
// sandboxes, except those with changes that wait for a person and those in use elsewhere.
func (l *Launcher) clearGone(ctx context.Context, dir string) error {
	list, err := run.ListOf(l.Engine.Store.Runs(), run.Flows)
	if err != nil {
		return err
	}
	for _, r := range list {
		if filepath.Dir(r.Dir()) != dir {
			continue
		}
		if err := r.Away(); err != nil {
			l.Note("%v: %s", err, spec.Hint(err))
		}
		if !r.Gone() {
			continue
		}
		of, err := runstate.Read(l.Engine, r)
		if err == nil {
			err = l.Remove(ctx, of)
		}
		if err != nil && !errors.Is(err, spec.ErrConflict) { // on a conflict another process runs it and will notice
			l.Note("the run %s is gone, for %s was removed, and something of it is left: %v", r.ID, r.Dir(), err)
		}
	}
	return nil
}
