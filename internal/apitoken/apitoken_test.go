package apitoken

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func openBook(t *testing.T) *Book {
	t.Helper()
	s, err := store.Open(filepath.Join(t.TempDir(), "state"))
	must(t, err)
	return Open(s)
}

// TestTokens makes, finds and removes tokens, and checks that the file has none of their texts.
func TestTokens(t *testing.T) {
	b := openBook(t)
	if list, err := b.List(); err != nil || len(list) != 0 {
		t.Errorf("%v %v", list, err)
	}
	text, made, err := b.Create(Wish{Name: "desk", Scopes: []Scope{Exec, Read, Read}, Sandboxes: []string{"one"}})
	must(t, err)
	other, _, err := b.Create(Wish{Scopes: []Scope{Admin}})
	must(t, err)
	if !Contains(text) || text == other {
		t.Errorf("%s, %s", text, other)
	}
	found, err := b.Check(text)
	must(t, err)
	if found.ID != made.ID || !found.Allows(Read) || !found.Allows(Exec) || found.Allows(Admin) || len(found.Scopes) != 2 || !found.IsFor("one") || found.IsFor("two") {
		t.Errorf("%+v", found)
	}
	for _, wrong := range []string{"", "_", text + "0", text[:len(text)-1], strings.ToUpper(text), strings.TrimPrefix(text, Prefix), Prefix} {
		if _, err := b.Check(wrong); !errors.Is(err, ErrUnknown) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	kept, err := os.ReadFile(b.filePath())
	must(t, err)
	if strings.Contains(string(kept), strings.TrimPrefix(text, Prefix)) {
		t.Errorf("the file has the token: %s", kept)
	}
	if info, err := os.Stat(b.filePath()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	if !b.Holds(found) {
		t.Error("it is not valid")
	}
	must(t, b.Remove(made.ID))
	if _, err := b.Check(text); !errors.Is(err, ErrUnknown) || b.Holds(found) {
		t.Errorf("removed: %v", err)
	}
	if err := b.Remove(made.ID); !errors.Is(err, spec.ErrNotFound) {
		t.Errorf("%v", err)
	}
	_, err = b.Check(other)
	must(t, err)
}

// TestExpiry checks that a token ends at its time.
func TestExpiry(t *testing.T) {
	b := openBook(t)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	b.now = func() time.Time { return now }
	text, made, err := b.Create(Wish{Scopes: []Scope{Read}, Lasts: time.Hour})
	must(t, err)
	now = now.Add(time.Hour - time.Second)
	_, err = b.Check(text)
	must(t, err)
	now = now.Add(time.Second)
	if _, err := b.Check(text); !errors.Is(err, ErrUnknown) || b.Holds(&made) {
		t.Errorf("%v", err)
	}
	if list, err := b.List(); err != nil || len(list) != 1 || !list[0].Expired {
		t.Errorf("%+v %v", list, err)
	}
}

// TestWrongWishes checks that a token needs scopes that exist, and names that sandboxes can have.
func TestWrongWishes(t *testing.T) {
	b := openBook(t)
	for _, w := range []Wish{
		{},
		{Scopes: []Scope{"root"}},
		{Scopes: []Scope{Read}, Sandboxes: []string{"../x"}},
		{Scopes: []Scope{Read}, Lasts: -1},
		{Scopes: []Scope{Read}, Name: "a\nb"},
		{Scopes: []Scope{Read}, Name: strings.Repeat("x", 999)},
	} {
		if _, _, err := b.Create(w); !errors.Is(err, spec.ErrUsage) {
			t.Errorf("%+v: %v", w, err)
		}
	}
}

// TestOpenFile checks that a file that others can read or write vouches for no token.
func TestOpenFile(t *testing.T) {
	b := openBook(t)
	text, _, err := b.Create(Wish{Scopes: []Scope{Read}})
	must(t, err)
	must(t, os.Chmod(b.filePath(), 0o640))
	if _, err := b.Check(text); !errors.Is(err, spec.ErrDenied) {
		t.Errorf("%v", err)
	}
}

// TestConcurrentCreate checks that no token is lost when several are made at once.
func TestConcurrentCreate(t *testing.T) {
	b := openBook(t)
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			if _, _, err := b.Create(Wish{Scopes: []Scope{Read}}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if list, err := b.List(); err != nil || len(list) != 10 {
		t.Errorf("%d %v", len(list), err)
	}
}
