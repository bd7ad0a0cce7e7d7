package gitdir

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestFind(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git")
	}
	base, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "protocol.file.allow=always", "-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
		cmd.Dir = base
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	at := func(path string) string { return filepath.Join(base, path) }
	git("init", "-q", "main")
	git("-C", "main", "commit", "-q", "--allow-empty", "-m", "first")
	git("-C", "main", "worktree", "add", "-q", at("tree"))
	git("-C", "main", "submodule", "--quiet", "add", at("main"), "libs/sub")
	git("init", "-q", "--separate-git-dir", at("apart"), "files")
	git("clone", "-q", "--bare", "main", "bare.git")
	must(t, os.MkdirAll(at("main/a/b"), 0o755))
	must(t, os.MkdirAll(at("plain"), 0o755))
	must(t, os.MkdirAll(at("linked"), 0o755))
	must(t, os.Symlink(at("main/.git"), at("linked/.git")))
	// A pointer to another directory's git files.
	for name, from := range map[string]string{"thief": "tree", "thief2": "main/libs/sub"} {
		must(t, os.MkdirAll(at(name), 0o755))
		data, err := os.ReadFile(at(from + "/.git"))
		must(t, err)
		text := strings.TrimSpace(strings.TrimPrefix(string(data), "gitdir: "))
		if !filepath.IsAbs(text) {
			text = filepath.Join(at(from), text)
		}
		must(t, os.WriteFile(at(name+"/.git"), []byte("gitdir: "+text+"\n"), 0o644))
	}
	for dir, want := range map[string]*Place{
		"main": nil, "bare.git": nil, "plain": nil,
		"tree":          {Worktree, at("main/.git")},
		"main/libs/sub": {Submodule, at("main/.git/modules/libs/sub")},
		"main/a/b":      {Part, at("main")},
		"files":         {Astray, at("apart")},
		"linked":        {Astray, at("main/.git")},
		"thief":         {Astray, at("main/.git/worktrees/tree")},
		"thief2":        {Astray, at("main/.git/modules/libs/sub")},
	} {
		got, err := Find(at(dir))
		if err != nil || (got == nil) != (want == nil) || got != nil && *got != *want {
			t.Errorf("%s: %+v, %v, want %+v", dir, got, err, want)
		}
	}
	for _, text := range []string{"", "gitdir: ", "gitdir: a\nb", "elsewhere", "gitdir: a\x00b"} {
		must(t, os.WriteFile(at("thief/.git"), []byte(text), 0o644))
		if got, err := Find(at("thief")); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
	must(t, os.WriteFile(at("thief/.git"), []byte("gitdir: "+at("nowhere")), 0o644))
	if got, err := Find(at("thief")); err != nil || got != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
