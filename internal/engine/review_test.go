package engine

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

// What came to wait for a review since somebody looked is not pruned.
func TestPruneLeavesPending(t *testing.T) {
	e := newEngine(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	sb := wish(dir)
	sb.WorkspaceMode = spec.WorkspaceReview
	must(t, e.Create(t.Context(), sb))
	must(t, e.readyLayers(sb))
	list, err := e.Reviewed(sb)
	must(t, err)
	file := filepath.Join(list[0].Layer.Upper(), "work")
	must(t, os.WriteFile(file, []byte("precious\n"), 0o644))
	if err := e.removeStopped(sb); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("removing it says %v", err)
	}
	must(t, os.Remove(file))
	must(t, e.removeStopped(sb))
	if left := names(t, e); len(left) != 0 {
		t.Errorf("there is %v", left)
	}
}
