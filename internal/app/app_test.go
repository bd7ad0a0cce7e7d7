package app

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

// TestOpenStoreRelative checks that a relative path is beneath the current directory, now and later, and
// that the error in a removed directory tells what to do.
func TestOpenStoreRelative(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	t.Setenv("BOTHY_HOME", "of-user")
	t.Chdir(top)
	for given, want := range map[string]string{"state": "state", "": "of-user", filepath.Join(top, "absolute"): "absolute"} {
		s, err := OpenStore(given)
		if err != nil || s.Path() != filepath.Join(top, want) {
			t.Errorf("%q: %+v, %v", given, s, err)
		}
	}
	gone := filepath.Join(top, "gone")
	must(t, os.Mkdir(gone, 0o755))
	t.Chdir(gone)
	must(t, os.Remove(gone))
	for _, given := range []string{"state", ""} {
		if _, err := OpenStore(given); err == nil || spec.Hint(err) == "" {
			t.Errorf("%q in a removed directory: %v, hint %q", given, err, spec.Hint(err))
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
