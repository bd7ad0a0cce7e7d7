package oauthfile

import (
	"os"
	"slices"
	"testing"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// TestSweep checks that files of a lease's login stay, and all others are removed.
func TestSweep(t *testing.T) {
	dir := store.Sandbox{Dir: t.TempDir()}
	if err := Sweep(dir, nil); err != nil {
		t.Errorf("without a directory: %v", err)
	}
	if err := os.Mkdir(dir.Logins(), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir.Login("a"), dir.Login("a") + ".bothy", dir.Login("b"), dir.Login("b") + ".bothy", dir.Login("c"), dir.Logins() + "/.tmp"} {
		if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	has := func(want ...string) {
		t.Helper()
		entries, err := os.ReadDir(dir.Logins())
		if err != nil || !slices.EqualFunc(entries, want, func(e os.DirEntry, name string) bool { return e.Name() == name }) {
			t.Errorf("there are %v, %v", entries, err)
		}
	}
	leases := []spec.Lease{{ID: "a", Captured: "tool"}, {ID: "c"}} // c is of another secret
	if err := Sweep(dir, leases); err != nil {
		t.Error(err)
	}
	has("a.json", "a.json.bothy")
	if err := (File{Path: dir.Login("a")}).Remove(); err != nil {
		t.Error(err)
	}
	has()
	if err := (File{Path: dir.Login("a")}).Remove(); err != nil {
		t.Errorf("what is not there: %v", err)
	}
}
