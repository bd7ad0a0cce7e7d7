package worktrees

import (
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/keeper/keepertest"
)

// TestSignalledDirs makes, renames and writes entries of directories. It checks that each change is
// signalled, and none in a directory that was not added again.
func TestSignalledDirs(t *testing.T) {
	changes := notifyChanges()
	if changes == nil {
		t.Skip("this kernel has no dnotify (CONFIG_DNOTIFY)")
	}
	defer signal.Stop(changes)
	dir, other := t.TempDir(), t.TempDir()
	s := signalledDirs{most: 2}
	add := func(path string, events int) {
		t.Helper()
		f, err := os.Open(path)
		must(t, err)
		s.watchDir(int(f.Fd()), events)
		must(t, f.Close())
	}
	expect := func(what string, told bool) {
		t.Helper()
		limit := keepertest.Patience
		if !told {
			limit = 50 * time.Millisecond
		}
		select {
		case <-changes:
			if !told {
				t.Errorf("%s is told", what)
			}
		case <-time.After(limit):
			if told {
				t.Errorf("%s is not told", what)
			}
		}
	}
	add(dir, dnNames|dnModify)
	add(other, dnNames)
	s.keepSeen()
	file := filepath.Join(dir, "file")
	must(t, os.Mkdir(file+".d", 0o755))
	expect("a new directory", true)
	must(t, os.WriteFile(file, nil, 0o644))
	expect("a new file", true)
	must(t, os.WriteFile(file, []byte("text"), 0o644))
	expect("a write", true)
	must(t, os.Rename(file, filepath.Join(other, "file")))
	expect("a file that was moved", true)
	for quiet := false; !quiet; { // the other directory has changed, too
		select {
		case <-changes:
		case <-time.After(50 * time.Millisecond):
			quiet = true
		}
	}
	must(t, os.WriteFile(filepath.Join(other, "file"), []byte("more"), 0o644))
	expect("a write where only names count", false)
	add(other, dnNames)
	s.keepSeen()
	must(t, os.Remove(file+".d"))
	expect("a change in a directory that was not added again", false)
	must(t, os.Remove(filepath.Join(other, "file")))
	expect("a change in the one that was", true)
}

// TestSignalledDirsBound adds more directories than allowed, and replaces the list of worktrees again
// and again. It checks that the open ones never exceed the limit or the existing ones.
func TestSignalledDirsBound(t *testing.T) {
	const most = 100
	dir := t.TempDir()
	root, err := os.Open(dir)
	must(t, err)
	defer root.Close()
	d := gitDir{root: root, rel: ".git"}
	w := &Guard{lists: signalledDirs{most: most}, entries: signalledDirs{most: most}}
	look := func() {
		w.describeList(d)
		w.lists.keepSeen()
		w.entries.keepSeen()
	}
	list := filepath.Join(dir, ".git", "worktrees")
	for i := range most + 10 {
		must(t, os.MkdirAll(filepath.Join(list, strconv.Itoa(i)), 0o755))
	}
	look()
	if n := len(w.entries.open); n != most {
		t.Errorf("%d directories are open, at most %d may be", n, most)
	}
	for i := range 10 {
		must(t, os.Rename(filepath.Join(dir, ".git"), filepath.Join(dir, strconv.Itoa(i))))
		must(t, os.MkdirAll(filepath.Join(list, "one"), 0o755))
		for range 2 { // the old ones must be closed to make room for others
			look()
		}
		if n := len(w.lists.open) + len(w.entries.open); n != 4 {
			t.Errorf("%d directories are open, for a list of one", n)
		}
	}
}
