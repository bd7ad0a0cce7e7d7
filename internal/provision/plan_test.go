package provision

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/agentprogram"
	"github.com/bothy-dev/bothy/internal/builder"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/settings"
	"github.com/bothy-dev/bothy/internal/setup"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// notes records the notes of a provisioner.
type notes struct{ list []string }

func (n *notes) Note(format string, _ ...any) { n.list = append(n.list, format) }
func (n *notes) Installing() (agentprogram.Progress, func()) {
	return func(string, agent.Event) {}, func() {}
}

func (n *notes) SettingUp() setup.Viewer               { return setup.Viewer{Note: n.Note, Output: io.Discard} }
func (n *notes) Fetching() (func(image.Event), func()) { return func(image.Event) {}, func() {} }
func (n *notes) Building() func(builder.Event)         { return func(builder.Event) {} }

// provisioner returns a provisioner for a fresh state directory, and a project.
func provisioner(t *testing.T, s settings.Settings) (*Provisioner, string) {
	t.Helper()
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(home, ".config"))
	project := filepath.Join(home, "app")
	must(t, os.Mkdir(project, 0o755))
	st, err := store.Open(filepath.Join(home, "state"))
	must(t, err)
	e := &engine.Engine{Store: st, Agents: agent.NewCatalog("")}
	return &Provisioner{Engine: e, Settings: s, Watcher: &notes{}}, project
}

// TestPlan checks the plans that requests become.
func TestPlan(t *testing.T) {
	idle := spec.Duration(time.Hour)
	yes := true
	for name, tt := range map[string]struct {
		settings settings.Settings
		req      spec.Request
		check    func(*Plan) bool
	}{
		"defaults": {req: spec.Request{Agent: "shell"}, check: func(pl *Plan) bool {
			sb := pl.Sandbox
			return sb.Agent == "shell" && sb.Mode() == spec.WorkspaceLive && len(sb.Workspaces) == 1 && sb.IdleTimeout == spec.Duration(30*time.Minute) &&
				len(pl.Rules.Presets)+len(pl.Rules.Allow) == 0 && !sb.Docker && len(pl.Notes) == 0 && len(pl.Git) == 0
		}},
		"settings": {settings: settings.Settings{Idle: &idle, Docker: true}, req: spec.Request{Agent: "shell"}, check: func(pl *Plan) bool {
			return pl.Sandbox.IdleTimeout == idle && pl.Sandbox.Docker
		}},
		"fields win over settings": {settings: settings.Settings{Idle: &idle}, req: spec.Request{Agent: "shell", IdleTimeout: spec.Duration(time.Minute)}, check: func(pl *Plan) bool {
			return pl.Sandbox.IdleTimeout == spec.Duration(time.Minute)
		}},
		"an agent brings its rules": {req: spec.Request{Agent: "claude", Allow: []string{"example.com"}}, check: func(pl *Plan) bool {
			return slices.Contains(pl.Rules.Presets, "claude") && len(pl.Rules.Allow) > 0 && pl.Rules.Allow[0].Target.String() == "example.com" && len(pl.asked.Presets) == 0
		}},
		"preset none leaves them out": {req: spec.Request{Agent: "claude", Presets: []string{"none"}}, check: func(pl *Plan) bool {
			return slices.Equal(pl.Rules.Presets, []string{"none"}) && len(pl.Rules.Allow) == 0
		}},
		"a model server replaces the maker": {req: spec.Request{Agent: "claude", ModelServer: "http://localhost:11434", ServerModel: "m"}, check: func(pl *Plan) bool {
			return pl.Sandbox.ModelServer != nil && slices.Equal(pl.Sandbox.HostPorts, []uint16{11434}) && len(pl.Rules.Presets) == 0
		}},
		"the server of the settings": {settings: settings.Settings{ServerURL: "https://models.example", ServerModel: "m"}, req: spec.Request{Agent: "claude"}, check: func(pl *Plan) bool {
			return pl.Sandbox.ModelServer != nil && slices.ContainsFunc(pl.Rules.Allow, func(r policy.Rule) bool { return strings.HasPrefix(r.Target.String(), "models.example") })
		}},
		"not for a shell": {settings: settings.Settings{ServerURL: "https://models.example", ServerModel: "m"}, req: spec.Request{Agent: "shell"}, check: func(pl *Plan) bool {
			return pl.Sandbox.ModelServer == nil
		}},
		"configuration": {req: spec.Request{Agent: "claude", Config: &yes}, check: func(pl *Plan) bool { return pl.Sandbox.Config }},
		"an exposed port is noted": {req: spec.Request{Agent: "shell", Publish: []string{"0.0.0.0:8080:80"}}, check: func(pl *Plan) bool {
			return len(pl.Sandbox.Ports) == 1 && len(pl.Notes) == 1
		}},
		"a server at localhost is noted": {req: spec.Request{Agent: "shell", Env: []string{"OPENAI_BASE_URL=http://127.0.0.1:1234/v1"}}, check: func(pl *Plan) bool {
			return len(pl.Notes) == 1 && strings.Contains(pl.Notes[0], "--model-server http://127.0.0.1:1234")
		}},
		"review": {req: spec.Request{Agent: "shell", WorkspaceMode: spec.WorkspaceReview}, check: func(pl *Plan) bool { return pl.Sandbox.Mode() == spec.WorkspaceReview }},
	} {
		t.Run(name, func(t *testing.T) {
			p, project := provisioner(t, tt.settings)
			tt.req.Workspaces = []string{project}
			pl, err := p.Plan(tt.req, false)
			must(t, err)
			if !tt.check(pl) {
				t.Errorf("sandbox %+v\nrules %+v\nnotes %q\ngit %+v", pl.Sandbox, pl.Rules, pl.Notes, pl.Git)
			}
			list, err := p.Engine.Store.List()
			must(t, err)
			if len(list) != 0 {
				t.Errorf("a plan made %d sandboxes", len(list))
			}
		})
	}
}

// TestPlanRefuses checks that a wrong request is an error of class usage before anything is made, and names
// the field.
func TestPlanRefuses(t *testing.T) {
	yes := true
	for field, req := range map[string]spec.Request{
		"cpus":             {Limits: spec.Limits{CPUs: -1}},
		"pids":             {Limits: spec.Limits{Pids: -1}},
		"memory":           {Limits: spec.Limits{Memory: 1}},
		"disk":             {Limits: spec.Limits{Disk: -1}},
		"idle-timeout":     {IdleTimeout: -1},
		"workdir":          {Workdir: "relative"},
		"max-tokens":       {Budget: spec.Budget{Tokens: -1}},
		"env":              {Env: []string{"A=b", "C=\x00"}},
		"share-tasks":      {Tasks: "all"},
		"checkpoint":       {Checkpoint: "sometimes"},
		"git-dir":          {GitDir: "maybe"},
		"agent-config":     {Config: &yes},
		"agent-version":    {Version: "1"},
		"secret":           {Secrets: []string{"a:b:c"}},
		"lend":             {Lend: []string{"none", "git"}},
		"model-server":     {ModelServer: "none", ModelKey: "key"},
		"mock":             {Mock: "script.yaml", ModelServer: "http://localhost:1"},
		"workspace mode":   {WorkspaceMode: "sometimes"},
		"a deny and allow": {Allow: []string{"example.com"}, Deny: []string{"example.com"}},
	} {
		t.Run(field, func(t *testing.T) {
			p, project := provisioner(t, settings.Settings{})
			must(t, os.Chdir(filepath.Dir(project)))
			must(t, os.WriteFile("script.yaml", []byte("version: 1\nturns:\n  - text: hi\n"), 0o600))
			req.Agent, req.Workspaces = "shell", []string{project}
			_, err := p.Plan(req, false)
			if !errors.Is(err, spec.ErrUsage) {
				t.Errorf("%v", err)
			}
			if !strings.Contains(field, " ") && !namesOption(err, field) {
				t.Errorf("the error does not name the field: %v", err)
			}
		})
	}
}

// TestGitFindings checks that a plan shares what git lacks in a worktree if the request or the answer says
// so, and otherwise says why git will not work.
func TestGitFindings(t *testing.T) {
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
	plan := func(req spec.Request) *Plan {
		t.Helper()
		req.Agent, req.Workspaces = "shell", []string{tree}
		pl, err := p.Plan(req, false)
		must(t, err)
		return pl
	}
	shares := func(pl *Plan) bool { return len(pl.Sandbox.Workspaces) == 2 }
	pl := plan(spec.Request{})
	if len(pl.Git) != 1 || pl.Git[0].Question == "" || shares(pl) {
		t.Fatalf("%+v", pl.Git)
	}
	if c := pl.Git[0].Command("create", "shell"); !strings.Contains(c, "--git-dir share shell "+tree) {
		t.Errorf("command %q", c)
	}
	pl.AnswerGit(func(string) bool { return true })
	if len(pl.Git) != 0 || !shares(pl) {
		t.Errorf("after yes: %+v, %+v", pl.Git, pl.Sandbox.Workspaces)
	}
	pl = plan(spec.Request{})
	pl.AnswerGit(func(string) bool { return false })
	if len(pl.Git) != 0 || shares(pl) {
		t.Errorf("after no: %+v, %+v", pl.Git, pl.Sandbox.Workspaces)
	}
	second := filepath.Join(filepath.Dir(project), "second")
	if out, err := exec.Command("git", "-C", project, "worktree", "add", "-q", second).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	pl, err := p.Plan(spec.Request{Agent: "shell", Workspaces: []string{tree, second}}, false)
	must(t, err)
	asked := 0
	pl.AnswerGit(func(string) bool { asked++; return true })
	if asked != 1 || len(pl.Sandbox.Workspaces) != 3 {
		t.Errorf("two worktrees of one repository: asked %d times, shares %+v", asked, pl.Sandbox.Workspaces)
	}
	if pl = plan(spec.Request{GitDir: spec.GitDirShare}); !shares(pl) || len(pl.Git) != 0 {
		t.Errorf("shared by the request: %+v", pl.Sandbox.Workspaces)
	}
	if pl = plan(spec.Request{GitDir: spec.GitDirNone}); shares(pl) || len(pl.Git) != 0 {
		t.Errorf("declined by the request: %+v", pl.Sandbox.Workspaces)
	}
}

// TestObtain checks that a plan creates a sandbox once, finds it again, and refuses other settings.
func TestObtain(t *testing.T) {
	p, project := provisioner(t, settings.Settings{})
	obtain := func(req spec.Request) (Target, error) {
		t.Helper()
		req.Agent, req.Workspaces = "shell", []string{project}
		pl, err := p.Plan(req, !req.Remove)
		must(t, err)
		at, err := p.Obtain(t.Context(), pl)
		if err == nil {
			err = p.Engine.MarkFinished(at.Sandbox)
		}
		return at, err
	}
	first, err := obtain(spec.Request{Limits: spec.Limits{Pids: 50}})
	must(t, err)
	again, err := obtain(spec.Request{})
	must(t, err)
	if !first.Created || again.Created || again.Sandbox.ID != first.Sandbox.ID {
		t.Errorf("first %+v, again %+v", first, again)
	}
	if _, err := obtain(spec.Request{Limits: spec.Limits{Pids: 60}}); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("another limit: %v", err)
	}
	if _, err := obtain(spec.Request{Allow: []string{"example.com"}}); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("another rule: %v", err)
	}
	fresh, err := obtain(spec.Request{Remove: true})
	must(t, err)
	if !fresh.Created || fresh.Sandbox.ID == first.Sandbox.ID || !fresh.Sandbox.Remove {
		t.Errorf("with Remove: %+v", fresh)
	}
	pl, err := p.PlanRun(Wanted{Sandbox: first.Sandbox}, spec.Request{Template: "other"})
	must(t, err)
	if _, err := p.Obtain(t.Context(), pl); !errors.Is(err, spec.ErrConflict) || !namesOption(err, "template") {
		t.Errorf("joined with a fixed setting: %v", err)
	}
	pl, err = p.PlanRun(Wanted{Sandbox: first.Sandbox}, spec.Request{})
	must(t, err)
	if at, err := p.Obtain(t.Context(), pl); err != nil || at.IsNew() || at.Sandbox.ID != first.Sandbox.ID || at.Agent.Name != "shell" {
		t.Errorf("joined by its name: %+v, %v", at, err)
	}
	must(t, p.Engine.Remove(t.Context(), first.Sandbox, true))
	if _, err := p.Obtain(t.Context(), pl); !errors.Is(err, spec.ErrNotFound) {
		t.Errorf("joined by its name when it was gone: %v", err)
	}
}

// TestImagesAreReleased checks that a sandbox that was not made keeps no images from being swept.
func TestImagesAreReleased(t *testing.T) {
	p, project := provisioner(t, settings.Settings{})
	pl, err := p.Plan(spec.Request{Agent: "shell", Workspaces: []string{project}}, false)
	must(t, err)
	refused := errors.New("refused")
	_, err = p.Create(t.Context(), pl, func(*spec.Sandbox) error { return errors.Join(refused, p.Engine.Images().Hold()) })
	if !errors.Is(err, refused) {
		t.Fatal(err)
	}
	other := &engine.Engine{Store: p.Engine.Store}
	if _, err := other.Images().Sweep(); err != nil {
		t.Errorf("held after the failure: %v", err)
	}
}

// namesOption reports whether the text of an error names an option as a word, and as a flag on a command line.
func namesOption(err error, name string) bool {
	flags, _ := spec.Flagged(err)
	return strings.Contains(flags, "--"+name) && strings.Contains(err.Error(), name) && !strings.Contains(err.Error(), "--")
}
