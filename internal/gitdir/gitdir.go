// Package gitdir finds a directory's git files if they are outside of it.
package gitdir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/bothy-dev/bothy/internal/store"
)

// Kind is the reason why git's files are elsewhere.
type Kind int

// Kinds of places.
const (
	Worktree  Kind = iota // an additional working tree, made by git worktree add
	Submodule             // of a repository above it
	Part                  // a part of a repository's files
	Astray                // it leads elsewhere, and nothing there leads back
)

// Place is the location of git's files.
type Place struct {
	Kind Kind
	Dir  string // the directory that git needs to work: its own, or all of the repository's files
}

// Find locates git's files for a directory. It returns nil if they are within the directory, or if the
// directory is not in a repository.
//
// A sandbox that once could write to the directory may have pointed it at another repository. So its
// target counts only if that points back.
func Find(dir string) (*Place, error) {
	at := filepath.Join(dir, ".git")
	info, err := os.Lstat(at)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return findAbove(dir), nil
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, nil
	case info.Mode()&fs.ModeSymlink != 0:
		real, err := filepath.EvalSymlinks(at)
		if err != nil || within(dir, real) {
			return nil, nil // the target is not on the host, or is shared along with the directory
		}
		return &Place{Astray, real}, nil
	}
	text, err := Pointer(at, dir, "gitdir: ")
	if err != nil {
		return nil, err
	}
	own, err := filepath.EvalSymlinks(text)
	if err != nil || within(dir, own) {
		return nil, nil
	}
	return judgeTarget(dir, own), nil
}

// judgeTarget judges the git directory that a file leads to.
func judgeTarget(dir, own string) *Place {
	common := filepath.Dir(filepath.Dir(own))
	if back, err := Pointer(filepath.Join(own, "gitdir"), own, ""); err == nil && back == filepath.Join(dir, ".git") && filepath.Base(filepath.Dir(own)) == "worktrees" {
		if shared, err := Pointer(filepath.Join(own, "commondir"), own, ""); err == nil && shared == common && IsGitDir(common) {
			return &Place{Worktree, common}
		}
	}
	if tree := worktreeOf(own); tree == dir && IsGitDir(own) && strings.Contains(own, "/.git/modules/") {
		return &Place{Submodule, own}
	}
	return &Place{Astray, own}
}

// findAbove finds the repository that contains a directory.
func findAbove(dir string) *Place {
	if IsGitDir(dir) { // a bare one
		return nil
	}
	for dir != "/" {
		dir = filepath.Dir(dir)
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return &Place{Part, dir}
		}
	}
	return nil
}

// IsGitDir reports whether git would use a directory as its own.
func IsGitDir(dir string) bool {
	for _, name := range []string{"HEAD", "objects", "refs"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

// Bounds of files that are read.
const (
	maxPointer = 8 << 10
	maxConfig  = 1 << 20
)

// Pointer reads a path, relative to a directory, from a file.
func Pointer(file, dir, prefix string) (string, error) {
	data, err := store.ReadFile(file, 0, maxPointer)
	if err != nil {
		return "", err
	}
	path, ok := strings.CutPrefix(strings.TrimRight(string(data), "\r\n"), prefix)
	if !ok || path == "" || strings.ContainsAny(path, "\n\x00") {
		return "", errors.New("it has no path in it")
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	return filepath.Clean(path), nil
}

// worktreeOf reads core.worktree from the configuration of a git directory, as git writes it for
// submodules. It is empty if not set.
func worktreeOf(own string) string {
	data, err := store.ReadFile(filepath.Join(own, "config"), 0, maxConfig)
	if err != nil {
		return ""
	}
	section, tree := "", ""
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			section = line
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if ok && section == "[core]" && strings.EqualFold(strings.TrimSpace(key), "worktree") {
			tree = strings.Trim(strings.TrimSpace(value), `"`)
		}
	}
	if tree != "" && !filepath.IsAbs(tree) {
		tree = filepath.Join(own, tree)
	}
	if real, err := filepath.EvalSymlinks(tree); err == nil {
		return real
	}
	return ""
}

func within(dir, path string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }
