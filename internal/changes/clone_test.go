package changes

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/clone"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newWorkspaces returns the workspaces of an empty state directory.
func newWorkspaces(t *testing.T) *Workspaces {
	t.Helper()
	st, err := store.Open(filepath.Join(t.TempDir(), "state"))
	must(t, err)
	return &Workspaces{Store: st}
}

// wish returns a sandbox of the shell in a directory.
func wish(dir, mode string) *spec.Sandbox {
	return &spec.Sandbox{
		Version: spec.Version, ID: store.NewID(), Name: "box", Agent: "shell", Template: spec.TemplateHost, Driver: "gvisor", CreatedAt: time.Now().UTC(),
		Workspaces: []spec.Mount{{Source: dir, Target: dir}}, WorkspaceMode: mode,
	}
}

// makeRepository makes a git repository with one commit in a directory.
func makeRepository(t *testing.T, dir string) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git")
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
}

// TestClone checks that a clone appears together with its sandbox or not at all, that work in it is
// pending, and that nothing is fetched from half of a checkpoint.
func TestClone(t *testing.T) {
	ws := newWorkspaces(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	sb := wish(dir, spec.WorkspaceClone)
	if _, err := ws.Store.Create(sb, ws.MakeClones(t.Context(), sb)); !errors.Is(err, spec.ErrUsage) || spec.Hint(err) == "" {
		t.Errorf("without a repository it says %v", err)
	}
	if _, err := ws.Store.Load(sb.ID); !errors.Is(err, fs.ErrNotExist) {
		t.Error("the sandbox exists without its clone")
	}
	makeRepository(t, dir)
	d, err := ws.Store.Create(sb, ws.MakeClones(t.Context(), sb))
	must(t, err)
	if ws.Pending(sb) {
		t.Error("a new clone has work in it")
	}
	list, err := ws.Cloned(sb)
	must(t, err)
	time.Sleep(20 * time.Millisecond) // times of files are those of the kernel's last tick
	must(t, os.WriteFile(filepath.Join(list[0].Tree(), "work"), []byte("precious\n"), 0o644))
	if !ws.Pending(sb) {
		t.Error("work in the clone is not pending")
	}
	must(t, os.MkdirAll(d.Checkpoints(), 0o700))
	must(t, os.WriteFile(filepath.Join(d.Checkpoints(), "restoring.json"), []byte("{}"), 0o600))
	if _, err := ws.Fetch(t.Context(), sb, list[0], nil, clone.Order{}); !errors.Is(err, spec.ErrConflict) || spec.Hint(err) == "" {
		t.Errorf("half of a checkpoint is fetched: %v", err)
	}
	if _, err := ws.Cloned(wish(dir, spec.WorkspaceLive)); !errors.Is(err, spec.ErrUsage) {
		t.Errorf("a live one says %v", err)
	}
}

// TestCheckCloned checks that a sandbox with a clone cannot have a name that git references cannot
// contain.
func TestCheckCloned(t *testing.T) {
	sb := wish("/src", spec.WorkspaceClone)
	must(t, CheckCloned(sb))
	sb.Name = "a..b"
	if err := CheckCloned(sb); !errors.Is(err, spec.ErrUsage) {
		t.Errorf("it says %v", err)
	}
}
