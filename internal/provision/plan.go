package provision

import (
	"path/filepath"
	"slices"
	"time"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/agentprogram"
	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/modelmock"
	"github.com/bothy-dev/bothy/internal/netrules"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Plan is a request after all decisions that need no network: what will be created, what will be
// installed and lent for it, and what a person should know before.
type Plan struct {
	Request spec.Request
	Agent   *AgentRef
	// Sandbox is the sandbox that will be created. Create and Obtain add the image of its template and
	// the program of its agent.
	Sandbox *spec.Sandbox
	// Existing is a sandbox that fits the request by its name, or by its agent and directory. Nil: none,
	// or the plan did not need to know.
	Existing *spec.Sandbox
	// Rules are the sandbox's own network rules, with those that its agent needs.
	Rules policy.Block
	Mock  *modelmock.Mock // nil: real models are asked
	Loans Loans
	Git   []GitFinding // why git will not work in its workspaces
	Notes []string     // for a person

	ask     func(question string) bool // see AnswerGit; nil: no person was asked
	answers map[string]bool            // by question

	named  bool // the request is for Existing, and for no other sandbox
	reuse  bool
	looked bool         // Existing is known
	asked  policy.Block // rules of the request alone
	server *spec.ModelServer
	config bool // the agent sees the configuration in the home
}

// Plan decides what a request means. With reuse, an existing sandbox of that name, or of that agent and
// directory, may be used in its place. Plan changes nothing, asks no server, and fetches nothing. Its
// error is of class [spec.ErrUsage] if the request is wrong.
func (p *Provisioner) Plan(req spec.Request, reuse bool) (*Plan, error) {
	ref, err := FindAgent(p.Engine, req.Agent)
	if err != nil {
		return nil, err
	}
	pl := &Plan{Request: req, Agent: ref, reuse: reuse}
	for _, decide := range []func(*Plan) error{
		p.decideLoans, p.decideRules, p.checkVersion, p.checkACP, p.checkConfig, p.decideMock, p.decideSandbox,
		p.checkDriver, p.decideProgram, p.findGit, p.decideServer, p.checkBudget, p.serveAgent,
	} {
		if err := decide(pl); err != nil {
			return nil, err
		}
	}
	return pl, nil
}

// makesSandbox reports whether the plan makes a sandbox, as far as it knows. A plan for a program does not look
// for an existing sandbox, because only an agent is installed.
func (pl *Plan) makesSandbox() bool { return pl.Existing == nil }

// renewPlan makes the plan anew, because its sandbox was removed. It tells new notes, and asks new questions.
func (p *Provisioner) renewPlan(pl *Plan) error {
	fresh, err := p.Plan(pl.Request, pl.reuse)
	if err != nil {
		return err
	}
	for _, note := range fresh.Notes {
		p.Watcher.Note("%s", note)
	}
	if fresh.ask, fresh.answers = pl.ask, pl.answers; fresh.ask != nil {
		fresh.shareByAnswers(fresh.ask)
	}
	*pl = *fresh
	return nil
}

// lookForExisting finds an existing sandbox that fits, once.
func (p *Provisioner) lookForExisting(pl *Plan) (err error) {
	if !pl.reuse || pl.looked {
		return nil
	}
	pl.Existing, err = p.Engine.Existing(pl.Sandbox)
	pl.looked = err == nil
	return err
}

// decideRules parses the network rules of the request.
func (p *Provisioner) decideRules(pl *Plan) (err error) {
	pl.asked, err = ParseRules(&pl.Request)
	pl.Rules = pl.asked
	return err
}

// checkVersion refuses a version for anything but an agent.
func (p *Provisioner) checkVersion(pl *Plan) error {
	if pl.Request.Version != "" && pl.Agent.Spec == nil {
		return spec.Errorf(spec.ErrUsage, "%s and %s are for agents; %s is none", spec.Option("upgrade"), spec.Option("agent-version"), pl.Agent.Name)
	}
	return nil
}

// checkACP refuses to prepare for an editor any program but an agent that speaks with editors.
func (p *Provisioner) checkACP(pl *Plan) error {
	if !pl.Request.ACP {
		return nil
	}
	return agentprogram.CheckACP(pl.Agent.Spec)
}

// decideMock reads the script of the request.
func (p *Provisioner) decideMock(pl *Plan) (err error) {
	if pl.Request.Mock == "" {
		return nil
	}
	paths, err := p.Engine.Paths()
	if err == nil {
		pl.Mock, err = modelmock.Read(paths, pl.Request.Mock, pl.Agent.Spec)
	}
	return err
}

// decideSandbox turns the fields of the request into a sandbox.
func (p *Provisioner) decideSandbox(pl *Plan) error {
	req := &pl.Request
	if err := checkRequest(req); err != nil {
		return err
	}
	when, err := spec.ParseOccasions(req.Checkpoint)
	if err != nil {
		return spec.Errorf(nil, "%s: %w", spec.Option("checkpoint"), err)
	}
	sb := &spec.Sandbox{
		Version: spec.Version, ID: store.NewID(), Name: req.Name, Agent: pl.Agent.Name, Driver: driver.GVisor,
		CreatedAt: time.Now().UTC(), User: req.User, Workdir: req.Workdir, Env: slices.Clone(req.Env),
		Limits: req.Limits, IdleTimeout: req.IdleTimeout, Workspaces: []spec.Mount{},
		Checkpoint: when.String(), Budget: req.Budget, Tasks: req.Tasks, Docker: p.Settings.Docker, Remove: req.Remove,
	}
	if req.WorkspaceMode != spec.WorkspaceLive {
		sb.WorkspaceMode = req.WorkspaceMode
	}
	if sb.IdleTimeout == 0 {
		sb.IdleTimeout = p.Settings.IdleTimeout()
	}
	notes, err := SetPorts(sb, req.Publish, req.HostPorts)
	if err != nil {
		return err
	}
	pl.Notes = append(pl.Notes, notes...)
	pl.Notes = append(pl.Notes, p.localhostNotes(pl)...)
	pl.Sandbox = sb
	return p.decideMounts(req, sb)
}

// checkRequest refuses fields that are wrong by themselves.
func checkRequest(req *spec.Request) error {
	if req.WorkspaceMode != "" {
		if err := spec.CheckWorkspaceMode(req.WorkspaceMode); err != nil {
			return err
		}
	}
	if err := spec.CheckEnv(req.Env); err != nil {
		return spec.Errorf(nil, "%s: %w", spec.Option("env"), err)
	}
	switch {
	case !spec.ValidCPUs(req.Limits.CPUs):
		return spec.Errorf(spec.ErrUsage, "%s %v is not a number of processors", spec.Option("cpus"), req.Limits.CPUs)
	case req.Limits.Pids < 0:
		return spec.Errorf(spec.ErrUsage, "%s %d is negative", spec.Option("pids"), req.Limits.Pids)
	case req.IdleTimeout < 0:
		return spec.Errorf(spec.ErrUsage, "%s %s is negative", spec.Option("idle-timeout"), time.Duration(req.IdleTimeout))
	case req.Limits.Memory < 0 || req.Limits.Memory > 0 && req.Limits.Memory < spec.MinMemory:
		return spec.Errorf(spec.ErrUsage, "%s: a sandbox needs at least %s", spec.Option("memory"), spec.FormatSize(spec.MinMemory))
	case req.Limits.Disk < 0:
		return spec.Errorf(spec.ErrUsage, "%s %d is negative", spec.Option("disk"), req.Limits.Disk)
	case req.Workdir != "" && !filepath.IsAbs(req.Workdir):
		return spec.Errorf(spec.ErrUsage, "%s %q must be absolute", spec.Option("workdir"), req.Workdir)
	}
	if err := req.Budget.Check(); err != nil {
		return err
	}
	if err := spec.CheckTasks(req.Tasks); err != nil {
		return spec.Errorf(nil, "%s: %w", spec.Option("share-tasks"), err)
	}
	if req.Tasks != "" && len(req.Workspaces) == 0 {
		return spec.Errorf(spec.ErrUsage, "%s: the tasks are those of a directory, and none is shared", spec.Option("share-tasks"))
	}
	return nil
}

// decideProgram finds the path inside of the program that the sandbox is for.
func (p *Provisioner) decideProgram(pl *Plan) error { return pl.Agent.visible(pl.Sandbox) }

// serveAgent gives the new sandbox its variables and rules: those of its agent, its mock and its model
// server. Those of the request win over them.
func (p *Provisioner) serveAgent(pl *Plan) error {
	if pl.Agent.Spec != nil {
		pl.Sandbox.Config = pl.config
		pl.Sandbox.Env = append(agent.Env(pl.Agent.Spec), pl.Sandbox.Env...)
		pl.addAgentRules()
	}
	pl.Mock.Apply(pl.Sandbox)
	return netrules.Serve(pl.Sandbox, pl.Agent.Spec, pl.server, &pl.Rules)
}

// addAgentRules adds the rules that an agent needs to those of the request. An agent whose user has a
// model server needs none, and neither does one with the preset "none".
func (pl *Plan) addAgentRules() {
	if slices.Contains(pl.Rules.Presets, "none") || pl.server != nil {
		return
	}
	pl.Rules.Presets = slices.Clone(pl.Rules.Presets)
	for _, name := range pl.Agent.Spec.Presets {
		if !slices.Contains(pl.Rules.Presets, name) {
			pl.Rules.Presets = append(pl.Rules.Presets, name)
		}
	}
	allowed, _ := agent.Allowed(pl.Agent.Spec) // the catalog has checked the description
	for _, r := range allowed {
		if !policy.HasRule(pl.Rules.Allow, &r) {
			pl.Rules.Allow = append(slices.Clip(pl.Rules.Allow), r)
		}
	}
}

// checkConfig decides whether the agent sees the configuration in the user's home.
func (p *Provisioner) checkConfig(pl *Plan) (err error) {
	pl.config, err = p.showsConfig(&pl.Request, pl.Agent)
	return err
}

// showsConfig decides whether an agent sees the configuration in the user's home.
func (p *Provisioner) showsConfig(req *spec.Request, ref *AgentRef) (bool, error) {
	has := ref.Spec != nil && (len(ref.Spec.Config) > 0 || ref.Spec.Servers != nil)
	switch {
	case req.Config == nil:
		return has && p.Settings.AgentConfig, nil
	case *req.Config && ref.Spec == nil:
		return false, spec.Errorf(spec.ErrUsage, "%s is for agents; %s is not one", spec.Option("agent-config"), ref.Name)
	case *req.Config && !has:
		return false, spec.Errorf(spec.ErrUsage, "%s: the description of %s lists no configuration", spec.Option("agent-config"), ref.Spec.Title).
			WithHint("list it under config: see docs/guide/own-agent.md")
	}
	return *req.Config, nil
}
