package cache

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// holding makes a layer with a word in it.
func holding(word string) func(string) error {
	return func(dir string) error {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, "f"), []byte(word), 0o600)
	}
}

func word(t *testing.T, s Shelf, key string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(s.Layer(key), "f"))
	must(t, err)
	return string(b)
}

func TestSteps(t *testing.T) {
	s := Shelf{t.TempDir()}
	if _, ok := s.Find("k"); ok {
		t.Error("there is one before the first")
	}
	must(t, s.Put("k", Step{Name: "RUN x", Base: "b"}, false, holding("one")))
	must(t, s.Put("k", Step{Name: "RUN x", Base: "b"}, false, holding("two")))
	if got, ok := s.Find("k"); !ok || got.Name != "RUN x" || got.Base != "b" || word(t, s, "k") != "one" {
		t.Errorf("%+v, %v, %s", got, ok, word(t, s, "k"))
	}
	must(t, s.Put("k", Step{}, true, holding("three")))
	if got := word(t, s, "k"); got != "three" {
		t.Errorf("it holds %s", got)
	}
	must(t, os.Mkdir(filepath.Join(s.stepsDir(), gonePrefix+"k"), 0o700)) // as left by a killed process
	must(t, os.WriteFile(filepath.Join(s.stepsDir(), gonePrefix+"k", "f"), nil, 0o600))
	must(t, s.Put("k", Step{Name: "RUN x"}, true, holding("three")))
	must(t, os.RemoveAll(filepath.Join(s.stepsDir(), gonePrefix+"k")))
	failed := errors.New("failed")
	if err := s.Put("other", Step{}, false, func(string) error { return failed }); !errors.Is(err, failed) {
		t.Error(err)
	}
	must(t, os.WriteFile(filepath.Join(s.Path("k"), aboutName), []byte("{"), 0o600))
	if _, ok := s.Find("k"); ok {
		t.Error("a damaged one is found")
	}
	must(t, s.Put("k", Step{}, false, holding("four")))
	if got := word(t, s, "k"); got != "four" {
		t.Errorf("it holds %s", got)
	}
	list, err := s.Steps()
	if err != nil || len(list) != 1 || list[0].Key != "k" {
		t.Errorf("%v, %v", list, err)
	}
	must(t, s.Remove(s.Path("k")))
	must(t, s.Remove(s.Path("k")))
	entries, err := os.ReadDir(s.stepsDir())
	if err != nil || len(entries) != 0 {
		t.Errorf("%v, %v", entries, err)
	}
}

func TestWork(t *testing.T) {
	s := Shelf{t.TempDir()}
	w, err := s.Begin()
	must(t, err)
	if !s.Busy() || !Running(w.Lock()) {
		t.Error("nothing runs")
	}
	must(t, os.WriteFile(filepath.Join(w.Context(), "f"), nil, 0o600))
	must(t, os.Mkdir(filepath.Join(s.Dir, cachesName), 0o700))
	half := filepath.Join(s.Dir, cachesName, newPrefix+"x")
	must(t, os.Mkdir(half, 0o700))
	s.Sweep()
	if _, err := os.Stat(w.Context()); err != nil {
		t.Error("a build that runs was swept")
	}
	if _, err := os.Stat(half); err != nil {
		t.Error("what may be somebody's was swept")
	}
	if err := s.Remove(half); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("something is removed while a build runs: %v", err)
	}
	w.lock.Unlock() // as if killed
	w.shelf.Unlock()
	if s.Busy() {
		t.Error("it runs")
	}
	s.Sweep()
	for _, p := range []string{w.dir, half} {
		if _, err := os.Stat(p); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", p, err)
		}
	}
	if Running(w.Lock()) {
		t.Error("what is gone runs")
	}
	if _, err := os.Lstat(w.Lock()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("who asks makes it: %v", err)
	}
	w, err = s.Begin()
	must(t, err)
	must(t, w.End())
	if left, _ := filepath.Glob(filepath.Join(s.Dir, workPrefix+"*")); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

// TestBegin checks that builds can begin while others check whether any runs.
func TestBegin(t *testing.T) {
	s := Shelf{t.TempDir()}
	done := make(chan struct{})
	var looks sync.WaitGroup
	for range 4 {
		looks.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					s.Busy()
					s.Sweep()
					_ = s.Remove(s.Path("nothing"))
				}
			}
		})
	}
	for range 200 {
		w, err := s.Begin()
		if err != nil {
			t.Error(err)
			break
		}
		if !Running(w.Lock()) {
			t.Error("it does not run")
		}
		if err := w.End(); err != nil {
			t.Error(err)
		}
	}
	close(done)
	looks.Wait()
}

func TestCaches(t *testing.T) {
	s := Shelf{t.TempDir()}
	lock, err := s.TryCache("/a")
	must(t, err)
	if _, err := s.TryCache("/a"); !errors.Is(err, store.ErrLocked) {
		t.Error(err)
	}
	other, err := s.TryCache("/b")
	must(t, err)
	other.Unlock()
	lock.Unlock()
	must(t, os.WriteFile(s.Cache("/a"), nil, 0o600))
	then := time.Now().Add(-time.Hour)
	must(t, os.Chtimes(s.Cache("/a"), then, then))
	list, err := s.Caches()
	if err != nil || len(list) != 1 || Used(list[0]).Sub(then).Abs() > time.Second {
		t.Errorf("%v, %v", list, err)
	}
}
