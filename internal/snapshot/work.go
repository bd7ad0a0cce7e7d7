package snapshot

import (
	"slices"
	"strconv"
	"strings"

	"github.com/bothy-dev/bothy/internal/checkpoint"
	"github.com/bothy-dev/bothy/internal/checkpoint/merge"
	"github.com/bothy-dev/bothy/internal/review"
	"github.com/bothy-dev/bothy/spec"
)

// WorkChanges returns the changes to the project between two checkpoints of a sandbox. If the first
// has no number, it compares with nothing. by is the sandbox that did the work: sb itself, or one
// that has handed the second checkpoint in. WorkChanges leaves out git's notes about unchanged
// files. It also leaves out files of the layer over a workspace that equal the host's: the first
// write to a file copies it there, whatever is written.
func (s *Snapshots) WorkChanges(sb, by *spec.Sandbox, from, to checkpoint.Point) ([]merge.Change, error) {
	list, err := s.Changes(sb, from, to)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(c merge.Change) bool {
		return !isWork(c.Tree) || PlaceOf(sb, c) == "" || isIndex(c.Path)
	})
	layers := review.Of(by, s.directory(by).Review)
	for i, m := range by.Workspaces {
		if !by.Reviews(m) {
			continue
		}
		if list, err = withoutCopies(list, reviewTree+strconv.Itoa(i), layers[0]); err != nil {
			return nil, err
		}
		layers = layers[1:]
	}
	return list, nil
}

// isIndex reports whether a path is git's index, in which git caches facts about files, such as
// their inodes: even git status writes it.
func isIndex(path string) bool { return strings.HasSuffix("/"+path, "/.git/index") }

// withoutCopies leaves out files that came into a layer and equal the host's.
func withoutCopies(list []merge.Change, tree string, layer review.Workspace) ([]merge.Change, error) {
	came := func(c merge.Change) bool { return c.Tree == tree && c.Kind == merge.Added }
	inside := func(c merge.Change) string { return strings.TrimPrefix(c.Path, "up/") }
	var paths []string
	for _, c := range list {
		if came(c) {
			paths = append(paths, inside(c))
		}
	}
	paths, err := layer.Unlike(paths)
	if err != nil {
		return nil, err
	}
	other := map[string]bool{}
	for _, p := range paths {
		other[p] = true
	}
	return slices.DeleteFunc(list, func(c merge.Change) bool { return came(c) && !other[inside(c)] }), nil
}
