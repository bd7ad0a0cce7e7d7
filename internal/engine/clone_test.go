package engine

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// TestPruneLeavesClone checks that pruning keeps work in a clone that was not fetched.
func TestPruneLeavesClone(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git")
	}
	e := newEngine(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
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
	sb := wish(dir)
	sb.WorkspaceMode = spec.WorkspaceClone
	must(t, e.Create(t.Context(), sb))
	list, err := e.Changes().Cloned(sb)
	must(t, err)
	time.Sleep(20 * time.Millisecond) // times of files are those of the kernel's last tick
	file := filepath.Join(list[0].Tree(), "work")
	must(t, os.WriteFile(file, []byte("precious\n"), 0o644))
	if err := (diskSandboxes{e}).removeStopped(sb); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("removing it says %v", err)
	}
	must(t, os.Remove(file))
	must(t, (diskSandboxes{e}).removeStopped(sb))
}

// TestCreateRefusesCloneName checks that no sandbox is created whose commits could not be fetched.
func TestCreateRefusesCloneName(t *testing.T) {
	e := newEngine(t)
	sb := wish(t.TempDir())
	sb.Name, sb.WorkspaceMode = "a..b", spec.WorkspaceClone
	if err := e.Create(t.Context(), sb); !errors.Is(err, spec.ErrUsage) || len(names(t, e)) != 0 {
		t.Errorf("it says %v", err)
	}
}
