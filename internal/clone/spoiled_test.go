package clone

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/racetest"
)

// TestFetchBesideSpoiled checks that branches that git, or this program, cannot take are refused
// with a reason, and that all other branches come.
func TestFetchBesideSpoiled(t *testing.T) {
	zero := strings.Repeat("1", 40)
	for name, tt := range map[string]struct {
		spoil   func(t *testing.T, tree, commit string)
		refused string // branch
	}{
		"no such object": {func(t *testing.T, tree, _ string) { ref(t, tree, "bad", zero+"\n") }, "bad"},
		"a blob": {func(t *testing.T, tree, _ string) {
			ref(t, tree, "bad", gitIn(t, tree, "hash-object", "-w", "a.txt")+"\n")
		}, "bad"},
		"a tag": {func(t *testing.T, tree, commit string) {
			gitIn(t, tree, "tag", "-a", "-m", "x", "v1", commit)
			ref(t, tree, "bad", gitIn(t, tree, "rev-parse", "v1")+"\n")
		}, "bad"},
		"rubbish":            {func(t *testing.T, tree, _ string) { ref(t, tree, "bad", "\x1b]0;rubbish\n") }, "bad"},
		"empty":              {func(t *testing.T, tree, _ string) { ref(t, tree, "bad", "") }, "bad"},
		"a name git has not": {func(t *testing.T, tree, commit string) { ref(t, tree, "a..b", commit+"\n") }, "a..b"},
		"a packed name": {func(t *testing.T, tree, commit string) {
			f := filepath.Join(tree, ".git", "packed-refs")
			old, _ := os.ReadFile(f)
			must(t, os.WriteFile(f, append(old, commit+" refs/heads/x y\n"...), 0o644))
		}, "x y"},
		"a long name": {func(t *testing.T, tree, commit string) { ref(t, tree, strings.Repeat("n", 230), commit+"\n") }, strings.Repeat("n", 230)},
		"a missing file": {func(t *testing.T, tree, _ string) {
			gitIn(t, tree, "switch", "-q", "-c", "bad")
			writeIn(t, tree, "lost", "lost\n")
			commitIn(t, tree, "lost")
			blob := gitIn(t, tree, "rev-parse", "HEAD:lost")
			gitIn(t, tree, "switch", "-q", "main")
			must(t, os.Remove(filepath.Join(tree, ".git/objects", blob[:2], blob[2:])))
		}, "bad"},
		"a corrupt commit": {func(t *testing.T, tree, _ string) {
			gitIn(t, tree, "switch", "-q", "-c", "bad")
			hash := commitIn(t, tree, "lost")
			gitIn(t, tree, "switch", "-q", "main")
			object := filepath.Join(tree, ".git/objects", hash[:2], hash[2:])
			must(t, os.Chmod(object, 0o644))
			must(t, os.WriteFile(object, []byte("rubbish"), 0o644))
		}, "bad"},
		"a loop of names": {func(t *testing.T, tree, _ string) {
			ref(t, tree, "one", "ref: refs/heads/two\n")
			ref(t, tree, "two", "ref: refs/heads/one\n")
		}, ""}, // git lists neither, because the branch does not exist
	} {
		t.Run(name, func(t *testing.T) {
			p := newPerson(t)
			c := p.clone()
			commits := map[string]string{}
			for _, b := range []string{"one-good", "other-good", "third-good"} {
				gitIn(t, c.Tree(), "switch", "-q", "-c", b, "main")
				commits[b] = commitIn(t, c.Tree(), b)
			}
			gitIn(t, c.Tree(), "switch", "-q", "main")
			commits["main"] = commitIn(t, c.Tree(), "main")
			tt.spoil(t, c.Tree(), commits["main"])
			r := p.fetch(c, order())
			for _, b := range r.Branches {
				switch {
				case b.Branch == tt.refused && b.Result == Refused && b.Why != "" && !strings.Contains(b.Why, "\n"):
					t.Log(b.Branch, b.Why)
				case b.Result == Refused || b.New != commits[b.Branch]:
					t.Errorf("fetched %+v", b)
				}
			}
			want := len(commits)
			if tt.refused != "" {
				want++
			}
			if len(r.Branches) != want {
				t.Errorf("fetched %+v", r.Branches)
			}
			for b, commit := range commits {
				if got := p.git("rev-parse", "bothy/box/"+b); got != commit {
					t.Errorf("%s is %s, want %s", b, got, commit)
				}
			}
			p.git("fsck", "--strict")
			if tt.refused != "" && c.Pending() == NoWork {
				t.Error("what was refused counts for nothing")
			}
		})
	}
}

// ref writes a branch of a repository as git does not.
func ref(t *testing.T, tree, name, text string) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(tree, ".git/refs/heads", name), []byte(text), 0o644))
}

// TestFetchOfManyBranches checks that of too many branches some come, including the one that is
// checked out.
func TestFetchOfManyBranches(t *testing.T) {
	racetest.Skip(t)
	p := newPerson(t)
	c := p.clone()
	gitIn(t, c.Tree(), "switch", "-q", "-c", "zz-current")
	commit := commitIn(t, c.Tree(), "current")
	var packed strings.Builder
	for i := range MaxBranches + 20 {
		fmt.Fprintf(&packed, "%s refs/heads/b%04d\n", commit, i)
	}
	must(t, os.WriteFile(filepath.Join(c.Tree(), ".git/packed-refs"), []byte(packed.String()), 0o644))
	r := p.fetch(c, order())
	if len(r.Branches) != MaxBranches || !r.More || r.Branches[0].Branch != "zz-current" {
		t.Errorf("%d came, of more: %v", len(r.Branches), r.More)
	}
	if got := p.git("rev-parse", "bothy/box"); got != commit {
		t.Errorf("bothy/box is %s, want %s", got, commit)
	}
	if c.Pending() == NoWork {
		t.Error("what was not looked at counts for nothing")
	}
	if r := p.fetch(c, order("b1015")); len(r.Branches) != 1 || r.Branches[0].Result != New || r.More {
		t.Errorf("of one that is named: %+v", r.Branches)
	}
}

// TestReferencesCollide checks that a reference is refused if another one has its file, or its
// directory.
func TestReferencesCollide(t *testing.T) {
	for _, tt := range []struct {
		a, b            string
		collide, folded bool
	}{
		{"refs/a", "refs/a", true, true},
		{"refs/a", "refs/A", false, true},
		{"refs/a/b", "refs/A", false, true},
		{"refs/a/b", "refs/a", true, true},
		{"refs/ab", "refs/a", false, false},
	} {
		for _, folds := range []bool{false, true} {
			want := tt.collide
			if folds {
				want = tt.folded
			}
			if got := (&refs{folds: folds}).collide(tt.a, tt.b); got != want {
				t.Errorf("%s and %s, folded %v: %v", tt.a, tt.b, folds, got)
			}
		}
	}
}
