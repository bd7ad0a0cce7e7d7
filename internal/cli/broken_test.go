package cli

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

// TestBrokenStays checks that a sandbox this bothy cannot read is removed only with force, since it
// may hold work.
func TestBrokenStays(t *testing.T) {
	for name, tt := range map[string]struct{ from, to, hint, shown string }{
		"newer": {`"version": 1`, `"version": 1000`, "upgrade bothy", "rr"},
		"torn":  {"{", "", "bothy rm -f ", ""}, // its name cannot be read
	} {
		t.Run(name, func(t *testing.T) {
			aside(t)
			_, err := called(t, "create", "--name", "rr", "--workspace", spec.WorkspaceReview, "shell", ".")
			must(t, err)
			list, err := filepath.Glob(filepath.Join(os.Getenv("BOTHY_HOME"), "sandboxes", "*", "spec.json"))
			if err != nil || len(list) != 1 {
				t.Fatalf("%q, %v", list, err)
			}
			data, err := os.ReadFile(list[0])
			must(t, err)
			changed := strings.Replace(string(data), tt.from, tt.to, 1)
			if changed == string(data) {
				t.Fatalf("there is no %s in %s", tt.from, data)
			}
			must(t, os.WriteFile(list[0], []byte(changed), 0o600))
			id := filepath.Base(filepath.Dir(list[0]))
			shown := cmp.Or(tt.shown, id)

			if out, err := called(t, "prune", "-f"); err != nil || strings.Contains(out, id) {
				t.Errorf("prune: %v, %s", err, out)
			}
			if out, err := called(t, "system", "df", "-v"); err != nil || !strings.Contains(out, "it is broken, and may have work in it") {
				t.Errorf("df: %v, %s", err, out)
			}
			_, err = called(t, "rm", id)
			if !errors.Is(err, spec.ErrConflict) || !strings.Contains(err.Error(), "is broken, and may have work in it: ") || !strings.HasSuffix(spec.Hint(err), "bothy rm -f "+shown) {
				t.Errorf("rm: %v; hint: %s", err, spec.Hint(err))
			}
			_, err = called(t, "exec", id, "true")
			if !errors.Is(err, spec.ErrSandbox) || !strings.Contains(spec.Hint(err), tt.hint) {
				t.Errorf("exec: %v; hint: %s", err, spec.Hint(err))
			}
			if out, err := called(t, "rm", "-f", id); err != nil || out != shown+"\n" {
				t.Errorf("rm -f: %v, %s", err, out)
			}
		})
	}
}
