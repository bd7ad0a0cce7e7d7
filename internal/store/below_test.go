package store

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestBelow checks that a file is placed once, and that only a regular file of a limited size is
// read.
func TestBelow(t *testing.T) {
	path := t.TempDir()
	dir, err := os.OpenRoot(path)
	must(t, err)
	defer dir.Close()
	must(t, PlaceBelow(dir, "a/b", "one"))
	must(t, PlaceBelow(dir, "a/b", "two"))
	if text, ok := RegularBelow(dir, "a/b", 3); !ok || string(text) != "one" {
		t.Errorf("%q, %v", text, ok)
	}
	if _, ok := RegularBelow(dir, "a/b", 2); ok {
		t.Error("a file is read that is too large")
	}
	must(t, os.Symlink("a/b", filepath.Join(path, "link")))
	must(t, unix.Mkfifo(filepath.Join(path, "pipe"), 0o600))
	for _, name := range []string{"a", "link", "pipe", "none"} {
		if _, ok := RegularBelow(dir, name, 10); ok {
			t.Errorf("%s is read", name)
		}
	}
	if _, err := ReadSmall(filepath.Join(path, "link")); err == nil {
		t.Error("a link is followed")
	}
}

// TestHas checks that a sandbox exists until it is removed, readable or not.
func TestHas(t *testing.T) {
	s := open(t)
	sb := wish("box")
	if s.Has(sb.ID) {
		t.Error("a sandbox exists before it is created")
	}
	d, err := s.Create(sb)
	must(t, err)
	must(t, os.WriteFile(d.Spec(), []byte("{"), 0o600))
	if !s.Has(sb.ID) {
		t.Error("a sandbox that cannot be read does not exist")
	}
}
