package checkpoint

import (
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/checkpoint/manifest"
	"github.com/bothy-dev/bothy/internal/checkpoint/merge"
)

// all merges every tree.
var all = merge.Merging{Trees: func(string) bool { return true }, Ours: func(string, string) bool { return false }}

// sides makes a state of a directory, and two that are derived from it.
func (b *box) sides(base, ours, theirs func()) (points [3]Point, trees [3][]manifest.Tree) {
	b.t.Helper()
	base()
	points[0] = b.keep("")
	for i, change := range []func(){ours, theirs} {
		change()
		points[i+1] = b.keep("")
		b.back(points[0])
	}
	for i, p := range points {
		var err error
		trees[i], err = b.Trees(p)
		must(b.t, err)
	}
	return points, trees
}

// merge merges them. The text describes the result, or the conflicts.
func (b *box) merge(trees [3][]manifest.Tree, how merge.Merging) (merge.Merged, string) {
	b.t.Helper()
	packs := b.Packs()
	defer packs.Close()
	out, err := merge.Trees(trees[0], trees[1], trees[2], packs, how)
	must(b.t, err)
	if len(out.Conflicts) > 0 {
		var list []string
		for _, c := range out.Conflicts {
			list = append(list, c.Path)
		}
		return out, "conflict: " + strings.Join(list, " ")
	}
	p, err := b.List()
	must(b.t, err)
	m, err := b.BeginMerged(p[len(p)-1], out, "both")
	must(b.t, err)
	at, err := m.End(nil)
	must(b.t, err)
	head := b.Head()
	b.back(at)
	if head == at.Number {
		b.t.Error("the sandbox came to what was put aside")
	}
	return out, b.names()
}

// names lists the files of a directory, with their contents.
func (b *box) names() string {
	b.t.Helper()
	var list []string
	must(b.t, filepath.WalkDir(b.dir, func(p string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(b.dir, p)
		switch {
		case err != nil || rel == ".":
			return err
		case d.IsDir():
			info, err := d.Info()
			if err == nil && info.Mode().Perm() != 0o755 {
				list = append(list, fmt.Sprintf("%s/%o", rel, info.Mode().Perm()))
			}
			return err
		}
		text, err := os.ReadFile(p)
		list = append(list, rel+"="+string(text))
		return err
	}))
	return strings.Join(list, " ")
}

func TestMerge(t *testing.T) {
	remove := func(b *box, names ...string) {
		for _, n := range names {
			must(b.t, os.RemoveAll(b.path(n)))
		}
	}
	nothing := func(*box) {}
	tests := []struct {
		name         string
		ours, theirs func(b *box)
		want         string
	}{
		{"each its own", func(b *box) { b.write("a", "1") }, func(b *box) { b.write("d/f", "2") }, "a=1 d/f=2 d/g=g"},
		{"nobody", nothing, nothing, "a=a d/f=f d/g=g"},
		{"the same", func(b *box) { b.write("a", "1"); b.write("n", "n") }, func(b *box) { b.write("a", "1"); b.write("n", "n") }, "a=1 d/f=f d/g=g n=n"},
		{"one file", func(b *box) { b.write("a", "1") }, func(b *box) { b.write("a", "2") }, "conflict: a"},
		{"one new file", func(b *box) { b.write("n", "1") }, func(b *box) { b.write("n", "2") }, "conflict: n"},
		{"removed and changed", func(b *box) { remove(b, "a") }, func(b *box) { b.write("a", "2") }, "conflict: a"},
		{"removed by both", func(b *box) { remove(b, "a") }, func(b *box) { remove(b, "a", "d") }, ""},
		{"mode and content", func(b *box) { must(b.t, os.Chmod(b.path("a"), 0o755)) }, func(b *box) { b.write("a", "2") }, "conflict: a"},
		{"a new directory of both", func(b *box) { b.write("n/x", "1") }, func(b *box) { b.write("n/y", "2") }, "a=a d/f=f d/g=g n/x=1 n/y=2"},
		{"a file in what was removed", func(b *box) { remove(b, "d") }, func(b *box) { b.write("d/n", "2") }, "conflict: d/n"},
		{"a change in what was removed", func(b *box) { b.write("d/f", "1") }, func(b *box) { remove(b, "d") }, "conflict: d/f"},
		{"a file in what is a file now", func(b *box) { b.write("d/n", "1") }, func(b *box) { remove(b, "d"); b.write("d", "file") }, "conflict: d/n"},
		{"a file and a directory", func(b *box) { b.write("n", "1") }, func(b *box) { b.write("n/x", "2") }, "conflict: n"},
		{"a directory's mode and a file in it", func(b *box) { must(b.t, os.Chmod(b.path("d"), 0o700)) }, func(b *box) { b.write("d/n", "2") }, "a=a d/700 d/f=f d/g=g d/n=2"},
		{"another name of a file that goes", func(b *box) { remove(b, "a") }, func(b *box) { must(b.t, os.Link(b.path("a"), b.path("z"))) }, "d/f=f d/g=g z=a"},
		{"another name of a file that changes", func(b *box) { b.write("a", "1") }, func(b *box) { must(b.t, os.Link(b.path("a"), b.path("z"))) }, "a=1 d/f=f d/g=g z=a"},
		{"a link", func(b *box) { b.write("x", "1") }, func(b *box) { must(b.t, os.Symlink("a", b.path("l"))) }, "a=a d/f=f d/g=g l=a x=1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBox(t)
			_, trees := b.sides(func() { b.write("a", "a"); b.write("d/f", "f"); b.write("d/g", "g") }, func() { tt.ours(b) }, func() { tt.theirs(b) })
			if _, got := b.merge(trees, all); got != tt.want {
				t.Errorf("it is %q, want %q", got, tt.want)
			}
			trees[1], trees[2] = trees[2], trees[1]
			if _, got := b.merge(trees, all); got != tt.want {
				t.Errorf("the other way round it is %q, want %q", got, tt.want)
			}
		})
	}
}

// TestMergeOrigin checks that a merge keeps whether a file of an overlay's layer is a copy of one
// below.
func TestMergeOrigin(t *testing.T) {
	const origin = "user.overlay.origin"
	b := newBox(t)
	_, trees := b.sides(func() { b.write("x", "x") }, func() { b.write("x", "1") }, func() {
		b.write("copy", "2")
		if err := unix.Setxattr(b.path("copy"), origin, nil, 0); err != nil {
			t.Skipf("attributes: %v", err)
		}
	})
	if _, got := b.merge(trees, all); got != "copy=2 x=1" {
		t.Errorf("it is %q", got)
	}
	if _, err := unix.Getxattr(b.path("copy"), origin, nil); err != nil {
		t.Errorf("the mark of a copy: %v", err)
	}
}

// TestMergeOurs checks that the paths each side keeps for itself stay ours, even if theirs
// changed the directory around them. The merge reports that they differ.
func TestMergeOurs(t *testing.T) {
	b := newBox(t)
	_, trees := b.sides(func() { b.write("d/.git/index", "0"); b.write("d/f", "f") },
		func() { b.write("d/.git/index", "1") },
		func() { b.write("d/.git/index", "2"); b.write("d/.git/new", "2"); b.write("d/n", "n") })
	how := merge.Merging{Trees: all.Trees, Ours: func(_, at string) bool { return slices.Contains(strings.Split(at, "/"), ".git") }}
	out, got := b.merge(trees, how)
	if want := "d/.git/index=1 d/f=f d/n=n"; got != want {
		t.Errorf("it is %q, want %q", got, want)
	}
	if len(out.Besides) != 2 {
		t.Errorf("besides it has %v", out.Besides)
	}
	b = newBox(t)
	_, trees = b.sides(func() { b.write("d/.git/index", "0"); b.write("a", "a") }, func() { b.write("d/.git/index", "1") }, func() { must(t, os.RemoveAll(b.path("d"))) })
	if _, got := b.merge(trees, how); got != "a=a" {
		t.Errorf("with the directory gone it is %q", got)
	}
	how.Trees = func(string) bool { return false }
	if _, got := b.merge(trees, how); got != "a=a d/.git/index=1" {
		t.Errorf("of a tree that is not brought together it is %q", got)
	}
}

// TestMergeOverlay checks that a directory that hides the one below it counts as another directory, even
// under the same name. A directory that only has another origin does not.
func TestMergeOverlay(t *testing.T) {
	b := newBox(t)
	set := func(name, attr, value string) {
		if err := unix.Setxattr(b.path(name), attr, []byte(value), 0); err != nil {
			t.Skipf("no attributes here: %v", err)
		}
	}
	_, trees := b.sides(func() { b.write("d/f", "f") }, func() { set("d", "user.overlay.opaque", "y") }, func() { b.write("d/n", "n") })
	if _, got := b.merge(trees, all); got != "conflict: d/n" {
		t.Errorf("it is %q", got)
	}
	b = newBox(t)
	_, trees = b.sides(func() { b.write("d/f", "f") }, func() { set("d", "user.overlay.impure", "y") }, func() { set("d", "user.overlay.origin", "x"); b.write("d/n", "n") })
	if out, got := b.merge(trees, all); got != "d/f=f d/n=n" || len(out.Besides) != 0 {
		t.Errorf("it is %q, besides %v", got, out.Besides)
	}
}

// TestMergeAnything merges random changes. It checks that every path is as in the side that changed it,
// or as in base, and that the order of the sides does not matter.
func TestMergeAnything(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	names := []string{"a", "b", "d/a", "d/b", "d/e/a", "d/e/b", "g/a"}
	change := func(b *box) {
		for range r.IntN(4) {
			at := names[r.IntN(len(names))]
			switch r.IntN(4) {
			case 0:
				_ = os.RemoveAll(b.path(at))
			case 1:
				_ = os.RemoveAll(filepath.Dir(b.path(at)))
				must(t, os.MkdirAll(b.dir, 0o755))
			default:
				for d := filepath.Dir(b.path(at)); d != b.dir; d = filepath.Dir(d) {
					if info, err := os.Lstat(d); err == nil && !info.IsDir() {
						must(t, os.Remove(d))
					}
				}
				_ = os.RemoveAll(b.path(at))
				b.write(at, fmt.Sprint(r.IntN(3)))
			}
		}
	}
	together := 0
	for range 40 {
		b := newBox(t)
		_, trees := b.sides(func() { change(b); change(b) }, func() { change(b) }, func() { change(b) })
		out, got := b.merge(trees, all)
		if len(out.Conflicts) == 0 {
			together++
			agrees(t, b, trees, out, seed)
		}
		trees[1], trees[2] = trees[2], trees[1]
		if _, other := b.merge(trees, all); (len(out.Conflicts) == 0) != !strings.HasPrefix(other, "conflict") || len(out.Conflicts) == 0 && other != got {
			t.Fatalf("seed %d: it is %q, and the other way round %q", seed, got, other)
		}
		trees[2] = trees[0]
		if out, err := merge.Trees(trees[0], trees[1], trees[2], b.Packs(), all); err != nil || len(out.Conflicts) > 0 {
			t.Fatalf("seed %d: with nothing done it is in conflict: %v, %v", seed, out.Conflicts, err)
		}
	}
	if together == 0 {
		t.Errorf("seed %d: nothing was brought together", seed)
	}
}

// agrees checks each path that any state has.
func agrees(t *testing.T, b *box, trees [3][]manifest.Tree, out merge.Merged, seed uint64) {
	t.Helper()
	packs := b.Packs()
	defer packs.Close()
	compare := func(a, b []manifest.Tree) map[string]bool {
		list, err := merge.Compare(a, b, packs)
		must(t, err)
		changed := map[string]bool{}
		for _, c := range list {
			if c.Tree == "home" {
				changed[c.Path] = true
			}
		}
		return changed
	}
	base, ours, theirs := trees[0], trees[1], trees[2]
	byUs, fromOurs, fromTheirs := compare(base, ours), compare(out.Trees, ours), compare(out.Trees, theirs)
	home := manifest.Find(out.Trees, "home")
	is := home.ByPath()
	for at := range maps.Keys(is) {
		if dir := filepath.Dir(at); at != "" && dir != "." && (is[dir] == nil || !is[dir].IsDir()) {
			t.Fatalf("seed %d: %s lies nowhere", seed, at)
		}
	}
	for _, list := range []map[string]bool{fromOurs, fromTheirs} {
		for at := range list {
			if byUs[at] && fromOurs[at] || !byUs[at] && fromTheirs[at] {
				t.Fatalf("seed %d: %s is not as it was made", seed, at)
			}
		}
	}
}

// TestHand checks that handed-out files that come back cost only their changes.
func TestHand(t *testing.T) {
	b := newBox(t)
	b.write("large", strings.Repeat("x", 1<<20))
	b.settle()
	p := b.keep("")
	their := newBox(t)
	other := their.sources()
	must(t, os.WriteFile(filepath.Join(other[0].Dir, "old"), nil, 0o600))
	must(t, b.Hand(p, "0123", their.Shelf, other))
	must(t, os.WriteFile(filepath.Join(other[0].Dir, "new"), []byte("new"), 0o600))
	for i, most := range []int64{1 << 12, 1 << 12} {
		(&box{t: t, dir: other[0].Dir}).settle()
		m, err := b.BeginOf("0123", "test")
		must(t, err)
		q, err := m.End(m.Take(other))
		must(t, err)
		if q.Bytes > most || b.Head() != p.Number {
			t.Errorf("the %d. time it took %d bytes, and the sandbox is at %d", i+1, q.Bytes, b.Head())
		}
		b.back(q)
		if got := b.names(); !strings.HasSuffix(got, " new=new") || !strings.HasPrefix(got, "large=xxx") || strings.Contains(got, "old") {
			t.Errorf("it is %.40q", got)
		}
		b.back(p)
		must(t, os.WriteFile(filepath.Join(other[0].Dir, "new"), []byte("new"), 0o600))
	}
	must(t, b.Hand(p, "0123", their.Shelf, other))
	must(t, their.Whole())
	if _, err := os.Lstat(filepath.Join(other[0].Dir, "new")); err == nil {
		t.Error("what came of it before is still there")
	}
}
