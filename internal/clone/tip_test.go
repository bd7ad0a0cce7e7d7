package clone

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestTip(t *testing.T) {
	one, two := strings.Repeat("a1", 20), strings.Repeat("b2", 20)
	low, up := t.TempDir(), t.TempDir()
	states := map[string]string{}
	see := func(what, commit string) {
		t.Helper()
		state, got := Tip(up, low)
		if got != commit {
			t.Errorf("%s: the commit is %q, want %q", what, got, commit)
		}
		if before, seen := states[state]; seen {
			t.Errorf("%s looks like %s", what, before)
		}
		states[state] = what
		if again, _ := Tip(up, low); again != state {
			t.Errorf("%s has two states", what)
		}
	}
	see("no repository", "")
	put(t, filepath.Join(low, ".git/HEAD"), "ref: refs/heads/main\n")
	if state, commit := Tip(up, low); state != "" || commit != "" { // git init does not make a commit
		t.Errorf("no commit yet: %q, %q", state, commit)
	}
	put(t, filepath.Join(low, ".git/packed-refs"), one+" refs/heads/main\n")
	see("packed", "")
	put(t, filepath.Join(low, ".git/refs/heads/main"), one+"\n")
	see("the first", one)
	put(t, filepath.Join(up, ".git/refs/heads/main"), two+"\n")
	see("the second, in the layer above", two)
	put(t, filepath.Join(up, ".git/HEAD"), "ref: refs/heads/side\n")
	see("another branch, which has no commit", "")
	put(t, filepath.Join(up, ".git/HEAD"), two+"\n")
	see("no branch", two)
}

// TestTipHostile checks that hostile files of a sandbox neither block Tip nor lead it elsewhere.
func TestTipHostile(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	put(t, secret, strings.Repeat("c3", 20)+"\n")
	for name, plant := range map[string]func(git string) error{
		"a pipe":      func(git string) error { return unix.Mkfifo(filepath.Join(git, "HEAD"), 0o644) },
		"a link out":  func(git string) error { return os.Symlink(secret, filepath.Join(git, "HEAD")) },
		"a directory": func(git string) error { return os.Mkdir(filepath.Join(git, "HEAD"), 0o755) },
		"a reference out": func(git string) error {
			return os.WriteFile(filepath.Join(git, "HEAD"), []byte("ref: ../../secret\n"), 0o644)
		},
		"an absolute one": func(git string) error {
			return os.WriteFile(filepath.Join(git, "HEAD"), []byte("ref: "+secret+"\n"), 0o644)
		},
		"without an end": func(git string) error { return os.WriteFile(filepath.Join(git, "HEAD"), make([]byte, 1<<20), 0o644) },
		"a branch as pipe": func(git string) error {
			put(t, filepath.Join(git, "HEAD"), "ref: refs/heads/main\n")
			if err := os.MkdirAll(filepath.Join(git, "refs/heads"), 0o755); err != nil {
				return err
			}
			return unix.Mkfifo(filepath.Join(git, "refs/heads/main"), 0o644)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			git := filepath.Join(dir, ".git")
			if err := os.Mkdir(git, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := plant(git); err != nil {
				t.Fatal(err)
			}
			if state, commit := Tip(dir); commit != "" || strings.Contains(state, "c3c3") {
				t.Errorf("%q, %q", state, commit)
			}
		})
	}
}
