package worktrees

import (
	"io/fs"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/driver"
)

// gitDir is a git directory beneath a shared one. The git directory of the shared directory itself
// may not exist yet.
type gitDir struct {
	root   *os.File // the shared directory
	rel    string
	inside string
}

// Bounds of the search for git directories, as a start waits for it.
const (
	gitDirDepth   = 3    // how deep below a shared directory it looks for repositories
	gitDirVisits  = 4096 // directories that it reads, in all
	gitDirEntries = 4096 // entries that it reads of a directory
	maxGitDirs    = 64
)

// openShared opens the shared directories. Other shared paths are files.
func openShared(shared []driver.Mount) (dirs []searchedDir) {
	for _, m := range shared {
		root, err := os.OpenFile(m.Source, unix.O_PATH|unix.O_DIRECTORY, 0)
		if err == nil {
			dirs = append(dirs, searchedDir{root: root, rel: ".", inside: m.Target})
		}
	}
	return dirs
}

// findGitDirs looks for git directories beneath shared directories, the nearest first:
// repositories, bare ones, and those of submodules. It opens nothing outside of the shared
// directories, nor on another file system.
func findGitDirs(shared []searchedDir) []gitDir {
	s := &gitDirSearch{queue: slices.Clone(shared)}
	for _, d := range shared {
		s.found = append(s.found, gitDir{d.root, ".git", path.Join(d.inside, ".git")})
	}
	for len(s.queue) > 0 && s.visits < gitDirVisits && len(s.found) < maxGitDirs {
		next := s.queue[0]
		s.queue = s.queue[1:]
		s.visitDir(next)
	}
	return s.found
}

// addNewDirs adds the git directories that are not known yet. It keeps the known ones: a program
// inside must not push them out by making others.
func addNewDirs(known, found []gitDir) []gitDir {
	for _, d := range found {
		if len(known) < maxGitDirs && !slices.ContainsFunc(known, func(k gitDir) bool { return k.inside == d.inside }) {
			known = append(known, d)
		}
	}
	return known
}

type gitDirSearch struct {
	queue  []searchedDir
	visits int
	found  []gitDir
}

type searchedDir struct {
	root   *os.File
	rel    string
	inside string // where root is
	depth  int
}

func (d searchedDir) childDir(name string, depth int) searchedDir {
	d.rel, d.depth = path.Join(d.rel, name), depth
	return d
}

func (s *gitDirSearch) visitDir(d searchedDir) {
	s.visits++
	if d.isGitDir() {
		if d.rel != ".git" { // the start adds .git of the shared directory itself
			s.found = append(s.found, gitDir{d.root, d.rel, path.Join(d.inside, d.rel)})
		}
		s.enqueue(d.childDir("modules", 1)) // names of submodules may contain slashes
		return
	}
	if path.Base(d.rel) == ".git" {
		return
	}
	s.enqueue(d.childDir(".git", d.depth+1))
	if d.depth >= gitDirDepth {
		return
	}
	for _, name := range d.directories() {
		if name != ".git" {
			s.enqueue(d.childDir(name, d.depth+1))
		}
	}
}

// enqueue queues a directory, unless queued ones use up the remaining visits: a tree can have
// gitDirEntries directories in each of gitDirVisits.
func (s *gitDirSearch) enqueue(d searchedDir) {
	if s.visits+len(s.queue) < gitDirVisits {
		s.queue = append(s.queue, d)
	}
}

func (d searchedDir) isGitDir() bool {
	for _, name := range []string{"HEAD", "objects"} {
		fd, err := openBeneath(d.root, path.Join(d.rel, name), unix.O_PATH)
		if err != nil {
			return false
		}
		unix.Close(fd)
	}
	return true
}

// directories lists the subdirectories of a directory, without symbolic links.
func (d searchedDir) directories() (names []string) {
	fd, err := openBeneath(d.root, d.rel, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil
	}
	f := os.NewFile(uintptr(fd), d.rel)
	defer f.Close()
	entries, _ := f.ReadDir(gitDirEntries)
	for _, e := range entries {
		if e.Type() == fs.ModeDir {
			names = append(names, e.Name())
		}
	}
	return names
}

// openBeneath opens a path beneath a directory, on the same file system: a process inside may
// have put a link there.
func openBeneath(dir *os.File, rel string, flags uint64) (int, error) {
	return unix.Openat2(int(dir.Fd()), rel, &unix.OpenHow{
		Flags:   flags | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	})
}
