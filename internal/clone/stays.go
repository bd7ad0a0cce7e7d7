package clone

import (
	"bufio"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/bothy-dev/bothy/spec"
)

// Staying is the work that a fetch leaves in the sandbox, and that is lost with it.
type Staying struct {
	// Uncommitted counts the uncommitted files, including those of submodules; -1 if unknown.
	Uncommitted int
	// References are tags, notes, a stash and other references at objects that the host does not
	// have.
	References []string
	// Submodules are directories of submodules with commits that none of their remote branches
	// has.
	Submodules []string
	// Unknown says that the state of submodules is unknown.
	Unknown bool
}

// isSaved reports whether nothing stays that only git's answer reveals; Pending sees references
// again.
func (s Staying) isSaved() bool { return s.Uncommitted == 0 && len(s.Submodules) == 0 && !s.Unknown }

// findStaying asks git in the sandbox for the work that a fetch leaves behind.
func (f *fetch) findStaying(list []head) (s Staying, err error) {
	theirs, _ := f.refs.listRefs("refs/") // as far as they are looked at
	has := map[string]bool{f.rec.Commit: true}
	for hash := range maps.Values(theirs) {
		has[hash] = true
	}
	for _, h := range list {
		has[h.hash] = true
	}
	if s.References, err = f.in.others(has); err != nil {
		return s, err
	}
	s.Uncommitted = f.in.uncommitted(f.order.Written)
	if f.hasSubmodules() {
		s.Submodules, err = f.in.submodules()
		s.Unknown = err != nil
	}
	return s, nil
}

// hasSubmodules reports whether the clone may have submodules with files. It saves a question.
func (c Clone) hasSubmodules() bool {
	if _, err := os.Lstat(c.Tree()); err != nil { // it was adopted: the files are elsewhere
		return true
	}
	for _, name := range []string{".git/modules", ".gitmodules"} {
		if _, err := os.Lstat(filepath.Join(c.Tree(), name)); err == nil {
			return true
		}
	}
	return false
}

// uncommitted counts the uncommitted files, of those that the sandbox wrote; -1 if unknown. A changed
// submodule counts as one, unless its new commit is committed.
func (in *insider) uncommitted(written func() ([]string, error)) (n int) {
	text, err := in.askGit("", maxStatus, "status", "--porcelain", "-z", "--no-renames", "--ignore-submodules=none")
	if err != nil {
		return -1
	}
	if written == nil {
		return strings.Count(text, "\x00")
	}
	own, err := written()
	if err != nil {
		return -1
	}
	among := newPathSet(own)
	for line := range strings.SplitSeq(text, "\x00") {
		if len(line) > len("XY ") && among.touches(line[len("XY "):]) {
			n++
		}
	}
	return n
}

// pathSet is a set of paths. The sandbox chooses how many there are and how long they are, so that nothing is
// compared with each of them.
type pathSet struct {
	paths, parents map[string]bool
	unknown        bool // it has a path above maxPath
}

// maxPath bounds the length of a path that is looked up, in bytes: its parents are looked up, too.
const maxPath = 4096

func newPathSet(list []string) pathSet {
	s := pathSet{map[string]bool{}, map[string]bool{}, false}
	for _, path := range list {
		s.paths[path] = true
		s.unknown = s.unknown || len(path) > maxPath
		for dir := parentOf(path); dir != "" && !s.parents[dir] && !s.unknown; dir = parentOf(dir) {
			s.parents[dir] = true
		}
	}
	return s
}

// touches reports whether a path of git status is one of the set, or contains one, or is in one. A directory of
// untracked files ends in a slash. It is true for a path that is too long to look up.
func (s pathSet) touches(path string) bool {
	path = strings.TrimSuffix(path, "/")
	if s.unknown || len(path) > maxPath || s.paths[path] || s.parents[path] {
		return true
	}
	for dir := parentOf(path); dir != ""; dir = parentOf(dir) {
		if s.paths[dir] {
			return true
		}
	}
	return false
}

// parentOf returns the directory of a relative path, or "" if there is none.
func parentOf(path string) string { return path[:max(strings.LastIndexByte(path, '/'), 0)] }

// others lists references other than local and remote branches, at objects that the host does not
// have.
func (in *insider) others(has map[string]bool) (list []string, err error) {
	err = in.talkToGit("", func(r io.Reader) error {
		lines := bufio.NewScanner(r)
		for seen := 0; lines.Scan(); seen++ {
			hash, name, _ := strings.Cut(lines.Text(), " ")
			switch {
			case seen > maxRefs:
				return spec.Errorf(spec.ErrDenied, "git in the sandbox lists more references than are looked at")
			case len(list) > MaxBranches: // this many are as good as all
			case has[hash] || strings.HasPrefix(name, heads) || strings.HasPrefix(name, remotes):
			default:
				list = append(list, name)
			}
		}
		return lines.Err()
	}, "for-each-ref", "--format=%(objectname) %(refname)")
	return list, err
}

// ofSubmodule is run in each submodule, and prints its directory if it has its own commits.
const ofSubmodule = `n=$(git rev-list -n 1 --exclude='refs/remotes/*' --exclude='refs/tags/*' --all --not --remotes) || n=?
[ -z "$n" ] || printf '%s\0' "$displaypath"`

// submodules lists the submodules with commits that none of their remote branches has. A fetch
// does not bring their commits.
func (in *insider) submodules() ([]string, error) {
	text, err := in.askGit("", maxListing, "submodule", "--quiet", "foreach", "--recursive", ofSubmodule)
	if err != nil || text == "" {
		return nil, err
	}
	text, ended := strings.CutSuffix(text, "\x00")
	if !ended {
		return nil, errors.New("git in the sandbox did not answer with a list of directories")
	}
	return strings.Split(text, "\x00"), nil
}
