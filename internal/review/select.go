package review

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/review/quote"
	"github.com/bothy-dev/bothy/internal/review/risk"
	"github.com/bothy-dev/bothy/spec"
)

// Selection is the set of changes that a user selects by paths.
type Selection struct{ paths []string }

// Select reads paths as they are printed or typed: absolute paths within the workspace, and, if it is
// the first, relative paths. Paths of another workspace are left out. If no paths are given, everything
// in every workspace is selected.
func (w Workspace) Select(args []string, first bool) (s Selection, any bool, err error) {
	if len(args) == 0 {
		return s, true, nil
	}
	for _, arg := range args {
		if arg == "" { // no way to say "everything"
			return s, false, spec.Errorf(spec.ErrUsage, "a path is empty")
		}
		p, err := quote.Parse(arg)
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
			return s, false, spec.Errorf(spec.ErrUsage, "path %s leads out of the workspace", quote.Path(arg))
		}
		s.paths = append(s.paths, p)
	}
	return s, len(s.paths) > 0, nil
}

// Has reports whether a change is selected.
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

// Is reports whether a path itself is selected, and not only a directory above it.
func (s Selection) Is(path string) bool { return slices.Contains(s.paths, path) }

// Names reports whether a path, and not only a directory far above it, is selected. Git's own
// files count only if git's directory was named.
func (s Selection) Names(c Change) bool {
	for _, p := range s.paths {
		if risk.InGit(p) && (c.Path == p || strings.HasPrefix(c.Path, p+"/")) {
			return true
		}
	}
	return false
}

// Kept reports whether a change is of git's own files.
func (c Change) Kept() bool { return len(c.Flags) > 0 && c.Flags[0].Git }

// Matters reports whether work would be lost with a change. In git's own files, that is the
// references and HEAD; HEAD may name a commit without a reference.
func (c Change) Matters() bool {
	dir, name := filepath.Split(strings.ToLower(c.Path))
	return !c.Kept() || strings.Contains(dir, "/refs/") || name == "packed-refs" || name == "head" && filepath.Base(dir) != "logs"
}

// Pick returns the selected changes of a list. It leaves out git's own files unless they were
// named, and returns how many it left out.
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

// InGit reports whether a path is a .git directory or inside one. git apply refuses a patch that
// has such a path.
func (c Change) InGit() bool {
	return slices.ContainsFunc(strings.Split(c.Path, "/"), func(name string) bool { return strings.EqualFold(name, ".git") })
}
