package run

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// elsewhere makes a run whose files are in another directory.
func elsewhere(t *testing.T, root, into, id string) (*Run, error) {
	t.Helper()
	return CreateFlow(root, into, id, map[string]int{"n": 7}, func(dir string) error { return os.Mkdir(filepath.Join(dir, "inputs"), 0o700) })
}

// only checks that a directory contains these names and no others.
func only(t *testing.T, dir string, want ...string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	must(t, err)
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	if !slices.Equal(names, want) {
		t.Errorf("in %s there are %q, want %q", dir, names, want)
	}
}

// TestElsewhere checks that files elsewhere are removed with the run, and that the run is known after
// they are gone.
func TestElsewhere(t *testing.T) {
	root, into := filepath.Join(t.TempDir(), "runs"), t.TempDir()
	for range 2 {
		r, err := elsewhere(t, root, into, "one")
		must(t, err)
		only(t, into, "one")
		only(t, r.Dir(), "inputs")
		only(t, root, ".at-one", "one")
		if found, err := FindOf(root, Flows, "one"); err != nil || found.Dir() != filepath.Join(into, "one") || found.Gone() {
			t.Errorf("found is %+v, %v", found, err)
		}
		if list, err := Elsewhere(root); err != nil || !slices.Equal(list, []string{r.Dir()}) {
			t.Errorf("elsewhere are %q, %v", list, err)
		}
		must(t, r.Remove())
		only(t, into)
		only(t, root)
	}
	r, err := elsewhere(t, root, into, "two")
	must(t, err)
	must(t, os.RemoveAll(into)) // find may remove it, too
	found, err := FindOf(root, Flows, "two")
	if err != nil || !found.Gone() {
		t.Errorf("it is %+v, %v", found, err)
	}
	plan := map[string]int{}
	if _, err := found.Plan(&plan); err != nil || plan["n"] != 7 {
		t.Errorf("the plan is %v, %v", plan, err)
	}
	must(t, r.Remove())
	only(t, root)
}

// moved makes a run whose files were made on another disk than the current one.
func moved(t *testing.T, r *Run, inode func(uint64) uint64) {
	t.Helper()
	plan := plan{}
	path := filepath.Join(r.dir, planName)
	must(t, store.ReadJSON(path, &plan))
	plan.Place.Device++
	plan.Place.Inode = inode(plan.Place.Inode)
	must(t, store.WriteJSON(path, plan))
}

// TestAway checks that files on a disk that is not mounted do not count as removed.
func TestAway(t *testing.T) {
	same, other := func(n uint64) uint64 { return n }, func(n uint64) uint64 { return n + 1 }
	for name, c := range map[string]struct {
		inode  func(uint64) uint64
		remove func(r *Run, into string) string
		away   bool
	}{
		"not mounted":           {other, func(r *Run, _ string) string { return r.Dir() }, true},
		"nor the way there":     {same, func(_ *Run, into string) string { return into }, true},
		"after a start":         {same, func(r *Run, _ string) string { return r.Dir() }, false},
		"of one that is there":  {other, func(*Run, string) string { return "" }, false},
		"on the disk, or above": {nil, func(_ *Run, into string) string { return into }, false},
	} {
		t.Run(name, func(t *testing.T) {
			root, into := filepath.Join(t.TempDir(), "runs"), filepath.Join(t.TempDir(), "disk", "place")
			must(t, os.MkdirAll(into, 0o700))
			r, err := elsewhere(t, root, into, "one")
			must(t, err)
			if c.inode != nil {
				moved(t, r, c.inode)
			}
			gone := c.remove(r, into)
			must(t, os.RemoveAll(gone))
			err = r.Away()
			if errors.Is(err, spec.ErrNotFound) != c.away || r.Gone() != (gone != "" && !c.away) {
				t.Errorf("gone: %t; away: %v", r.Gone(), err)
			}
		})
	}
}

// TestElsewhereTaken checks that a run never uses a name that any file has there, and that the file is
// unchanged.
func TestElsewhereTaken(t *testing.T) {
	root, into := filepath.Join(t.TempDir(), "runs"), t.TempDir()
	must(t, os.Mkdir(filepath.Join(into, "one"), 0o700))
	must(t, os.Mkdir(filepath.Join(into, hiddenPrefix+"two"), 0o700))
	_, err := Create(root, "three", nil)
	must(t, err)
	for _, id := range []string{"one", "two", "three"} {
		if _, err := elsewhere(t, root, into, id); !errors.Is(err, spec.ErrConflict) {
			t.Errorf("%s: %v", id, err)
		}
	}
	only(t, root, "three")
	only(t, into, hiddenPrefix+"two", "one")
}

// TestElsewhereAtOnce checks that many concurrent callers make each run there once.
func TestElsewhereAtOnce(t *testing.T) {
	root, into := filepath.Join(t.TempDir(), "runs"), t.TempDir()
	must(t, os.Mkdir(root, 0o700))
	var making sync.WaitGroup
	made := make(chan string, 32)
	for n := range 8 {
		making.Go(func() {
			for k := range 4 {
				id := string(rune('a' + (n+k)%4))
				if _, err := elsewhere(t, root, into, id); err == nil {
					made <- id
				} else if !errors.Is(err, spec.ErrConflict) {
					t.Error(err)
				}
				if list, err := ListOf(root, Flows); err != nil || slices.ContainsFunc(list, (*Run).Gone) {
					t.Errorf("there are %v, %v", list, err)
				}
			}
		})
	}
	making.Wait()
	close(made)
	var ids []string
	for id := range made {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	if !slices.Equal(ids, []string{"a", "b", "c", "d"}) {
		t.Errorf("made are %q", ids)
	}
	only(t, into, "a", "b", "c", "d")
}

// TestElsewhereKilled checks a process that is killed at any point while it makes or removes a run:
// either the run exists with its files, or the next run that is made sweeps it.
func TestElsewhereKilled(t *testing.T) {
	for name, c := range map[string]struct {
		leave func(r *Run, root string) error
		there bool
	}{
		"without the name of its files": {func(r *Run, _ string) error { return os.Rename(r.files, hidden(r.files)) }, true},
		"before it was there": {func(r *Run, root string) error {
			return errors.Join(os.Rename(r.files, hidden(r.files)), os.Rename(r.dir, filepath.Join(root, newPrefix+r.ID)))
		}, false},
		"before its files were": {func(r *Run, root string) error {
			making := os.WriteFile(filepath.Join(r.dir, makingName), nil, 0o600)
			return errors.Join(making, os.RemoveAll(r.files), os.Rename(r.dir, filepath.Join(root, newPrefix+r.ID)))
		}, false},
		"before its files were removed": {func(r *Run, root string) error { return os.Rename(r.dir, filepath.Join(root, gonePrefix+r.ID)) }, false},
		"before the link was": {func(r *Run, root string) error {
			return errors.Join(os.RemoveAll(r.files), os.Rename(r.dir, filepath.Join(root, gonePrefix+r.ID)))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			root, into := filepath.Join(t.TempDir(), "runs"), t.TempDir()
			r, err := elsewhere(t, root, into, "one")
			must(t, err)
			must(t, c.leave(r, root))
			long := time.Now().Add(-2 * abandonedAfter)
			_ = os.Chtimes(filepath.Join(root, newPrefix+r.ID), long, long)
			_, err = elsewhere(t, root, into, "two")
			must(t, err)
			list, err := ListOf(root, Flows)
			must(t, err)
			if !c.there {
				only(t, root, ".at-two", "two")
				only(t, into, "two")
				return
			}
			if len(list) != 2 || slices.ContainsFunc(list, (*Run).Gone) {
				t.Errorf("there are %v", list)
			}
			only(t, into, "one", "two")
		})
	}
}
