package store

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/spec"
)

// TestNewerSpec checks that a spec of a newer Bothy is listed by its name, whatever else it
// contains, and stays as it is. The name in a damaged spec is not trusted.
func TestNewerSpec(t *testing.T) {
	for _, at := range []struct{ name, text, want string }{
		{"newer, known fields", `{"version": 99, "name": "box", "agent": "shell"}`, "box"},
		{"newer, fields of other types", `{"version": 99, "name": "box", "agent": ["shell"], "workspaces": 7, "unheard": {}}`, "box"},
		{"newer, without a name", `{"version": 99, "name": "../x"}`, ""},
		{"damaged", `{"version": 1, "name": "box", "agent": ["shell"]}`, ""},
	} {
		t.Run(at.name, func(t *testing.T) {
			s, err := Open(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			d, err := s.Create(&spec.Sandbox{Version: spec.Version, ID: NewID(), Name: "box", Agent: "shell"})
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(d.Spec(), []byte(at.text), 0o600); err != nil {
				t.Fatal(err)
			}
			list, err := s.List()
			if err != nil || len(list) != 1 || list[0].Broken == "" {
				t.Fatalf("%v, %v", list, err)
			}
			want := at.want
			if want == "" {
				want = d.ID()
			}
			if list[0].Name != want {
				t.Errorf("it is named %q, not %q", list[0].Name, want)
			}
			if newer := strings.Contains(list[0].Broken, "newer Bothy"); newer != strings.HasPrefix(at.name, "newer") {
				t.Errorf("it says: %s", list[0].Broken)
			}
			if now, _ := os.ReadFile(d.Spec()); string(now) != at.text {
				t.Error("it was changed")
			}
		})
	}
}

// TestUnopenedLock checks the hint for a lock file that cannot be opened.
func TestUnopenedLock(t *testing.T) {
	err := unopened("lock x", &os.PathError{Op: "open", Path: filepath.Join("a", "b"), Err: unix.EROFS})
	if !strings.Contains(spec.Hint(err), "remount,rw") || strings.Contains(err.Error(), "open a/b") {
		t.Errorf("%v, hint %q", err, spec.Hint(err))
	}
	if _, err := TryLock(filepath.Join(t.TempDir(), "gone", "lock")); !os.IsNotExist(unwrapped(err)) {
		t.Errorf("a lock whose directory is gone: %v", err)
	}
}

func unwrapped(err error) error {
	if e, ok := errors.AsType[*spec.Error](err); ok {
		return e.Err
	}
	return err
}
