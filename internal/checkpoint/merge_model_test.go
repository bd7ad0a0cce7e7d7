package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/checkpoint/manifest"
	"github.com/bothy-dev/bothy/internal/checkpoint/merge"
)

// This file compares Merge with a model that knows nothing of checkpoints, only files on the
// disk, path by path.

// picture describes the files of a directory: each path, with everything that can be seen of it.
type picture map[string]string

// pictureOf takes a picture of a directory.
func pictureOf(t *testing.T, dir string) picture {
	t.Helper()
	p := picture{}
	must(t, filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, at)
		var st unix.Stat_t
		if err == nil {
			err = unix.Lstat(at, &st)
		}
		if err != nil || rel == "." {
			return err
		}
		look := fmt.Sprintf("%o", st.Mode) // there is one owner
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			text, err := os.ReadFile(at)
			if err != nil {
				return err
			}
			look += " " + string(text)
		case unix.S_IFLNK:
			to, err := os.Readlink(at)
			if err != nil {
				return err
			}
			look += " -> " + to
		}
		for _, name := range []string{"user.one", "user.two"} {
			v := make([]byte, 64)
			if n, err := unix.Lgetxattr(at, name, v); err == nil {
				look += " " + name + "=" + string(v[:n])
			}
		}
		p[rel] = look
		return nil
	}))
	return p
}

func (p picture) isDir(at string) bool { return strings.HasPrefix(p[at], "4") }

// differ returns the changed paths; true marks those that were directories and are not any more.
func (p picture) differ(was picture) map[string]bool {
	list := map[string]bool{}
	for _, all := range []picture{p, was} {
		for at := range all {
			if p[at] != was[at] {
				list[at] = was[at] != "" && !(was.isDir(at) && p.isDir(at))
			}
		}
	}
	return list
}

// together returns the merge of ours and theirs, which both come from base; or the paths in
// conflict.
func together(base, ours, theirs picture) (picture, []string) {
	mine, other := ours.differ(base), theirs.differ(base)
	clash := map[string]bool{}
	for at := range other {
		if _, both := mine[at]; both && ours[at] != theirs[at] {
			clash[at] = true
		}
	}
	for _, way := range [][2]map[string]bool{{mine, other}, {other, mine}} {
		for at := range way[1] {
			for d := path.Dir(at); d != "."; d = path.Dir(d) {
				if _, too := way[1][d]; way[0][d] && !too {
					clash[at] = true
				}
			}
		}
	}
	all := maps.Clone(ours)
	for at := range other {
		if all[at] = theirs[at]; theirs[at] == "" {
			delete(all, at)
		}
	}
	return all, slices.Sorted(maps.Keys(clash))
}

// vandal changes a directory in any way that a program inside might.
type vandal struct {
	*rand.Rand
	dir     string
	outside string // targets of links
}

// vandalized has few names, so that there are clashes.
var vandalized = []string{"a", "b", "c", "d", "d/a", "d/b", "d/e", "d/e/a", "d/e/b", "f", "f/a", "f/g", "f/g/h"}

func (v *vandal) any() string {
	return filepath.Join(v.dir, vandalized[v.IntN(len(vandalized))])
}

// astray returns the part of a path's parents that is not a directory; empty if all are
// directories.
func (v *vandal) astray(at string) string {
	rel, _ := filepath.Rel(v.dir, filepath.Dir(at))
	d := v.dir
	for name := range strings.SplitSeq(rel, "/") {
		d = filepath.Join(d, name)
		if info, err := os.Lstat(d); err == nil && !info.IsDir() {
			return d
		}
	}
	return ""
}

// room makes a path free, in a directory.
func (v *vandal) room(at string) error {
	if d := v.astray(at); d != "" {
		if err := os.Remove(d); err != nil {
			return err
		}
	}
	return errors.Join(os.RemoveAll(at), os.MkdirAll(filepath.Dir(at), 0o755))
}

func (v *vandal) change() error {
	at := v.any()
	info, err := os.Lstat(at)
	there := err == nil && v.astray(at) == ""
	file, dir := there && info.Mode().IsRegular(), there && info.IsDir()
	switch v.IntN(10) {
	case 0:
		if there {
			return os.RemoveAll(at)
		}
	case 1:
		if dir || file {
			return os.Chmod(at, []fs.FileMode{0o700, 0o755, 0o777, 0o711}[v.IntN(4)])
		}
	case 2:
		if dir || file {
			return unix.Setxattr(at, []string{"user.one", "user.two"}[v.IntN(2)], []byte{'0' + byte(v.IntN(3))}, 0)
		}
	case 3: // another name of a file
		if to := v.any(); file && to != at && !strings.HasPrefix(at, to+"/") && !strings.HasPrefix(to, at+"/") {
			return errors.Join(v.room(to), os.Link(at, to))
		}
	case 4: // a rename
		if to := v.any(); there && to != at && !strings.HasPrefix(at, to+"/") && !strings.HasPrefix(to, at+"/") {
			return errors.Join(v.room(to), os.Rename(at, to))
		}
	case 5:
		to := []string{v.outside, "../../outside", filepath.Join(v.outside, "file"), "/etc/passwd", "b", "."}[v.IntN(6)]
		return errors.Join(v.room(at), os.Symlink(to, at))
	case 6:
		return errors.Join(v.room(at), unix.Mkfifo(at, 0o600))
	case 7:
		return errors.Join(v.room(at), os.Mkdir(at, 0o755))
	case 8: // written in place, by all its names
		if file {
			return os.WriteFile(at, fmt.Appendf(nil, "in place %d", v.IntN(3)), 0o644)
		}
	default:
		return errors.Join(v.room(at), os.WriteFile(at, fmt.Appendf(nil, "%d", v.IntN(3)), 0o644))
	}
	return nil
}

// TestMergeModel has several workers change a common base in any way, and merges their work one
// after the other. It checks that the files on the disk equal the model's, that Merge refuses
// what the model cannot merge, and that nothing else on the host is touched, wherever links lead.
func TestMergeModel(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	joined, clashed := 0, 0
	for round := range 30 {
		b := newBox(t)
		outside := filepath.Join(filepath.Dir(filepath.Dir(b.dir)), fmt.Sprint("outside-", round))
		must(t, os.Mkdir(outside, 0o755))
		must(t, os.WriteFile(filepath.Join(outside, "file"), []byte("not yours"), 0o644))
		beside := pictureOf(t, outside)
		v := &vandal{r, b.dir, outside}
		some := func(most int) {
			for range 1 + r.IntN(most) {
				must(t, v.change())
			}
		}
		some(20)
		start := b.keep("")
		base, now := pictureOf(t, b.dir), pictureOf(t, b.dir)
		main := start
		for worker := range 2 + r.IntN(3) {
			b.back(start)
			some(5)
			theirs, did := b.keep(""), pictureOf(t, b.dir)
			want, clash := together(base, now, did)
			p, conflicts := b.joinAt(start, main, theirs)
			if !slices.Equal(conflicts, clash) {
				t.Fatalf("seed %d, round %d: worker %d is in conflict at %q, and by the model at %q\nbase %q\nours %q\ntheirs %q", seed, round, worker, conflicts, clash, base, now, did)
			}
			if len(clash) > 0 {
				clashed++
				continue
			}
			b.back(p)
			if got := pictureOf(t, b.dir); !maps.Equal(got, want) {
				t.Fatalf("seed %d, round %d: with worker %d it is\n%q\nnot\n%q\nbase %q\nours %q\ntheirs %q", seed, round, worker, got, want, base, now, did)
			}
			joined, main, now = joined+1, p, want
		}
		if got := pictureOf(t, outside); !maps.Equal(got, beside) {
			t.Fatalf("seed %d: outside there is %q", seed, got)
		}
		if entries, err := os.ReadDir(filepath.Dir(b.dir)); err != nil || len(entries) != 2 {
			t.Fatalf("seed %d: beside it there are %v, %v", seed, entries, err)
		}
	}
	if joined == 0 || clashed == 0 {
		t.Errorf("seed %d: %d were joined, and %d clashed", seed, joined, clashed)
	}
}

// joinAt merges two checkpoints that are derived from a third.
func (b *box) joinAt(base, ours, theirs Point) (p Point, conflicts []string) {
	b.t.Helper()
	var trees [3][]manifest.Tree
	for i, of := range []Point{base, ours, theirs} {
		var err error
		trees[i], err = b.Trees(of)
		must(b.t, err)
	}
	packs := b.Packs()
	defer packs.Close()
	out, err := merge.Trees(trees[0], trees[1], trees[2], packs, all)
	must(b.t, err)
	for _, c := range out.Conflicts {
		conflicts = append(conflicts, c.Path)
	}
	if len(conflicts) > 0 {
		return p, conflicts
	}
	m, err := b.BeginMerged(ours, out, "both")
	must(b.t, err)
	p, err = m.End(nil)
	must(b.t, err)
	return p, nil
}
