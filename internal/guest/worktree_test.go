package guest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/bothy-dev/bothy/internal/wire"
)

// TestPlaceholders checks where placeholders are made for the entries of git directories, and that each
// one is removed with its worktree.
func TestPlaceholders(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: init, which makes placeholders, is root inside")
	}
	dir := t.TempDir()
	at := func(p string) string { return filepath.Join(dir, p) }
	register := func(id, gitdir string) {
		t.Helper()
		for _, err := range []error{
			os.MkdirAll(at("shared/.git/worktrees/"+id), 0o755),
			os.WriteFile(at("shared/.git/worktrees/"+id+"/gitdir"), []byte(gitdir), 0o644),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	register("absolute", at("a/b/.git")+"\n")
	register("relative", "../../../../rel/.git\n")
	register("within", at("shared/within/.git")+"\n")
	register("private", at("shared/private/tree/.git")+"\n")
	register("linked", at("link/x/.git")+"\n")
	register("mine", at("mine/.git")+"\n")
	register("empty", at("empty/.git")+"\n")
	register("root", "/.git\n")
	register("none", "\n")
	for _, err := range []error{
		os.Symlink("shared", at("link")),
		os.MkdirAll(at("shared/private"), 0o755),
		os.Mkdir(at("mine"), 0o755),
		os.WriteFile(at("mine/.git"), []byte("gitdir: x\n"), 0o644),
		os.Mkdir(at("empty"), 0o755),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	q := wire.Worktrees{GitDirs: []string{at("shared/.git"), at("nothing/.git")}, Mounts: []wire.Place{
		{Path: at("shared")}, {Path: at("shared/private"), Own: true},
	}}
	var p placeholders
	update := func() {
		t.Helper()
		if err := p.update(q); err != nil {
			t.Fatal(err)
		}
	}
	wants := func(want map[string]bool) {
		t.Helper()
		for place, there := range want {
			if isPlaceholder(at(place)) != there {
				t.Errorf("placeholder %s: want %v", place, there)
			}
		}
	}
	update()
	wants(map[string]bool{"empty/.git": false}) // a program may be making this worktree
	q.Fresh = true
	update()
	wants(map[string]bool{
		"a/b/.git": true, "rel/.git": true, "shared/within/.git": false, "shared/private/tree/.git": true,
		"shared/x/.git": false, "mine/.git": false, "empty/.git": true,
	})
	if err := os.RemoveAll(at("shared/.git/worktrees/absolute")); err != nil {
		t.Fatal(err)
	}
	update()
	wants(map[string]bool{"a/b/.git": false})
	register("absolute", at("a/b/.git"))
	update()
	p = placeholders{} // like after another start
	update()
	wants(map[string]bool{"a/b/.git": true})
	q.GitDirs = nil
	update()
	wants(map[string]bool{"a/b/.git": false, "rel/.git": false, "shared/private/tree/.git": false, "empty/.git": false})
	for place, there := range map[string]bool{"a": true, "a/b": false, "rel": false, "empty": true, "mine/.git": true} {
		if _, err := os.Lstat(at(place)); (err == nil) != there {
			t.Errorf("%s: %v", place, err)
		}
	}
}
