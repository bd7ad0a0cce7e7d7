package engine

import (
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

// TestConcurrentCreate checks that sandboxes that are created at once get names of their own.
func TestConcurrentCreate(t *testing.T) {
	e := newEngine(t)
	const workers, each = 6, 6
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range each {
				if err := e.Create(t.Context(), wish("/srv/app")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	got := names(t, e)
	if n := len(slices.Compact(slices.Clone(got))); len(got) != workers*each || n != len(got) {
		t.Errorf("%d sandboxes with %d names: %q", len(got), n, got)
	}
	if left, _ := filepath.Glob(filepath.Join(e.Store.Path(), "sandboxes", ".*")); len(left) != 0 {
		t.Errorf("left behind: %q", left)
	}
}

// TestConcurrentSameName checks that only one of several callers gets the same name.
func TestConcurrentSameName(t *testing.T) {
	e := newEngine(t)
	var wg sync.WaitGroup
	errs := make(chan error, 8)
	for range cap(errs) {
		wg.Go(func() {
			sb := wish("/srv/app")
			sb.Name = "box"
			errs <- e.Create(t.Context(), sb)
		})
	}
	wg.Wait()
	close(errs)
	made := 0
	for err := range errs {
		if err == nil {
			made++
		} else if !errors.Is(err, spec.ErrConflict) {
			t.Error(err)
		}
	}
	if got := names(t, e); made != 1 || !slices.Equal(got, []string{"box"}) {
		t.Errorf("%d were made: %q", made, got)
	}
}
