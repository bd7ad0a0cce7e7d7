package clone

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/bothy-dev/bothy/internal/gitdir"
	"github.com/bothy-dev/bothy/spec"
)

// Repository is a repository of the user's with files checked out.
type Repository struct {
	Dir string // its files
	Git string // shared by all working trees: objects, references, configuration
	own string // of this working tree: HEAD. Equals Git for the main one
}

// Locate finds the repository whose files are in a directory. It follows a pointer elsewhere only
// if the target points back: a sandbox that could once write to the directory may have made it
// point to another repository.
func Locate(dir string) (*Repository, error) {
	at := filepath.Join(dir, ".git")
	info, err := os.Lstat(at)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, errNoRepository(dir)
	case err != nil:
		return nil, &spec.Error{Op: "look for a repository", Err: err}
	case info.IsDir():
		r := &Repository{Dir: dir, Git: at, own: at}
		return r, r.checkFormat()
	case info.Mode().IsRegular():
		return linked(dir, at)
	}
	return nil, spec.Errorf(spec.ErrDenied, "%s is neither a directory nor a file", at).
		WithHint("share a clone of the repository: git clone %s ELSEWHERE", dir)
}

// errNoRepository returns the error and its hint for a directory that has no repository of its own.
func errNoRepository(dir string) error {
	if gitdir.IsGitDir(dir) {
		return spec.Errorf(spec.ErrUsage, "%s is a bare repository: it has no files to work on", dir).
			WithHint("share a clone of it: git clone %s ELSEWHERE", dir)
	}
	for d := filepath.Dir(dir); ; d = filepath.Dir(d) {
		if _, err := os.Lstat(filepath.Join(d, ".git")); err == nil {
			return spec.Errorf(spec.ErrUsage, "%s is a part of the repository %s: only all of one can be cloned", dir, d).
				WithHint("name the repository, and where to begin: --workspace %s --workdir %s AGENT %s", spec.WorkspaceClone, dir, d)
		}
		if d == "/" {
			break
		}
	}
	return spec.Errorf(spec.ErrUsage, "%s is not a git repository: there is nothing to clone", dir).
		WithHint("make it one (git init, git add, git commit), or use --workspace %s", spec.WorkspaceReview)
}

// linked finds the repository of a further working tree, made by git worktree add.
func linked(dir, at string) (*Repository, error) {
	astray := func(why string) error {
		return spec.Errorf(spec.ErrDenied, "%s is a file, and %s", at, why).
			WithHint("share a clone of the repository: git clone %s ELSEWHERE", dir)
	}
	text, err := gitdir.Pointer(at, dir, "gitdir: ")
	if err != nil {
		return nil, astray("cannot be read: " + err.Error())
	}
	own, err := filepath.EvalSymlinks(text)
	if err != nil {
		return nil, astray("its target does not exist")
	}
	common := filepath.Dir(filepath.Dir(own))
	back, err := gitdir.Pointer(filepath.Join(own, "gitdir"), own, "")
	if err != nil || back != at || filepath.Base(filepath.Dir(own)) != "worktrees" {
		return nil, astray("its target " + own + " does not lead back as that of a working tree does")
	}
	if shared, err := gitdir.Pointer(filepath.Join(own, "commondir"), own, ""); err != nil || shared != common {
		return nil, astray("its target " + own + " is not a part of a repository")
	}
	r := &Repository{Dir: dir, Git: common, own: own}
	return r, r.checkFormat()
}

// checkFormat fails if the repository has a format that this package cannot read and write.
func (r *Repository) checkFormat() error {
	if _, err := os.Lstat(filepath.Join(r.Git, "reftable")); err == nil {
		return spec.Errorf(spec.ErrUsage, "%s keeps its references as a reftable, which is not understood", r.Git).
			WithHint("git -C %s refs migrate --ref-format=files", r.Dir)
	}
	for _, name := range []string{"objects", "refs"} {
		info, err := os.Lstat(filepath.Join(r.Git, name))
		if err != nil {
			return spec.Errorf(spec.ErrUsage, "%s is not a git repository: %w", r.Git, err).
				WithHint("git -C %s fsck tells more; or use --workspace %s", r.Dir, spec.WorkspaceReview)
		}
		if !info.IsDir() {
			return spec.Errorf(spec.ErrDenied, "%s in %s is not a directory", name, r.Git).
				WithHint("share a clone of the repository: git clone %s ELSEWHERE", r.Dir)
		}
	}
	return nil
}

// objects returns the directory of its objects.
func (r *Repository) objects() string { return filepath.Join(r.Git, "objects") }

// checkAlone refuses a repository that borrows the objects of another, in git's way or by links. The
// copy must contain only this repository's objects, even if an attacker could write to its
// references.
func (r *Repository) checkAlone() error {
	for _, dir := range []string{".", "info", "pack"} {
		entries, err := os.ReadDir(filepath.Join(r.objects(), dir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return &spec.Error{Op: "look at the objects of " + r.Dir, Err: err}
		}
		for _, e := range entries {
			if e.Type()&fs.ModeSymlink != 0 {
				return spec.Errorf(spec.ErrDenied, "%s is a link, which git does not make", filepath.Join(r.objects(), dir, e.Name())).
					WithHint("look at where it leads; or share a clone of the repository: git clone %s ELSEWHERE", r.Dir)
			}
		}
	}
	file := filepath.Join(r.objects(), "info", "alternates")
	info, err := os.Lstat(file)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode().IsRegular() && info.Size() == 0 {
		return nil
	}
	return spec.Errorf(spec.ErrUsage, "%s borrows objects of another repository (%s)", r.Dir, file).
		WithHint("if that is meant, give it its own: git -C %s repack -a -d && rm %s", r.Dir, file)
}
