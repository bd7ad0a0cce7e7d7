package store

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMeter(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, n int) string {
		path := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(strings.Repeat("x", n)), 0o600))
		return path
	}
	one := write("a/one", 1<<20)
	write("a/deep/er/two", 1<<20)
	must(t, os.MkdirAll(filepath.Join(dir, "b"), 0o755))
	must(t, os.Link(one, filepath.Join(dir, "b", "one again")))
	must(t, os.Symlink("/", filepath.Join(dir, "b", "all the world")))
	must(t, os.Symlink(filepath.Join(dir, "a"), filepath.Join(dir, "b", "a")))
	sparse, err := os.Create(filepath.Join(dir, "b", "sparse"))
	must(t, err)
	must(t, sparse.Truncate(1<<40))
	must(t, sparse.Close())

	between := func(what string, got, least, most int64) {
		t.Helper()
		if got < least || got > most {
			t.Errorf("%s takes %d bytes, not %d to %d", what, got, least, most)
		}
	}
	var m Meter
	between("a", m.Add(filepath.Join(dir, "a")), 2<<20, 3<<20)
	between("b", m.Add(filepath.Join(dir, "b")), 0, 1<<19)
	between("what is not there", m.Add(filepath.Join(dir, "c")), 0, 0)
	if m.Unread != 0 {
		t.Errorf("%d directories were not read", m.Unread)
	}
	var alone Meter
	between("b, alone", alone.Add(filepath.Join(dir, "b")), 1<<20, 2<<20)
}

// A tree that is deeper than files may be open is measured as far as that goes,
// and the rest is told of.
func TestMeterDeep(t *testing.T) {
	dir := t.TempDir()
	path := dir + strings.Repeat("/d", meterDepth+50)
	must(t, os.MkdirAll(path, 0o700))
	var m Meter
	m.Add(dir)
	if m.Unread != 1 {
		t.Errorf("%d directories were not read", m.Unread)
	}
}
