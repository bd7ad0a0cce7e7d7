package machine

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMakePoint checks that a mount point is made at the given path, and that no link leads it elsewhere:
// neither out, nor into a directory beside it, which a mount of the host may cover.
func TestMakePoint(t *testing.T) {
	home, outside := t.TempDir(), t.TempDir()
	for _, err := range []error{
		os.MkdirAll(filepath.Join(home, "data"), 0o755),
		os.Symlink("data", filepath.Join(home, "beside")),
		os.Symlink(outside, filepath.Join(home, "out")),
		os.Mkdir(filepath.Join(home, "real"), 0o755),
		os.Symlink("../data/victim", filepath.Join(home, "real", "link")),
		os.WriteFile(filepath.Join(home, "file"), []byte("own"), 0o644),
		unix.Mkfifo(filepath.Join(home, "pipe"), 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		rel   string
		asDir bool
		good  bool
	}{
		{"a/b/c", true, true},
		{"a/b/c", true, true},
		{"a/file", false, true},
		{"a/file", false, true},
		{"file", false, true},
		{"beside", true, false},
		{"beside/x", true, false},
		{"beside/x", false, false},
		{"out/x", true, false},
		{"out/x", false, false},
		{"real/link", false, false},
		{"real/link", true, false},
		{"file/x", true, false},
		{"file", true, false},
		{"a", false, false},
		{"pipe", false, false},
	} {
		if err := makePoint(home, c.rel, c.asDir); (err == nil) != c.good {
			t.Errorf("%s, directory %v: %v", c.rel, c.asDir, err)
		}
	}
	for _, dir := range []string{outside, filepath.Join(home, "data")} {
		if list, _ := os.ReadDir(dir); len(list) != 0 {
			t.Errorf("%s has %v", dir, list)
		}
	}
	if b, _ := os.ReadFile(filepath.Join(home, "file")); string(b) != "own" {
		t.Errorf("the file has %q", b)
	}
}

// TestOpenPoint checks that an existing mount point is opened with its type, and through no link.
func TestOpenPoint(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	for _, err := range []error{
		os.MkdirAll(filepath.Join(dir, "a", "b"), 0o755),
		os.WriteFile(filepath.Join(dir, "a", "file"), nil, 0o644),
		os.Symlink("a", filepath.Join(dir, "link")),
		os.Symlink(outside, filepath.Join(dir, "out")),
		os.Symlink("file", filepath.Join(dir, "a", "other")),
		unix.Mkfifo(filepath.Join(dir, "pipe"), 0o644),
		os.Mkdir(filepath.Join(outside, "x"), 0o755),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		rel   string
		asDir bool
		want  error
	}{
		{"a", true, nil},
		{"a/b", true, nil},
		{"a/file", false, nil},
		{"a/b", false, unix.EINVAL},
		{"a/file", true, unix.ENOTDIR},
		{"a/other", false, unix.EINVAL},
		{"link", true, unix.ENOTDIR},
		{"link/b", true, unix.ENOTDIR},
		{"link/file", false, unix.ENOTDIR},
		{"out/x", true, unix.ENOTDIR},
		{"pipe", false, unix.EINVAL},
		{"a/none", true, unix.ENOENT},
	} {
		if err := findPoint(dir, c.rel, c.asDir); !errors.Is(err, c.want) {
			t.Errorf("%s, directory %v: %v, want %v", c.rel, c.asDir, err, c.want)
		}
	}
}
