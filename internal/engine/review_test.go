package engine

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

// reviewedBox is a sandbox with a layer over its workspace. No program runs in it.
type reviewedBox struct {
	*Engine
	sb *spec.Sandbox
	up string
}

func newReviewedBox(t *testing.T) reviewedBox {
	e := newEngine(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	sb := wish(dir)
	sb.WorkspaceMode = spec.WorkspaceReview
	must(t, e.Create(t.Context(), sb))
	must(t, e.Changes().Ready(sb))
	list, err := e.Changes().Reviewed(sb)
	must(t, err)
	return reviewedBox{e, sb, list[0].Layer.Upper()}
}

// TestPruneLeavesHalf checks that pruning keeps a sandbox whose files are half of a checkpoint, and
// that such a sandbox does not start as long as nothing finishes the restore.
func TestPruneLeavesHalf(t *testing.T) {
	b := newReviewedBox(t)
	must(t, os.MkdirAll(b.Store.Sandbox(b.sb.ID).Checkpoints(), 0o700))
	must(t, os.WriteFile(filepath.Join(b.Store.Sandbox(b.sb.ID).Checkpoints(), "restoring.json"), []byte("{}"), 0o600))
	if err := (diskSandboxes{b.Engine}).removeStopped(b.sb); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("removing it says %v", err)
	}
	if _, err := b.Connect(t.Context(), b.sb); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("a start says %v", err)
	}
}

// TestPruneLeavesPending checks that pruning keeps changes that came to wait for a review since the
// sandboxes were listed.
func TestPruneLeavesPending(t *testing.T) {
	b := newReviewedBox(t)
	file := filepath.Join(b.up, "work")
	must(t, os.WriteFile(file, []byte("precious\n"), 0o644))
	if err := (diskSandboxes{b.Engine}).removeStopped(b.sb); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("removing it says %v", err)
	}
	must(t, os.Remove(file))
	must(t, (diskSandboxes{b.Engine}).removeStopped(b.sb))
	if left := names(t, b.Engine); len(left) != 0 {
		t.Errorf("there is %v", left)
	}
}

// TestRemoveClearsAwayTemps checks that files that a killed apply left in a workspace go with the
// sandbox, while their record exists.
func TestRemoveClearsAwayTemps(t *testing.T) {
	for name, remove := range map[string]func(*Engine, *spec.Sandbox) error{
		"rm":    func(e *Engine, sb *spec.Sandbox) error { return e.Remove(t.Context(), sb, true) },
		"prune": func(e *Engine, sb *spec.Sandbox) error { return diskSandboxes{e}.removeStopped(sb) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newReviewedBox(t)
			dir := b.sb.Workspaces[0].Source
			const temp = ".bothy-apply-0-1"
			must(t, os.WriteFile(filepath.Join(dir, temp), nil, 0o644))
			intent := `{"version":1,"files":[{"dir":".","name":"file","temp":"` + temp + `","fresh":true}]}`
			must(t, os.WriteFile(filepath.Join(filepath.Dir(b.up), "applying.json"), []byte(intent), 0o600))
			must(t, remove(b.Engine, b.sb))
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("the workspace has %v, %v", left, err)
			}
		})
	}
}
