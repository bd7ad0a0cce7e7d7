package guest

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// placeholderText is the content of a placeholder. Git refuses to work in a worktree whose .git does
// not link to a git directory, and refuses to remove it. The file only has to exist for git to
// keep its records of the worktree.
const placeholderText = `This linked worktree is on the host and is not shared with the sandbox.
Bothy put this file here so that "git worktree prune" and "git gc" in the sandbox
do not delete the host's HEAD and index of the worktree.
`

// placeholders are the files that stand for linked worktrees of the host. Init makes them as a
// process inside, so it can reach nothing that programs inside could not.
type placeholders struct {
	mu sync.Mutex
	// made maps a placeholder to the directories that were made for it.
	made map[string][]string
}

// update makes missing placeholders, and removes those of unregistered worktrees.
// It goes on after an error and returns the first.
func (p *placeholders) update(q wire.Worktrees) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.made == nil {
		p.made = map[string][]string{}
	}
	var first error
	wanted := map[string]bool{}
	for _, dir := range q.GitDirs {
		places, err := registeredWorktrees(dir)
		for _, place := range places {
			wanted[place] = true
			err = errors.Join(err, p.ensure(place, q))
		}
		if first == nil {
			first = err
		}
	}
	if first != nil { // an unreadable worktree may be registered
		return first
	}
	for place := range p.made {
		if !wanted[place] {
			p.remove(place)
		}
	}
	return nil
}

// registeredWorktrees returns the paths of the .git files of a git directory's worktrees.
func registeredWorktrees(gitDir string) ([]string, error) {
	list := filepath.Join(gitDir, "worktrees")
	f, err := os.Open(list)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(wire.MaxWorktrees)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	var places []string
	for _, name := range names {
		if place, ok := readGitdir(filepath.Join(list, name)); ok {
			places = append(places, place)
		}
	}
	return places, nil
}

// readGitdir reads the path of a worktree's .git file, as git does: a path that may be relative to
// the directory that contains it.
func readGitdir(dir string) (place string, ok bool) {
	b, err := readRegular(filepath.Join(dir, "gitdir"), unix.PathMax)
	place = strings.TrimRight(string(b), "\r\n")
	if err != nil || place == "" || strings.ContainsRune(place, 0) {
		return "", false
	}
	if !filepath.IsAbs(place) {
		place = filepath.Join(dir, place)
	}
	place = filepath.Clean(place)
	return place, len(place) < unix.PathMax && filepath.Dir(place) != "/"
}

// readRegular reads a file of at most limit bytes, and never blocks.
func readRegular(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() || st.Size() > limit {
		return nil, errors.Join(err, fs.ErrInvalid)
	}
	return io.ReadAll(io.LimitReader(f, limit))
}

// ensure makes a placeholder if its path is free and belongs to the sandbox alone.
func (p *placeholders) ensure(place string, q wire.Worktrees) error {
	dir := filepath.Dir(place)
	st, err := os.Lstat(dir)
	there := err == nil
	if _, err := os.Lstat(place); err == nil {
		if isPlaceholder(place) && p.made[place] == nil { // made before init was started anew
			p.made[place] = []string{}
			if there && st.Mode().Perm() == placeholderDirMode {
				p.made[place] = []string{dir}
			}
		}
		return nil
	}
	if there && !q.Fresh || !isOwn(dir, q.Mounts) {
		return nil
	}
	made, err := makeDirs(dir)
	if err == nil {
		err = writePlaceholder(place)
	}
	if err == nil && !there {
		err = errors.Join(os.Chown(dir, 0, 0), os.Chmod(dir, placeholderDirMode))
	}
	p.made[place] = made
	return err
}

// makeDirs makes a directory and its missing parents, each with the owner of its own parent. It
// returns the directories that it made, the innermost first.
func makeDirs(dir string) (made []string, err error) {
	var missing []string
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(dir); err == nil || !errors.Is(err, fs.ErrNotExist) {
			break
		}
		missing = append(missing, dir)
	}
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return nil, err
	}
	for _, d := range slices.Backward(missing) {
		if err := os.Mkdir(d, 0o755); err != nil {
			return made, err
		}
		made = append([]string{d}, made...)
		if err := os.Lchown(d, int(st.Uid), int(st.Gid)); err != nil {
			return made, err
		}
	}
	return made, nil
}

// placeholderDirMode keeps an ordinary user's rm -rf from removing a placeholder.
const placeholderDirMode = 0o555

func writePlaceholder(place string) error {
	f, err := os.OpenFile(place, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o444)
	if err != nil {
		return err
	}
	_, err = f.WriteString(placeholderText)
	return errors.Join(err, f.Close())
}

func isPlaceholder(place string) bool {
	b, err := readRegular(place, int64(len(placeholderText)))
	return err == nil && string(b) == placeholderText
}

// remove removes a placeholder, and the directories that were made for it.
func (p *placeholders) remove(place string) {
	made := p.made[place]
	delete(p.made, place)
	if !isPlaceholder(place) {
		return
	}
	if len(made) > 0 {
		_ = os.Chmod(made[0], 0o755)
	}
	_ = os.Remove(place)
	for _, dir := range made {
		if os.Remove(dir) != nil {
			return // it contains something else
		}
	}
}

// isOwn reports whether a directory, which need not exist, is in a part of the file system that the
// host does not see.
func isOwn(dir string, mounts []wire.Place) bool {
	missing := ""
	for {
		real, err := filepath.EvalSymlinks(dir)
		if err == nil {
			dir = filepath.Join(real, missing)
			break
		}
		if !errors.Is(err, fs.ErrNotExist) || dir == "/" {
			return false
		}
		missing = filepath.Join(filepath.Base(dir), missing)
		dir = filepath.Dir(dir)
	}
	best := wire.Place{Path: "/", Own: true}
	for _, m := range mounts {
		if beneath(dir, m.Path) && len(m.Path) >= len(best.Path) {
			best = m
		}
	}
	return best.Own
}

func beneath(path, top string) bool {
	return path == top || strings.HasPrefix(path, strings.TrimSuffix(top, "/")+"/")
}

// makeNamedLinks makes links at the paths by which shared directories were named, and returns which of
// the paths lead there. Init makes them as a process inside, so it can reach nothing that
// programs inside could not.
func makeNamedLinks(named []spec.Named, mounts []wire.Place) []bool {
	led := make([]bool, len(named))
	for i, n := range named {
		led[i] = makeNamedLink(n, mounts) == nil
	}
	return led
}

// makeNamedLink makes one link, if its path is free and in a part that belongs to the sandbox alone. It
// returns an error unless the path leads to the target.
func makeNamedLink(n spec.Named, mounts []wire.Place) error {
	if !filepath.IsAbs(n.Path) || filepath.Clean(n.Path) != n.Path {
		return fs.ErrInvalid
	}
	if _, err := os.Lstat(n.Path); errors.Is(err, fs.ErrNotExist) {
		dir := filepath.Dir(n.Path)
		if !isOwn(dir, mounts) {
			return fs.ErrPermission
		}
		if _, err := makeDirs(dir); err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Stat(dir, &st); err != nil {
			return err
		}
		if err := os.Symlink(n.Target, n.Path); err != nil {
			return err
		}
		if err := os.Lchown(n.Path, int(st.Uid), int(st.Gid)); err != nil {
			return err
		}
	}
	at, err := os.Stat(n.Path)
	if err != nil {
		return err
	}
	target, err := os.Stat(n.Target)
	if err == nil && !os.SameFile(at, target) {
		err = fs.ErrExist
	}
	return err
}
