package beneath

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// openTree makes a directory with empty files, and opens it.
func openTree(t *testing.T, files ...string) *Dir {
	t.Helper()
	at, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	for _, name := range files {
		must(t, os.MkdirAll(filepath.Join(at, filepath.Dir(name)), 0o700))
		must(t, os.WriteFile(filepath.Join(at, name), nil, 0o600))
	}
	d, err := OpenTop(at)
	must(t, err)
	t.Cleanup(d.Close)
	return d
}

func TestEachFile(t *testing.T) {
	top := openTree(t, "a", "d/b", "d/over/c", "over/d")
	must(t, os.Symlink("a", top.f.Name()+"/link"))
	must(t, os.Symlink("d", top.f.Name()+"/away"))
	must(t, unix.Mkfifo(top.f.Name()+"/pipe", 0o600))
	var got []string
	must(t, top.EachFile([]string{"d/over"}, func(_ *Dir, at string, e DirEntry) { got = append(got, path.Join(at, e.Name)) }))
	slices.Sort(got)
	if want := []string{"a", "d/b", "over/d"}; !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}

// TestEachFileOfRemoved checks that a directory that is removed meanwhile counts as empty.
func TestEachFileOfRemoved(t *testing.T) {
	top := openTree(t, "gone/a", "stays/b")
	seen := 0
	must(t, top.EachFile(nil, func(_ *Dir, at string, _ DirEntry) {
		if seen++; at == "gone" {
			must(t, os.RemoveAll(top.f.Name()+"/gone"))
		}
	}))
	if seen != 2 {
		t.Errorf("%d files were found, want 2", seen)
	}
}
