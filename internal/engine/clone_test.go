package engine

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/clone"
	"github.com/bothy-dev/bothy/spec"
)

// TestClone checks that a clone appears together with its sandbox or not at all, and that work in
// it is not pruned.
func TestClone(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git")
	}
	e := newEngine(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	sb := wish(dir)
	sb.WorkspaceMode = spec.WorkspaceClone
	if err := e.Create(t.Context(), sb); !errors.Is(err, spec.ErrUsage) || spec.Hint(err) == "" {
		t.Errorf("without a repository it says %v", err)
	}
	if left := names(t, e); len(left) != 0 {
		t.Errorf("there is %v", left)
	}
	for _, args := range [][]string{
		{"init", "-q", "."},
		{"-c", "user.name=A", "-c", "user.email=a@example.com", "commit", "-q", "--allow-empty", "-m", "first"},
	} {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v %s", args, err, out)
		}
	}
	must(t, e.Create(t.Context(), sb))
	if e.Pending(sb) {
		t.Error("a new clone has work in it")
	}
	list, err := e.Cloned(sb)
	must(t, err)
	time.Sleep(20 * time.Millisecond) // times of files are those of the kernel's last tick
	file := filepath.Join(list[0].Tree(), "work")
	must(t, os.WriteFile(file, []byte("precious\n"), 0o644))
	if err := e.removeStopped(sb); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("removing it says %v", err)
	}
	must(t, os.Remove(file))
	d := e.Store.Sandbox(sb.ID)
	intent := filepath.Join(d.Checkpoints(), "restoring.json")
	must(t, os.MkdirAll(d.Checkpoints(), 0o700))
	must(t, os.WriteFile(intent, []byte("{}"), 0o600))
	if _, err := e.Fetch(t.Context(), sb, list[0], nil, clone.Order{}); !errors.Is(err, spec.ErrConflict) || spec.Hint(err) == "" {
		t.Errorf("half of a checkpoint is fetched: %v", err)
	}
	must(t, os.Remove(intent))
	must(t, e.removeStopped(sb))
	bad := wish(dir)
	bad.Name, bad.WorkspaceMode = "a..b", spec.WorkspaceClone
	if err := e.Create(t.Context(), bad); !errors.Is(err, spec.ErrUsage) {
		t.Errorf("a name no reference can have: %v", err)
	}
	live := wish(dir)
	live.Name = "live"
	must(t, e.Create(t.Context(), live))
	if _, err := e.Cloned(live); !errors.Is(err, spec.ErrUsage) {
		t.Errorf("a live one says %v", err)
	}
}
