package review

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/spec"
)

// Selection is what somebody means by some paths.
type Selection struct{ paths []string }

// Select reads paths as they are printed or typed: absolute ones within the
// workspace, and, if it is the first, relative ones. Those that mean another
// workspace are left out; none at all mean everything, in every workspace.
func (w Workspace) Select(args []string, first bool) (s Selection, any bool, err error) {
	if len(args) == 0 {
		return s, true, nil
	}
	for _, arg := range args {
		if arg == "" { // no way to say "everything"
			return s, false, spec.Errorf(spec.ErrUsage, "a path is empty")
		}
		p, err := Unquote(arg)
		if err != nil {
			return s, false, spec.Errorf(spec.ErrUsage, "path %w", err)
		}
		if filepath.IsAbs(p) {
			rel, err := filepath.Rel(w.Source, filepath.Clean(p))
			if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
				continue
			}
			p = rel
		} else if !first {
			continue
		}
		if p = filepath.Clean(p); !filepath.IsLocal(p) {
			return s, false, spec.Errorf(spec.ErrUsage, "path %s leads out of the workspace", Quote(arg))
		}
		s.paths = append(s.paths, p)
	}
	return s, len(s.paths) > 0, nil
}

// Has tells whether a change is meant.
func (s Selection) Has(path string) bool {
	if len(s.paths) == 0 {
		return true
	}
	for _, p := range s.paths {
		if p == "." || path == p || strings.HasPrefix(path, p+"/") {
			return true
		}
	}
	return false
}

// Is tells whether a path itself is meant, and not only a directory above it.
func (s Selection) Is(path string) bool { return slices.Contains(s.paths, path) }

// Names tells whether a path, and not only a directory far above it, is meant: what
// git keeps counts only if git's directory was named.
func (s Selection) Names(c Change) bool {
	for _, p := range s.paths {
		if gitNamed(p) && (c.Path == p || strings.HasPrefix(c.Path, p+"/")) {
			return true
		}
	}
	return false
}

func gitNamed(p string) bool {
	_, ok := gitFlag(strings.ToLower(p), File)
	return ok
}

// Kept tells whether a change is of what git keeps for itself.
func (c Change) Kept() bool { return len(c.Flags) > 0 && c.Flags[0].Git }

// Matters tells whether work would be lost with a change. Of what git keeps, that is
// what its references say, and what is checked out, which may be a commit without one.
func (c Change) Matters() bool {
	dir, name := filepath.Split(strings.ToLower(c.Path))
	return !c.Kept() || strings.Contains(dir, "/refs/") || name == "packed-refs" || name == "head" && filepath.Base(dir) != "logs"
}

// Pick takes the changes that are meant out of a list. What git keeps is left out
// unless it was named; how much that is, is told.
func (s Selection) Pick(list []Change) (picked []Change, kept int) {
	for _, c := range list {
		switch {
		case !s.Has(c.Path):
		case c.Kept() && !s.Names(c):
			kept++
		default:
			picked = append(picked, c)
		}
	}
	return picked, kept
}
