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

// Staying is what a fetch leaves inside, and goes with the sandbox.
type Staying struct {
	// Uncommitted are files that are not committed, those of submodules among them; -1: nobody
	// knows.
	Uncommitted int
	// References are those that are no branches, at what the host has not: tags, notes, a stash.
	References []string
	// Submodules are directories of such with commits that no branch of a server of theirs has.
	Submodules []string
	// Unknown says that nobody knows about submodules.
	Unknown bool
}

// saved tells whether nothing stays that only an answer tells of: references are seen again.
func (s Staying) saved() bool { return s.Uncommitted == 0 && len(s.Submodules) == 0 && !s.Unknown }

// stays asks what would not come.
func (f *fetch) stays(list []head) (s Staying, err error) {
	theirs, _ := f.refs.list("refs/") // as far as they are looked at
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
	s.Uncommitted = f.in.uncommitted()
	if f.hasSubmodules() {
		s.Submodules, err = f.in.submodules()
		s.Unknown = err != nil
	}
	return s, nil
}

// hasSubmodules tells whether there may be some with files. It saves a question.
func (c Clone) hasSubmodules() bool {
	if _, err := os.Lstat(c.Tree()); err != nil { // it was adopted: the files lie elsewhere
		return true
	}
	for _, name := range []string{".git/modules", ".gitmodules"} {
		if _, err := os.Lstat(filepath.Join(c.Tree(), name)); err == nil {
			return true
		}
	}
	return false
}

// uncommitted counts the files that are not committed; -1 if nobody knows. What a submodule
// has otherwise is one, unless its new commit is committed.
func (in *insider) uncommitted() int {
	text, err := in.ask("", maxStatus, "status", "--porcelain", "--no-renames", "--ignore-submodules=none")
	if err != nil {
		return -1
	}
	return strings.Count(text, "\n")
}

// others lists the references that are no branches, here or of a server, but those at what
// somebody has.
func (in *insider) others(has map[string]bool) (list []string, err error) {
	err = in.talk("", func(r io.Reader) error {
		lines := bufio.NewScanner(r)
		for seen := 0; lines.Scan(); seen++ {
			hash, name, _ := strings.Cut(lines.Text(), " ")
			switch {
			case seen > maxRefs:
				return spec.Errorf(spec.ErrDenied, "git in the sandbox lists more references than are looked at")
			case len(list) > MaxBranches: // so many say as much as all
			case has[hash] || strings.HasPrefix(name, heads) || strings.HasPrefix(name, remotes):
			default:
				list = append(list, name)
			}
		}
		return lines.Err()
	}, "for-each-ref", "--format=%(objectname) %(refname)")
	return list, err
}

// ofSubmodule is run in each, and says its directory if it has commits of its own.
const ofSubmodule = `n=$(git rev-list -n 1 --exclude='refs/remotes/*' --exclude='refs/tags/*' --all --not --remotes) || n=?
[ -z "$n" ] || printf '%s\0' "$displaypath"`

// submodules lists those with commits that no branch of a server of theirs has. What they
// have is fetched by nobody.
func (in *insider) submodules() ([]string, error) {
	text, err := in.ask("", maxListing, "submodule", "--quiet", "foreach", "--recursive", ofSubmodule)
	if err != nil || text == "" {
		return nil, err
	}
	text, ended := strings.CutSuffix(text, "\x00")
	if !ended {
		return nil, errors.New("what git in the sandbox says is no list of directories")
	}
	return strings.Split(text, "\x00"), nil
}
