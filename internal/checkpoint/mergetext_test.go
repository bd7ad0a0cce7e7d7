package checkpoint

import (
	"os"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/checkpoint/merge"
)

const numbered = "1\n2\n3\n4\n5\n6\n7\n8\n9\n"

// replaced returns a text with one word replaced by another.
func replaced(old, now string) string { return strings.Replace(numbered, old, now, 1) }

// TestMergeTexts checks that the checkpoint of a merge has the merged text and its contents, and
// that a checkpoint that starts from it has them, too.
func TestMergeTexts(t *testing.T) {
	big := strings.Repeat("x\n", merge.MaxText/2)
	for name, c := range map[string]struct {
		base, ours, theirs, want string // empty: in conflict
	}{
		"other lines":  {numbered, replaced("2", "two"), replaced("8", "eight"), "1\ntwo\n3\n4\n5\n6\n7\neight\n9\n"},
		"one line":     {numbered, replaced("2", "two"), replaced("2", "zwei"), ""},
		"two appends":  {numbered, numbered + "x\n", numbered + "y\n", ""},
		"one did both": {numbered, replaced("2", "two"), replaced("2", "two") + "x\n", replaced("2", "two") + "x\n"},
		"no text":      {numbered + "\x00", replaced("2", "two") + "\x00", replaced("8", "eight") + "\x00", ""},
		"too large":    {big + "y\n", "z\n" + big + "y\n", big + "z\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t)
			put := func(text string) func() { return func() { b.write("a", text) } }
			points, _ := b.sides(put(c.base), put(c.ours), put(c.theirs))
			p, conflicts := b.joinAt(points[0], points[1], points[2])
			if c.want == "" {
				if len(conflicts) != 1 || conflicts[0] != "a" {
					t.Errorf("in conflict are %q", conflicts)
				}
				return
			}
			if len(conflicts) > 0 {
				t.Fatalf("in conflict are %q", conflicts)
			}
			b.back(p)
			if got, err := os.ReadFile(b.dir + "/a"); err != nil || string(got) != c.want {
				t.Errorf("it is %q, %v", got, err)
			}
			again := b.keep("")
			if got, conflicts := b.joinAt(p, again, p); len(conflicts) > 0 || got.Number == 0 {
				t.Errorf("the next one is in conflict: %q", conflicts)
			}
		})
	}
}

// TestMergeTextsBelow checks that a text that base shows without containing it is the base of a
// merge, unless it is missing or has another mode.
func TestMergeTextsBelow(t *testing.T) {
	b := newBox(t)
	_, trees := b.sides(func() {}, func() { b.write("a", replaced("2", "two")) }, func() { b.write("a", replaced("8", "eight")) })
	packs := b.Packs()
	defer packs.Close()
	how := all
	how.Below = func(_, path string) (*merge.Text, error) {
		return merge.NewText([]byte(numbered), trees[1][0].ByPath()[path].Mode), nil
	}
	out, err := merge.Trees(trees[0], trees[1], trees[2], packs, how)
	must(t, err)
	if len(out.Conflicts) > 0 || len(out.Texts) != 1 || out.New[0].Text != "1\ntwo\n3\n4\n5\n6\n7\neight\n9\n" {
		t.Errorf("it is %+v", out)
	}
	for name, below := range map[string]func(_, path string) (*merge.Text, error){
		"none":       func(string, string) (*merge.Text, error) { return nil, nil },
		"other mode": func(string, string) (*merge.Text, error) { return merge.NewText([]byte(numbered), 0o100755), nil },
	} {
		how.Below = below
		out, err = merge.Trees(trees[0], trees[1], trees[2], packs, how)
		must(t, err)
		if len(out.Conflicts) != 1 || out.Trees != nil {
			t.Errorf("%s: it is %+v", name, out)
		}
	}
}

// TestMergeTextsElse checks that differences besides lines are in conflict: another mode, another
// name of the file, a link.
func TestMergeTextsElse(t *testing.T) {
	for name, theirs := range map[string]func(b *box){
		"mode":    func(b *box) { b.write("a", replaced("8", "eight")); must(b.t, os.Chmod(b.dir+"/a", 0o755)) },
		"name":    func(b *box) { b.write("a", replaced("8", "eight")); must(b.t, os.Link(b.dir+"/a", b.dir+"/b")) },
		"link":    func(b *box) { must(b.t, os.Remove(b.dir+"/a")); must(b.t, os.Symlink("c", b.dir+"/a")) },
		"removed": func(b *box) { must(b.t, os.Remove(b.dir+"/a")) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t)
			points, _ := b.sides(func() { b.write("a", numbered) }, func() { b.write("a", replaced("2", "two")) }, func() { theirs(b) })
			if _, conflicts := b.joinAt(points[0], points[1], points[2]); len(conflicts) != 1 || conflicts[0] != "a" {
				t.Errorf("in conflict are %q", conflicts)
			}
		})
	}
}
