package spec

// Request asks for a sandbox, in the words of a person or a program. A command line, a JSON body and a
// Go program fill in the same request. A zero field takes its default: that of the settings, or else the
// product's. Errors about a field name it as the options of "bothy create" do.
type Request struct {
	// Name of the sandbox. Default: AGENT-DIRECTORY.
	Name string `json:"name,omitempty"`
	// Agent is an agent, "shell", or the path of a program.
	Agent string `json:"agent"`
	// Version of the agent: a version, a tag of its registry, "host" or "template". Default: the newest
	// that is installed.
	Version string `json:"agent_version,omitempty"`
	// ACP prepares the sandbox for an editor: it gets the program that speaks for the agent.
	ACP bool `json:"acp,omitempty"`
	// Config shows the agent the configuration in the user's home that holds no secret. Default: setting
	// agent_config.
	Config *bool `json:"agent_config,omitempty"`

	// Workspaces are the directories of the host to work on: DIR[:ro]. Commands start in the first.
	Workspaces []string `json:"workspaces,omitempty"`
	// ForceWorkspace shares even a home directory or /.
	ForceWorkspace bool `json:"force_workspace,omitempty"`
	// WorkspaceMode is WorkspaceLive, WorkspaceReview or WorkspaceClone. Default: live.
	WorkspaceMode string `json:"workspace_mode,omitempty"`
	// GitDir says whether to share the directory in which git keeps the data of a worktree or a
	// submodule, too: GitDirShare or GitDirNone. Default: the plan says why git will not work.
	GitDir string `json:"git_dir,omitempty"`
	// Volumes are further mounts: SRC[:DST][:ro].
	Volumes []string `json:"volumes,omitempty"`
	// Private are paths of the project at which the sandbox gets a directory of its own.
	Private []string `json:"private,omitempty"`
	// Tasks is the access of programs inside to the project's tasks: TasksRead ... Default: none.
	Tasks string `json:"tasks,omitempty"`

	// Template names the root file system: TemplateHost, a saved template, an image, or a path. Default:
	// TemplateHost.
	Template string `json:"template,omitempty"`
	// Pull says when to ask a registry for an image: PullMissing, PullAlways, PullNever or PullLocal.
	// Default: missing.
	Pull string `json:"pull,omitempty"`
	// Docker gives the sandbox a Docker daemon of its own. Default: setting docker, or the template's
	// wish.
	Docker *bool `json:"docker,omitempty"`

	User    string   `json:"user,omitempty"`
	Workdir string   `json:"workdir,omitempty"` // absolute
	Env     []string `json:"env,omitempty"`     // KEY=VALUE

	Presets []string `json:"presets,omitempty"`
	Allow   []string `json:"allow,omitempty"`
	Deny    []string `json:"deny,omitempty"`
	// Publish are ports of the sandbox: [[IP:]HOSTPORT:]PORT[/tcp].
	Publish []string `json:"publish,omitempty"`
	// HostPorts are ports of the host's loopback that the sandbox reaches as host.bothy.
	HostPorts []string `json:"host_ports,omitempty"`

	// Secrets are secrets to lend: NAME[:TIME].
	Secrets []string `json:"secrets,omitempty"`
	// Lend names tools of the host whose logins to lend: TOOL[:HOST]. "none" also leaves out those of
	// the settings.
	Lend []string `json:"lend,omitempty"`
	// Mock is the path of a script that plays the providers of models.
	Mock string `json:"mock,omitempty"`
	// ModelServer is the URL of the server that the agent asks instead of its maker's; "none": ignore
	// that of the settings.
	ModelServer string `json:"model_server,omitempty"`
	ModelKey    string `json:"model_key,omitempty"`    // the secret to lend for it
	ServerModel string `json:"server_model,omitempty"` // the server's name for the model

	Limits Limits `json:"limits,omitzero"`
	Budget Budget `json:"budget,omitzero"`
	// IdleTimeout stops the sandbox when it was unused for so long. Default: setting idle_timeout.
	IdleTimeout Duration `json:"idle_timeout,omitempty"`
	// Zero names limits that are zero on purpose: "cpus", "pids", "idle-timeout", "max-tokens", "max-cost". An
	// existing sandbox must have none of them; its idle timeout must be that of the settings.
	Zero []string `json:"zero,omitempty"`
	// Checkpoint says when to make checkpoints automatically: as ParseOccasions reads it. Default:
	// never.
	Checkpoint string `json:"checkpoint,omitempty"`

	// Remove removes the sandbox when its first command has ended.
	Remove bool `json:"remove,omitempty"`
}

// Values of Request.GitDir.
const (
	GitDirShare = "share"
	GitDirNone  = "none"
)

// Values of Request.Pull.
const (
	PullMissing = "missing"
	PullAlways  = "always"
	PullNever   = "never"
	PullLocal   = "local" // ask no registry, only Docker
)
