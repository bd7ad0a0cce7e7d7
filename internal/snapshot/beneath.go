package snapshot

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/bothy-dev/bothy/internal/workspace"
	"github.com/bothy-dev/bothy/spec"
)

// maxBeneath is how many changed paths are named at most.
const maxBeneath = 5

// clockStep is longer than a tick of the clock that dates files.
const clockStep = 20 * time.Millisecond

// ChangedBeneath names files of the host that a sandbox sees, that no checkpoint of it holds, and
// that changed since a given time. These are the files below the layer of a reviewed workspace, and
// the files that the sandbox only reads. It goes by the change time (ctime), which no program can
// set. If only names were added or removed, it names the directory.
func (s *Snapshots) ChangedBeneath(sb *spec.Sandbox, since time.Time) (list []string, err error) {
	rules := workspace.Rules{State: s.engine.Store.Path()}
	for _, m := range sb.Workspaces {
		if !sb.Reviews(m) && !m.ReadOnly {
			continue
		}
		var hidden []string
		for _, rel := range hiddenIn(rules, m) {
			hidden = append(hidden, filepath.Join(m.Source, rel))
		}
		found, err := changedBelow(m.Source, hidden, since.Add(-clockStep))
		if err != nil {
			return nil, err
		}
		list = append(list, found...)
	}
	return list[:min(len(list), maxBeneath)], nil
}

// changedBelow names the paths that changed since a given time in a directory, or a file.
func changedBelow(root string, hidden []string, since time.Time) ([]string, error) {
	var files, dirs []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission): // the file is just gone, or the sandbox cannot read it either
			return nil
		case err != nil:
			return err
		case slices.Contains(hidden, path):
			return fs.SkipDir
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		st, is := info.Sys().(*syscall.Stat_t)
		if !is || !time.Unix(st.Ctim.Unix()).After(since) {
			return nil
		}
		if d.IsDir() {
			dirs = append(dirs, path)
			return nil
		}
		if files = append(files, path); len(files) == maxBeneath {
			return fs.SkipAll
		}
		return nil
	})
	if len(files) > 0 {
		return files, err
	}
	return dirs, err
}
