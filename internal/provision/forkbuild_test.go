package provision

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/bothy-dev/bothy/internal/settings"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/template"
	"github.com/bothy-dev/bothy/spec"
)

// TestPlanFork checks the plans that requests for forks become.
func TestPlanFork(t *testing.T) {
	p, project := provisioner(t, settings.Settings{})
	make := func(req spec.Request) {
		req.Agent, req.Workspaces = "shell", []string{project}
		pl, err := p.Plan(req, false)
		must(t, err)
		pl.Sandbox.Loop = "loop-1"
		_, err = p.Create(t.Context(), pl, nil)
		must(t, err)
	}
	make(spec.Request{Name: "live", Publish: []string{"8080:80"}})
	make(spec.Request{Name: "clean", WorkspaceMode: spec.WorkspaceReview})
	for name, tt := range map[string]struct {
		req   spec.ForkRequest
		class error
		check func(*ForkPlan) bool
	}{
		"one": {spec.ForkRequest{Sandbox: "live"}, nil, func(pl *ForkPlan) bool {
			return slices.Equal(pl.Names, []string{""}) && pl.Point == nil && pl.Fork.Mode() == spec.WorkspaceReview && pl.Fork.Loop == "" && pl.Fork.Ports == nil && len(pl.Notes) == 1
		}},
		"the other stays as it is": {spec.ForkRequest{Sandbox: "live"}, nil, func(pl *ForkPlan) bool {
			return pl.Of.Mode() == spec.WorkspaceLive && len(pl.Of.Ports) == 1 && pl.Of.Loop == "loop-1"
		}},
		"one with a name":      {spec.ForkRequest{Sandbox: "live", Name: "xy", Files: true}, nil, func(pl *ForkPlan) bool { return slices.Equal(pl.Names, []string{"xy"}) && pl.Files }},
		"several":              {spec.ForkRequest{Sandbox: "live", Name: "x", Count: 2}, nil, func(pl *ForkPlan) bool { return slices.Equal(pl.Names, []string{"x-1", "x-2"}) }},
		"nothing to note":      {spec.ForkRequest{Sandbox: "clean"}, nil, func(pl *ForkPlan) bool { return len(pl.Notes) == 0 }},
		"too many":             {spec.ForkRequest{Sandbox: "live", Count: spec.MaxForks + 1}, spec.ErrUsage, nil},
		"fewer than none":      {spec.ForkRequest{Sandbox: "live", Count: -1}, spec.ErrUsage, nil},
		"a name that is taken": {spec.ForkRequest{Sandbox: "live", Name: "clean"}, spec.ErrConflict, nil},
		"a wrong name":         {spec.ForkRequest{Sandbox: "live", Name: "A B"}, spec.ErrUsage, nil},
		"no sandbox":           {spec.ForkRequest{Sandbox: "none"}, spec.ErrNotFound, nil},
		"no checkpoint":        {spec.ForkRequest{Sandbox: "live", Checkpoint: "none"}, spec.ErrNotFound, nil},
	} {
		t.Run(name, func(t *testing.T) {
			pl, err := p.PlanFork(tt.req)
			if tt.class != nil {
				if !errors.Is(err, tt.class) {
					t.Errorf("%+v, %v", pl, err)
				}
				return
			}
			must(t, err)
			if !tt.check(pl) {
				t.Errorf("%+v", pl)
			}
		})
	}
}

// TestForkAgain checks that a fork can be repeated with the same name after the command that made it was
// killed.
func TestForkAgain(t *testing.T) {
	p, project := provisioner(t, settings.Settings{})
	create := func(name string) *spec.Sandbox {
		pl, err := p.Plan(spec.Request{Name: name, Agent: "shell", Workspaces: []string{project}}, false)
		must(t, err)
		sb, err := p.Create(t.Context(), pl, nil)
		must(t, err)
		return sb
	}
	create("origin")
	half := create("copy")
	mark := p.Engine.Store.Sandbox(half.ID).MakerLock() // a killed maker leaves it, without its lock
	must(t, os.WriteFile(mark, nil, 0o600))
	pl, err := p.PlanFork(spec.ForkRequest{Sandbox: "origin", Name: "copy", Files: true})
	must(t, err)
	made, err := p.Fork(t.Context(), pl)
	must(t, err)
	if len(made) != 1 || made[0].Name != "copy" || made[0].ID == half.ID {
		t.Errorf("made: %+v", made)
	}
	lock, err := store.TryLock(p.Engine.Store.Sandbox(made[0].ID).MakerLock())
	must(t, err)
	defer lock.Unlock()
	if pl, err := p.PlanFork(spec.ForkRequest{Sandbox: "origin", Name: "copy"}); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("while another command makes it: %+v, %v", pl, err)
	}
}

// TestPlanBuild checks the plans that requests for images become.
func TestPlanBuild(t *testing.T) {
	p, project := provisioner(t, settings.Settings{})
	write := func(name string) string {
		path := filepath.Join(project, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte("{}"), 0o600))
		return filepath.Dir(path)
	}
	docker, container, both, empty := write("docker/Dockerfile"), filepath.Dir(write("container/.devcontainer/devcontainer.json")), write("both/Containerfile"), write("empty/file")
	write("both/.devcontainer.json")
	for name, tt := range map[string]struct {
		req   spec.BuildRequest
		class error
		check func(*template.Plan) bool
	}{
		"a Dockerfile": {spec.BuildRequest{Directory: docker, Tag: "tools:v1", Allow: []string{"example.com"}}, nil, func(pl *template.Plan) bool {
			return pl.File == filepath.Join(docker, "Dockerfile") && pl.Devcontainer == "" && pl.Pull == spec.PullMissing && len(pl.Rules.Allow) == 1
		}},
		"a devcontainer.json": {spec.BuildRequest{Directory: container}, nil, func(pl *template.Plan) bool {
			return pl.Project == container && pl.Devcontainer == filepath.Join(container, ".devcontainer/devcontainer.json")
		}},
		"a Dockerfile wins":     {spec.BuildRequest{Directory: both}, nil, func(pl *template.Plan) bool { return pl.Devcontainer == "" && pl.File != "" }},
		"a Dockerfile by name":  {spec.BuildRequest{Directory: container, Dockerfile: "-"}, nil, func(pl *template.Plan) bool { return pl.File == "-" && pl.Devcontainer == "" }},
		"neither":               {spec.BuildRequest{Directory: empty}, spec.ErrNotFound, nil},
		"no directory":          {spec.BuildRequest{Directory: filepath.Join(docker, "Dockerfile"), Dockerfile: "x"}, spec.ErrNotFound, nil},
		"a stage of no file":    {spec.BuildRequest{Directory: container, Target: "base"}, spec.ErrUsage, nil},
		"a digest as a name":    {spec.BuildRequest{Directory: docker, Tag: "x@sha256:" + string(make([]byte, 64))}, spec.ErrUsage, nil},
		"a wrong pull":          {spec.BuildRequest{Directory: docker, Pull: "sometimes"}, spec.ErrUsage, nil},
		"rules that contradict": {spec.BuildRequest{Directory: docker, Allow: []string{"example.com"}, Deny: []string{"example.com"}}, spec.ErrUsage, nil},
		"an unknown preset":     {spec.BuildRequest{Directory: docker, Presets: []string{"no-such"}}, spec.ErrUsage, nil},
	} {
		t.Run(name, func(t *testing.T) {
			pl, err := p.PlanBuild(tt.req)
			if tt.class != nil {
				if !errors.Is(err, tt.class) {
					t.Errorf("%+v, %v", pl, err)
				}
				return
			}
			must(t, err)
			if !tt.check(pl) {
				t.Errorf("%+v", pl)
			}
		})
	}
}
