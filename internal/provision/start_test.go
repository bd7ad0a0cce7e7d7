package provision

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/settings"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// obtain makes or finds the sandbox of a request.
func obtain(t *testing.T, p *Provisioner, req spec.Request) Target {
	t.Helper()
	pl, err := p.Plan(req, !req.Remove)
	must(t, err)
	at, err := p.Obtain(t.Context(), pl)
	must(t, err)
	return at
}

// TestStartFails checks that a sandbox that was just created and does not start is removed, unless another
// process waits for it or its creator removes it, and that the next process may then finish it.
func TestStartFails(t *testing.T) {
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	for name, tt := range map[string]struct {
		remove, wanted, existed bool
		stays                   bool
	}{
		"created":           {},
		"of one command":    {remove: true, stays: true},
		"another waits":     {wanted: true, stays: true},
		"it existed before": {existed: true, stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			p, project := provisioner(t, settings.Settings{})
			req := spec.Request{Agent: "shell", Workspaces: []string{project}, Remove: tt.remove}
			at := obtain(t, p, req)
			if tt.existed {
				must(t, p.Engine.MarkFinished(at.Sandbox))
				at = obtain(t, p, req)
			}
			done := make(chan error, 1)
			other := &engine.Engine{Store: p.Engine.Store, Agents: p.Engine.Agents}
			if tt.wanted {
				waits := make(chan struct{})
				other.Progress = func(string) { close(waits) }
				go func() { _, err := other.Adopt(t.Context(), at.Sandbox, true); done <- err }()
				<-waits
			} else {
				done <- nil
			}
			if _, err := p.Start(ctx, at, false); !errors.Is(err, why) {
				t.Errorf("started: %v", err)
			}
			if stays := p.Engine.Store.Has(at.Sandbox.ID); stays != tt.stays {
				t.Errorf("it stays: %t", stays)
			}
			must(t, <-done)
			if !tt.stays || tt.wanted {
				return
			}
			adopted, err := other.Adopt(t.Context(), at.Sandbox, true)
			if err != nil || adopted == tt.existed {
				t.Errorf("adopted: %t, %v", adopted, err)
			}
		})
	}
}

// TestEnterRefuses checks that a command that no sandbox can get starts none, and that the cause of a context that
// ended is the error.
func TestEnterRefuses(t *testing.T) {
	p, project := provisioner(t, settings.Settings{})
	at := obtain(t, p, spec.Request{Agent: "shell", Workspaces: []string{project}})
	must(t, p.Engine.MarkFinished(at.Sandbox))
	if _, err := p.Enter(t.Context(), at.Sandbox, &wire.Command{Args: []string{"a\xff"}}, false); !errors.Is(err, spec.ErrUsage) {
		t.Errorf("no UTF-8: %v", err)
	}
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if _, err := p.Enter(ctx, at.Sandbox, &wire.Command{Args: []string{"true"}}, false); !errors.Is(err, why) {
		t.Errorf("its context had ended: %v", err)
	}
	if st := p.Engine.Status(at.Sandbox); st.StartedAt != nil {
		t.Errorf("it was started: %+v", st)
	}
}

// TestObtainRemoved checks that a sandbox that is removed between the plan and its use is made anew, without
// notes that were told and questions that were answered, but with new ones.
func TestObtainRemoved(t *testing.T) {
	p, project := provisioner(t, settings.Settings{})
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	tree := filepath.Join(filepath.Dir(project), "tree")
	for _, args := range [][]string{
		{"init", "-q", project},
		{"-C", project, "-c", "user.name=A", "-c", "user.email=a@example.com", "commit", "-q", "--allow-empty", "-m", "first"},
		{"-C", project, "worktree", "add", "-q", tree},
	} {
		if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
			t.Skipf("git %q: %v: %s", args, err, out)
		}
	}
	req := spec.Request{Agent: "shell", Workspaces: []string{tree}}
	asked := 0
	ask := func(string) bool { asked++; return true }

	old := obtain(t, p, req)
	must(t, p.Engine.MarkFinished(old.Sandbox))
	pl, err := p.Plan(req, true)
	must(t, err)
	pl.AnswerGit(ask)
	if pl.Existing == nil || asked != 0 {
		t.Fatalf("planned with %+v, asked %d times", pl.Existing, asked)
	}
	must(t, p.Engine.Remove(t.Context(), old.Sandbox, true))
	told := &notes{}
	p.Watcher = told
	at, err := p.Obtain(t.Context(), pl)
	must(t, err)
	if !at.Created || at.Sandbox.ID == old.Sandbox.ID || pl.Sandbox.ID != at.Sandbox.ID || pl.Existing != nil {
		t.Errorf("obtained %+v", at)
	}
	if asked != 1 || len(at.Sandbox.Workspaces) != 2 {
		t.Errorf("asked %d times, shares %+v", asked, at.Sandbox.Workspaces)
	}
	must(t, p.Engine.MarkFinished(at.Sandbox))

	pl.Notes = append(pl.Notes, "a note")
	before := slices.Clone(told.list)
	w := noteOnce(told, pl.Notes)
	w.Note("a %s", "note")
	w.Note("new")
	w.Note("new")
	if got := told.list[len(before):]; len(got) != 1 {
		t.Errorf("told %q", got)
	}
	must(t, p.renewPlan(pl))
	if asked != 1 {
		t.Errorf("asked again: %d times", asked)
	}
}
