package clone

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/spec"
)

// Made describes a new clone: its origin, and files that the user might miss in it.
type Made struct {
	Branch string // empty: none was checked out
	Commit string
	// Submodules counts empty directories of submodules, Pointers the files whose content git LFS
	// keeps elsewhere.
	Submodules, Pointers int
}

// Make clones the repository of the workspace into dir.
func Make(ctx context.Context, paths *hostpath.Guard, workspace, dir string) (*Made, error) {
	m, err := making(ctx, paths, workspace, dir)
	if err != nil {
		return nil, &spec.Error{Op: "clone " + workspace, Err: err, Hint: spec.Hint(err)}
	}
	return m, nil
}

func making(ctx context.Context, paths *hostpath.Guard, workspace, dir string) (*Made, error) {
	program, err := findGit(paths)
	if err != nil {
		return nil, err
	}
	repo, err := Locate(workspace)
	if err != nil {
		return nil, err
	}
	if err := repo.checkAlone(); err != nil {
		return nil, err
	}
	root, err := hostpath.OpenRealRoot(repo.Git)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	m := &maker{
		git:  &git{program: program, path: paths.Path(), dir: filepath.Join(Tree(dir), ".git"), borrow: repo.objects()},
		root: root,
	}
	if m.Branch, m.Commit, err = repo.readHead(root); err != nil {
		return nil, err
	}
	for _, step := range []func(context.Context) error{m.beginClone, m.choose, m.copyObjects, m.checkOut, m.lookFor} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	c := Clone{Dir: dir}
	err = c.writeRecord(&Record{Version: spec.Version, Git: repo.Git, Branch: m.Branch, Commit: m.Commit, At: time.Now().UTC()})
	return &m.Made, err
}

// readHead returns the checked-out branch, without its prefix, and the commit.
func (r *Repository) readHead(common *os.Root) (branch, commit string, err error) {
	own, err := hostpath.OpenRealRoot(r.own)
	if err != nil {
		return "", "", err
	}
	defer own.Close()
	text, err := readIn(own, "HEAD", maxRef)
	if err != nil {
		return "", "", fmt.Errorf("read HEAD: %w", err)
	}
	ref, commit, err := target(text)
	if err != nil {
		return "", "", fmt.Errorf("read HEAD: %w", err)
	}
	if ref == "" {
		return "", commit, nil
	}
	branch, ok := strings.CutPrefix(ref, heads)
	if !ok {
		return "", "", spec.Errorf(spec.ErrUsage, "%s has something other than a branch checked out", r.Dir).WithHint("git -C %s switch BRANCH", r.Dir)
	}
	all, err := openRefs(common)
	if err != nil {
		return "", "", err
	}
	commit, err = all.resolve(ref)
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", spec.Errorf(spec.ErrUsage, "%s has no commit yet: there is nothing to clone, or to fetch commits into", r.Dir).
			WithHint("commit first, on the host (git add, git commit); bothy run --workspace %s and bothy apply need no commit", spec.WorkspaceReview)
	}
	return branch, commit, err
}

// maker is one clone in the making.
type maker struct {
	Made
	*git
	root *os.Root // the user's git directory
}

// beginClone makes the git directory.
func (m *maker) beginClone(ctx context.Context) error {
	if err := makeGitDir(m.dir, formatOf(m.Commit), ""); err != nil {
		return err
	}
	config, err := readIn(m.root, "config", maxConfig)
	if err != nil {
		return fmt.Errorf("read its configuration: %w", err)
	}
	more, err := m.inherited(ctx, config, m.Branch)
	if err != nil {
		return fmt.Errorf("read its configuration: %w", err)
	}
	if err := makeGitDir(m.dir, formatOf(m.Commit), more); err != nil {
		return err
	}
	shallow, err := readShallow(m.root)
	if err == nil && len(shallow) > 0 {
		err = os.WriteFile(filepath.Join(m.dir, "shallow"), shallow, 0o666)
	}
	return err
}

// readShallow returns the commits at which a shallow history ends.
func readShallow(root *os.Root) ([]byte, error) {
	data, err := readIn(root, "shallow", maxPacked)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read where its history ends: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		if !isHash(strings.TrimSuffix(line, "\n")) {
			return nil, errors.New("read where its history ends: it names no commits")
		}
	}
	return data, nil
}

// choose finds the tags and the remote branches in HEAD's history; the clone gets only those.
func (m *maker) choose(ctx context.Context) error {
	all, err := openRefs(m.root)
	if err != nil {
		return err
	}
	list := map[string]string{}
	for _, prefix := range []string{tags, remotes} {
		some, err := all.listRefs(prefix)
		if err != nil {
			return fmt.Errorf("list its references: %w", err)
		}
		maps.Copy(list, some)
	}
	maps.DeleteFunc(list, func(name, hash string) bool {
		return strings.HasPrefix(name, Remotes) || strings.HasSuffix(name, "/HEAD") || len(hash) != len(m.Commit)
	})
	if err := m.packRefs(list); err != nil || len(list) == 0 {
		return err
	}
	out, err := m.runGit(ctx, nil, "for-each-ref", "--format=%(objectname) %(refname)", "--merged="+m.Commit)
	if err != nil {
		return broken(err, m.Commit)
	}
	chosen := map[string]string{}
	for line := range strings.Lines(string(out)) {
		hash, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if list[name] == hash {
			chosen[name] = hash
		}
	}
	return m.packRefs(chosen)
}

// packRefs writes references into the clone.
func (m *maker) packRefs(list map[string]string) error {
	var b strings.Builder
	b.WriteString("# pack-refs with: sorted \n")
	for _, name := range slices.Sorted(maps.Keys(list)) {
		b.WriteString(list[name] + " " + name + "\n")
	}
	return os.WriteFile(filepath.Join(m.dir, "packed-refs"), []byte(b.String()), 0o666)
}

// broken explains why objects of the user's repository could not be read.
func broken(err error, commit string) error {
	return (&spec.Error{Op: "copy the history of " + commit[:12], Err: err}).
		WithHint("git fsck tells whether it is whole; one that was cloned with a filter has to be completed first: git fetch --refetch --no-filter")
}

// copyObjects copies the objects. Afterwards the clone is complete and borrows no objects.
func (m *maker) copyObjects(ctx context.Context) error {
	_, err := m.runWithLines(ctx, []string{m.Commit}, "pack-objects", "--revs", "--include-tag", "--delta-base-offset", "--quiet",
		filepath.Join(m.dir, "objects/pack/pack"))
	if err != nil {
		return broken(err, m.Commit)
	}
	m.borrow = ""
	head := m.Commit + "\n"
	if m.Branch != "" {
		head = "ref: " + heads + m.Branch + "\n"
		file := filepath.Join(m.dir, heads, m.Branch)
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(m.Commit+"\n"), 0o666); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(m.dir, "HEAD"), []byte(head), 0o666)
}

// checkOut writes the files. git knows no filter that attributes may name, has no hooks, and
// fetches nothing.
func (m *maker) checkOut(ctx context.Context) error {
	m.tree = filepath.Dir(m.dir)
	_, err := m.runGit(ctx, nil, "read-tree", "--reset", "-u", m.Commit)
	if err != nil {
		return fmt.Errorf("check out %s: %w", m.Commit[:12], err)
	}
	return nil
}

// lookFor counts submodules and LFS pointers, whose contents the files lack.
func (m *maker) lookFor(ctx context.Context) error {
	out, err := m.runGit(ctx, nil, "ls-files", "--stage", "-z")
	if err != nil {
		return err
	}
	entries := bufio.NewScanner(bytes.NewReader(out))
	entries.Buffer(nil, 1<<20)
	entries.Split(splitZeros)
	for entries.Scan() {
		if strings.HasPrefix(entries.Text(), "160000 ") {
			m.Submodules++
		}
	}
	out, err = m.runGit(ctx, nil, "ls-files", "-z", "--", ":(attr:filter=lfs)")
	m.Pointers = bytes.Count(out, []byte{0})
	return errors.Join(entries.Err(), err)
}

// splitZeros is a split function for entries that end with a zero byte.
func splitZeros(data []byte, _ bool) (int, []byte, error) {
	i := bytes.IndexByte(data, 0)
	if i < 0 {
		return 0, nil, nil
	}
	return i + 1, data[:i], nil
}
