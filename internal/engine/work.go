package engine

import (
	"slices"
	"strconv"
	"strings"

	"github.com/bothy-dev/bothy/internal/checkpoint"
	"github.com/bothy-dev/bothy/internal/review"
	"github.com/bothy-dev/bothy/spec"
)

// WorkChanges tells what was done to the project between two checkpoints of a sandbox, from
// nothing if the first has no number. By is who did it just now: the sandbox itself, or one that
// has handed the second in. What git notes down about files that nobody changed is not of it, nor
// what the layer over a workspace has as the host has it: the first write to a file copies it
// there, whatever is written.
func (e *Engine) WorkChanges(sb, by *spec.Sandbox, from, to checkpoint.Point) ([]checkpoint.Change, error) {
	list, err := e.CheckpointChanges(sb, from, to)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(c checkpoint.Change) bool {
		return !isWork(c.Tree) || PlaceOf(sb, c) == "" || isIndex(c.Path)
	})
	layers := review.Of(by, e.Store.Sandbox(by.ID).Review)
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

// isIndex tells the file in which git keeps what it saw of others, such as their inodes: even
// git status writes it.
func isIndex(path string) bool { return strings.HasSuffix("/"+path, "/.git/index") }

// withoutCopies leaves out what came into a layer and is as the host has it.
func withoutCopies(list []checkpoint.Change, tree string, layer review.Workspace) ([]checkpoint.Change, error) {
	came := func(c checkpoint.Change) bool { return c.Tree == tree && c.Kind == checkpoint.Added }
	inside := func(c checkpoint.Change) string { return strings.TrimPrefix(c.Path, "up/") }
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
	return slices.DeleteFunc(list, func(c checkpoint.Change) bool { return came(c) && !other[inside(c)] }), nil
}
