package rootfs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

func TestLeaves(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	was := storeCount{Version: 1, At: now.Add(-30 * time.Second), Taken: 60, Free: 1000, Device: 7}
	is := storeCount{Version: 1, At: now, Free: 961, Device: 7}
	for name, x := range map[string]struct {
		change func(was, is *storeCount)
		room   bool
	}{
		"less fell than was left":   {func(*storeCount, *storeCount) {}, true},
		"as much fell":              {func(_, is *storeCount) { is.Free = 960 }, false},
		"more is free":              {func(_, is *storeCount) { is.Free = 2000 }, true},
		"it was full":               {func(was, _ *storeCount) { was.Taken, was.Free = 100, 961 }, false},
		"it was counted long ago":   {func(was, _ *storeCount) { was.At = now.Add(-believed) }, false},
		"it is counted in a minute": {func(was, _ *storeCount) { was.At = now.Add(time.Minute) }, false},
		"on another disk":           {func(_, is *storeCount) { is.Device = 8 }, false},
		"by another Bothy":          {func(was, _ *storeCount) { was.Version = 2 }, false},
		"nonsense":                  {func(was, _ *storeCount) { was.Taken = -1 }, false},
		"nothing":                   {func(was, _ *storeCount) { *was = storeCount{} }, false},
	} {
		w, i := was, is
		x.change(&w, &i)
		if got := w.leaves(100, i); got != x.room {
			t.Errorf("%s: there is room: %v", name, got)
		}
	}
}

func TestRoom(t *testing.T) {
	s, err := store.Open(filepath.Join(t.TempDir(), "state"))
	if err != nil {
		t.Fatal(err)
	}
	r := Room{Store: s}
	large := filepath.Join(s.Path(), "large")
	write := func(n int) {
		t.Helper()
		if err := os.WriteFile(large, make([]byte, n), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(2 << 20)
	if err := r.Check(); err != nil {
		t.Errorf("without a limit: %v", err)
	}
	if _, err := os.Lstat(s.Counted()); err == nil {
		t.Error("without a limit, it was counted")
	}
	r.Limit = 1 << 20
	for range 2 { // a full directory is counted each time
		if err := r.Check(); !errors.Is(err, spec.ErrConflict) || spec.Hint(err) == "" {
			t.Errorf("beyond the limit: %v", err)
		}
	}
	write(100)
	if err := r.Check(); err != nil {
		t.Errorf("when the room is there again: %v", err)
	}
	// Bothy trusts its own count, and nothing that was written in its place.
	if err := store.WriteJSON(s.Counted(), storeCount{Version: 1, At: time.Now(), Taken: 1, Free: 1 << 60, Device: 1}); err != nil {
		t.Fatal(err)
	}
	write(2 << 20)
	if err := r.Check(); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("beyond the limit, with another disk's count: %v", err)
	}
	if err := os.WriteFile(s.Counted(), []byte(`{"version":1,"at":`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.Check(); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("beyond the limit, with half of a count: %v", err)
	}
}

// TestRoomCounted checks that a count is made once, and used as long as it holds.
func TestRoomCounted(t *testing.T) {
	s, err := store.Open(filepath.Join(t.TempDir(), "state"))
	if err != nil {
		t.Fatal(err)
	}
	r := Room{Store: s, Limit: 1 << 50} // more than other processes write meanwhile
	if err := r.Check(); err != nil {
		t.Fatal(err)
	}
	var first, second, third storeCount
	read := func(c *storeCount) {
		t.Helper()
		if err := store.ReadJSON(s.Counted(), c); err != nil {
			t.Fatal(err)
		}
	}
	read(&first)
	if err := r.Check(); err != nil {
		t.Fatal(err)
	}
	if read(&second); !second.At.Equal(first.At) {
		t.Error("it was counted again")
	}
	first.At = first.At.Add(-2 * believed)
	if err := store.WriteJSON(s.Counted(), first); err != nil {
		t.Fatal(err)
	}
	if err := r.Check(); err != nil {
		t.Fatal(err)
	}
	if read(&third); !third.At.After(first.At) || third.Taken <= 0 {
		t.Errorf("it was not counted again: %+v", third)
	}
}
