package engine

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

// maxBeneath is how many paths are named that were changed.
const maxBeneath = 5

// clockStep is more than the steps of the clock that files are dated by.
const clockStep = 20 * time.Millisecond

// ChangedBeneath names files of the host that a sandbox sees and no checkpoint of it holds, and
// that were changed since a time: those below what it has written over a workspace that is
// reviewed, and those that it only reads. It goes by the time that nobody can set. Where only
// names came or went it is the directory that is named.
func (e *Engine) ChangedBeneath(sb *spec.Sandbox, since time.Time) (list []string, err error) {
	rules := workspace.Rules{State: e.Store.Path()}
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

// changedBelow names what was changed since a time in a directory, or a file.
func changedBelow(root string, hidden []string, since time.Time) ([]string, error) {
	var files, dirs []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission): // it went just now; nobody inside can read it either
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
