package dirwatch

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// start watches a new directory, and returns its changes.
func start(t *testing.T, most int) (w *Watcher, dir string, changes chan Change) {
	t.Helper()
	w, err := New(most)
	if err != nil {
		t.Fatal(err)
	}
	dir, changes = t.TempDir(), make(chan Change, maxChanges)
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(context.Background(), func(list []Change) {
			for _, c := range list {
				changes <- c
			}
		})
	}()
	t.Cleanup(func() { w.Close(); <-done })
	return w, dir, changes
}

func add(t *testing.T, w *Watcher, dir string) error {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	return w.Add(fd, "d")
}

// wait returns the change that it waits for, and how many others came before.
func wait(t *testing.T, changes chan Change, name string, event uint32) (before int) {
	t.Helper()
	for {
		select {
		case c := <-changes:
			if c.Name == name && c.Mask&event != 0 {
				return before
			}
			before++
		case <-time.After(time.Minute):
			t.Fatalf("no event %#x of %q", event, name)
		}
	}
}

func TestRun(t *testing.T) {
	w, dir, changes := start(t, 1)
	if err := add(t, w, dir); err != nil {
		t.Fatal(err)
	}
	name := "a\nb\xff"
	if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wait(t, changes, name, unix.IN_CREATE)
	f, err := os.Create(filepath.Join(dir, "many"))
	if err != nil {
		t.Fatal(err)
	}
	for range 10000 {
		fmt.Fprintln(f, "x")
	}
	f.Close()
	if n := wait(t, changes, "many", unix.IN_CLOSE_WRITE); n > 2000 {
		t.Errorf("%d changes for one file that was written", n)
	}
	if err := os.Rename(f.Name(), filepath.Join(dir, "other")); err != nil {
		t.Fatal(err)
	}
	wait(t, changes, "many", unix.IN_MOVED_FROM)
	wait(t, changes, "other", unix.IN_MOVED_TO)
}

// TestAddBounds checks that the number of watched directories is bounded, and that a removed directory
// makes room for another.
func TestAddBounds(t *testing.T) {
	w, dir, changes := start(t, 2)
	gone := filepath.Join(dir, "gone")
	if err := os.Mkdir(gone, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{dir, gone} {
		if err := add(t, w, d); err != nil {
			t.Fatal(err)
		}
	}
	if add(t, w, t.TempDir()) == nil {
		t.Error("a third directory is watched")
	}
	if err := os.Remove(gone); err != nil {
		t.Fatal(err)
	}
	wait(t, changes, "gone", unix.IN_DELETE)
	if err := add(t, w, t.TempDir()); err != nil {
		t.Error(err)
	}
}
