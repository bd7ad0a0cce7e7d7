package hostdirs

import (
	"path/filepath"

	"github.com/bothy-dev/bothy/internal/hostpath"
	runs "github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/workspace"
	"github.com/bothy-dev/bothy/spec"
)

// This file keeps the files of runs apart from sandboxes if they are in the user's directories. The
// host writes there by path, and an agent inside could put links in its way. A sandbox that could
// write there does not start while such files exist. No such files are made where such a sandbox
// exists.

// CheckRunFiles refuses a directory (by its real path) for the files of runs if a sandbox can write there.
func (d Directories) CheckRunFiles(dir string) error {
	if workspace.Within(d.Keepers.Store.Path(), dir) {
		return spec.Errorf(spec.ErrUsage, "%s is in the state directory", dir).WithHint("runs are there anyway: leave --into out")
	}
	list, err := d.Keepers.Store.List()
	if err != nil {
		return err
	}
	for _, sb := range list {
		for _, m := range hostpath.Live(sb) {
			if workspace.Within(m.Source, dir) {
				return spec.Errorf(spec.ErrDenied, "the sandbox %s can write to %s", sb.Name, dir).
					WithHint("name a directory that is not in what a sandbox writes to")
			}
		}
	}
	return nil
}

// CheckStart refuses to start a sandbox that could write where the files of a run are. Files that the
// user has removed count, too: files that the sandbox makes in their place would be taken for them.
func (d Directories) CheckStart(sb *spec.Sandbox) error {
	live := hostpath.Live(sb)
	if len(live) == 0 {
		return nil
	}
	list, err := runs.Elsewhere(d.Keepers.Store.Runs())
	if err != nil {
		return err
	}
	for _, files := range list {
		for _, m := range live {
			if workspace.Within(m.Source, filepath.Dir(files)) || workspace.Within(files, m.Source) {
				id := filepath.Base(files)
				return spec.Errorf(spec.ErrConflict, "the files of the flow %s are in %s, and it could write there", id, filepath.Dir(files)).
					WithHint("bothy flow rm %s, or have the sandbox work on another directory, read-only (:ro), or with --workspace %s", id, spec.WorkspaceReview)
			}
		}
	}
	return nil
}
