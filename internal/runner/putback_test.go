package runner

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/archive"
)

// look reads the current state of the protected files.
func look(t *testing.T, at string) ([]byte, listing) {
	t.Helper()
	var b bytes.Buffer
	if err := archive.Write(&b, at, archive.WriteOptions{Straight: true, Special: true}); err != nil {
		return nil, listing{sum: absent, entries: map[string]item{}}
	}
	l, err := listArchive(bytes.NewReader(b.Bytes()), map[string]item{})
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), l
}

// back puts them back, as the program inside does.
func back(t *testing.T, dir, rel string, kept []byte, p repair) error {
	t.Helper()
	var b bytes.Buffer
	if err := p.write(&b, kept); err != nil {
		t.Fatal(err)
	}
	return archive.PutBack(&b, dir, rel)
}

// TestPutBack makes random changes to protected files, and to the path to them. Afterwards they
// are as before, modes included, and the targets of links are untouched.
func TestPutBack(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 3))
	names := []string{"one", "two", "-x", "a b", "line\nbreak", "\x1b[31m", "sub/one", "sub/two", "sub/deep/one", "link"}
	for round := range 200 {
		top, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		dir, outside := filepath.Join(top, "proj"), filepath.Join(top, "outside")
		at := filepath.Join(dir, "way", "test")
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatalf("seed %d, round %d: %v", seed, round, err)
			}
		}
		must(os.MkdirAll(filepath.Join(at, "sub", "deep"), 0o755))
		must(os.MkdirAll(outside, 0o755))
		must(os.WriteFile(filepath.Join(outside, "one"), []byte("not yours"), 0o600))
		for _, name := range names[:len(names)-1] {
			if r.IntN(4) > 0 {
				must(os.WriteFile(filepath.Join(at, name), fmt.Append(nil, name), 0o644))
			}
		}
		must(os.Symlink("one", filepath.Join(at, "link")))
		if r.IntN(4) == 0 {
			must(os.WriteFile(filepath.Join(at, "hard"), []byte("hard"), 0o644))
			must(os.Link(filepath.Join(at, "hard"), filepath.Join(at, "hard too")))
		}
		kept, was := look(t, at)
		if r.IntN(6) == 0 { // the file did not exist
			must(os.RemoveAll(at))
			kept, was = look(t, at)
		}
		for range 1 + r.IntN(4) {
			name := filepath.Join(at, names[r.IntN(len(names))])
			if to, err := filepath.EvalSymlinks(filepath.Dir(name)); err == nil && to != filepath.Dir(name) || isLink(filepath.Join(dir, "way")) || isLink(at) || isLink(filepath.Join(at, "sub")) {
				continue // the target of a link is not protected
			}
			switch r.IntN(9) {
			case 0:
				_ = os.RemoveAll(name)
			case 1:
				_ = os.Remove(name)
				_ = os.WriteFile(name, []byte("changed"), 0o644)
			case 2:
				_ = unix.Fchmodat(unix.AT_FDCWD, name, 0o777, unix.AT_SYMLINK_NOFOLLOW)
			case 3:
				_ = os.RemoveAll(name)
				_ = os.Symlink(filepath.Join(outside, "one"), name)
			case 4:
				_ = os.RemoveAll(name)
				_ = os.MkdirAll(filepath.Join(name, "x"), 0o755)
			case 5:
				_ = os.RemoveAll(name)
				_ = unix.Mkfifo(name, 0o600)
			case 6:
				_ = os.RemoveAll(filepath.Join(at, "sub"))
				_ = os.Symlink(outside, filepath.Join(at, "sub"))
			case 7:
				_ = os.RemoveAll(at)
				_ = os.Symlink(outside, at)
			case 8:
				_ = os.RemoveAll(filepath.Join(dir, "way"))
				_ = os.Symlink(outside, filepath.Join(dir, "way"))
			}
		}
		now, is := look(t, at)
		entries := is.entries
		if info, err := os.Lstat(at); now == nil && (err != nil && !os.IsNotExist(err) || err == nil && info.Mode()&os.ModeSymlink != 0) || isLink(filepath.Join(dir, "way")) {
			entries = nil // the state is unreadable
		}
		p := planOf("test", was.entries, entries)
		must(back(t, dir, "way/test", kept, p))
		if _, again := look(t, at); again.sum != was.sum {
			t.Fatalf("seed %d, round %d: it is not what it was: %+v", seed, round, p)
		}
		must(back(t, dir, "way/test", kept, planOf("test", was.entries, was.entries))) // again
		if text, err := os.ReadFile(filepath.Join(outside, "one")); err != nil || string(text) != "not yours" {
			t.Fatalf("seed %d, round %d: outside there is %q, %v", seed, round, text, err)
		}
		if list, err := os.ReadDir(outside); err != nil || len(list) != 1 {
			t.Fatalf("seed %d, round %d: outside there are %v, %v", seed, round, list, err)
		}
		if info, err := os.Stat(filepath.Join(outside, "one")); err != nil || info.Mode().Perm() != 0o600 {
			t.Fatalf("seed %d, round %d: outside it is %v, %v", seed, round, info.Mode(), err)
		}
	}
}

func isLink(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&os.ModeSymlink != 0
}

// TestPutBackHostile checks that paths that lead out of the protected tree are refused.
func TestPutBackHostile(t *testing.T) {
	dir := t.TempDir()
	for _, rel := range []string{".", "..", "../x", "/etc"} {
		if err := back(t, dir, rel, nil, repair{}); err == nil {
			t.Errorf("%q is put back", rel)
		}
	}
	for _, gone := range []string{"other", "../x", "/etc", "test/../../x"} {
		if err := back(t, dir, "test", nil, repair{gone: []string{gone}}); err == nil {
			t.Errorf("%q is removed", gone)
		}
	}
}

// TestPutBackLittle checks that only changed files are written again: other processes may have the rest
// open.
func TestPutBackLittle(t *testing.T) {
	at := filepath.Join(t.TempDir(), "test")
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"one", "two"} {
		if err := os.WriteFile(filepath.Join(at, name), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kept, was := look(t, at)
	before, _ := os.Stat(filepath.Join(at, "two"))
	if err := os.WriteFile(filepath.Join(at, "one"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	_, is := look(t, at)
	p := planOf("test", was.entries, is.entries)
	if !slices.Equal(p.names, []string{"test/one"}) || len(p.gone) > 0 {
		t.Errorf("it would do %+v", p)
	}
	if err := back(t, filepath.Dir(at), "test", kept, p); err != nil {
		t.Fatal(err)
	}
	if after, _ := os.Stat(filepath.Join(at, "two")); !os.SameFile(before, after) {
		t.Error("another file was written, too")
	}
}
