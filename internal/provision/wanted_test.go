package provision

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/bothy-dev/bothy/internal/settings"
	"github.com/bothy-dev/bothy/spec"
)

// TestInterpret checks which sandbox the words of a run mean.
func TestInterpret(t *testing.T) {
	p, project := provisioner(t, settings.Settings{})
	t.Chdir(filepath.Dir(project))
	for name, mode := range map[string]os.FileMode{"program": 0o755, "notes": 0o644, "claude": 0o755} {
		must(t, os.WriteFile(name, nil, mode))
	}
	pl, err := p.Plan(spec.Request{Name: "box", Agent: "shell"}, false)
	must(t, err)
	box, err := p.Create(t.Context(), pl, nil)
	must(t, err)
	here := []string{"."}
	for _, tt := range []struct {
		name  string
		words []string
		box   bool
		agent string
		paths []string
		err   error
	}{
		{agent: "shell", paths: here},
		{name: "box", box: true},
		{name: "other", agent: "shell", paths: here},
		{words: []string{"claude"}, agent: "claude", paths: here},
		{words: []string{"claude", "app", "b"}, agent: "claude", paths: []string{"app", "b"}},
		{name: "box", words: []string{"claude"}, agent: "claude", paths: here},
		{words: []string{"shell", "app"}, agent: "shell", paths: []string{"app"}},
		{words: []string{"./program"}, agent: "./program", paths: here},
		{words: []string{"./program", "app"}, agent: "./program", paths: []string{"app"}},
		{words: []string{"./notes"}, err: spec.ErrUsage},
		{words: []string{"./claude"}, err: spec.ErrConflict},
		{words: []string{"./app"}, agent: "shell", paths: []string{"./app"}},
		{words: []string{"."}, agent: "shell", paths: here},
		{words: []string{"./gone"}, agent: "shell", paths: []string{"./gone"}},
		{words: []string{"~gone", "app"}, agent: "shell", paths: []string{"~gone", "app"}},
		{words: []string{"./gone", "app"}, err: spec.ErrNotFound},
		{words: []string{"./app:ro", "app"}, agent: "shell", paths: []string{"./app:ro", "app"}},
		{words: []string{"box"}, box: true},
		{words: []string{box.ID}, box: true},
		{words: []string{"box", "app"}, err: spec.ErrUsage},
		{words: []string{"no-such"}, err: spec.ErrNotFound},
		{words: []string{""}, err: spec.ErrNotFound},
	} {
		w, err := Interpret(p.Engine, tt.name, tt.words)
		if !errors.Is(err, tt.err) {
			t.Errorf("%q, %q: %v", tt.name, tt.words, err)
		}
		if err != nil {
			continue
		}
		if (w.Sandbox != nil) != tt.box || w.Agent != tt.agent || !slices.Equal(w.Paths, tt.paths) {
			t.Errorf("%q, %q mean %+v", tt.name, tt.words, w)
		}
	}
	_, err = Interpret(p.Engine, "", []string{"no-such", "."})
	if u, ok := errors.AsType[UnknownName](err); !ok || u.Word != "no-such" || spec.Hint(u.NotAgent) == "" {
		t.Errorf("an unknown word: %+v", err)
	}
}

// TestRunKeeps checks that Remove removes neither changes that wait for a review nor a sandbox that
// existed before.
func TestRunKeeps(t *testing.T) {
	there := &spec.Sandbox{Name: "there"}
	for _, tt := range []struct {
		remove   bool
		mode     string
		existing *spec.Sandbox
		want     error
	}{
		{true, spec.WorkspaceReview, nil, spec.ErrUsage},
		{true, spec.WorkspaceClone, nil, spec.ErrUsage},
		{true, spec.WorkspaceLive, there, spec.ErrConflict},
		{true, spec.WorkspaceLive, nil, nil},
		{true, "", nil, nil},
		{false, spec.WorkspaceReview, there, nil},
	} {
		if err := checkRemove(tt.existing, &spec.Request{Remove: tt.remove, WorkspaceMode: tt.mode}); !errors.Is(err, tt.want) {
			t.Errorf("%+v: %v", tt, err)
		}
	}
	p, _ := provisioner(t, settings.Settings{})
	if _, err := p.PlanRun(Wanted{Sandbox: there}, spec.Request{Remove: true}); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("a plan: %v", err)
	}
}
