// Package spec holds Bothy's vocabulary: the description of a sandbox, its states, the form of an
// error for a person, and the exit codes of commands. It depends on nothing but the standard
// library, so that every other package, and any program outside, can share the vocabulary.
package spec

import "time"

// Version is the version of every document this package describes. Readers
// refuse a newer one.
const Version = 1

// TemplateHost is the template that has the host's programs.
const TemplateHost = "host"

// Sandbox is the specification: everything that was decided when a sandbox was created. It is
// written at creation. Afterwards only its ports, its program, the script of its mock and the times
// of its automatic checkpoints change.
type Sandbox struct {
	Version   int       `json:"version"`
	ID        string    `json:"id"`   // 12 hex digits, random
	Name      string    `json:"name"` // unique in one state directory
	Agent     string    `json:"agent"`
	Driver    string    `json:"driver"`
	Template  string    `json:"template"` // TemplateHost, the name of one made from a sandbox, or a container image's
	CreatedAt time.Time `json:"created_at"`

	// Image is the container image whose root it has; nil if that is the host's.
	Image *Image `json:"image,omitempty"`

	// Build marks a sandbox that executes a step of a build; nil in all others.
	Build *Build `json:"build,omitempty"`

	// Devcontainer are the settings from a devcontainer.json; nil without one.
	Devcontainer *Devcontainer `json:"devcontainer,omitempty"`

	// Command is the program that the sandbox was made for by its path, as it is
	// inside; empty for an agent, and for a shell.
	Command []string `json:"command,omitempty"`
	// Program is the installation of the agent that the sandbox uses until it is
	// given another; nil if the agent is a program of the template.
	Program *Program `json:"program,omitempty"`

	// Config says that it shows the agent's configuration of the host, as far as
	// that holds no secret.
	Config bool `json:"config,omitempty"`

	// Workspaces are the directories (or files) of the host the sandbox works
	// on, mounted at their own path. The first is the primary one: commands
	// start there. None means a sandbox without a project.
	Workspaces []Mount `json:"workspaces"`
	// Named are the paths by which the person who created it named workspaces, where those lead
	// through symbolic links of the host. Inside, each is a link to the workspace.
	Named []Named `json:"named,omitempty"`
	// WorkspaceMode says how writes reach those of them that are directories and
	// can be written to: WorkspaceLive, WorkspaceReview, or WorkspaceClone.
	// Default: live.
	WorkspaceMode string `json:"workspace_mode,omitempty"`
	// Volumes are further mounts, at a path of their own.
	Volumes []Mount `json:"volumes,omitempty"`
	// Private are paths inside, in a workspace or a volume, at which the sandbox has a directory of
	// its own instead of the host's, for build output and installed packages. It is faster than a
	// shared one, because only the sandbox changes it.
	Private []string `json:"private,omitempty"`

	User    string   `json:"user,omitempty"` // the user of commands; empty: the caller's own uid
	Workdir string   `json:"workdir,omitempty"`
	Env     []string `json:"env,omitempty"` // KEY=VALUE, for every command

	// Checkpoint says when Bothy makes checkpoints of it automatically, as ParseOccasions reads it.
	// Empty: never.
	Checkpoint string `json:"checkpoint,omitempty"`

	// Tasks says what programs inside may do with the tasks of their project: TasksRead
	// ... Empty: nothing.
	Tasks string `json:"tasks,omitempty"`

	// Loop is the ID of the loop that works in it; empty: none.
	Loop string `json:"loop,omitempty"`

	// Docker gives it a Docker daemon of its own, which begins when it is first asked for.
	Docker bool `json:"docker,omitempty"`

	// Mock has the providers of models played by a script; nil: they are asked.
	Mock *Mock `json:"mock,omitempty"`

	// ModelServer is the server that its agent asks instead of its maker's models; nil: those.
	ModelServer *ModelServer `json:"model_server,omitempty"`

	// Ports are those of the sandbox that are published on the host, HostPorts
	// those of the host's loopback that the inside reaches as host.bothy.
	Ports     []Port   `json:"ports,omitempty"`
	HostPorts []uint16 `json:"host_ports,omitempty"`

	Limits      Limits   `json:"limits"`
	Budget      Budget   `json:"budget,omitzero"`
	IdleTimeout Duration `json:"idle_timeout"` // zero: never stops by itself
	// Broken says why the sandbox cannot be used: its spec cannot be read. It
	// then has an ID and nothing else, and can only be removed.
	Broken string `json:"broken,omitempty"`
	// Mend is the advice for it, if known.
	Mend string `json:"-"`
	// Remove asks for the sandbox to be removed once its first command ends.
	Remove bool `json:"remove,omitempty"`
}

// Access of a sandbox to tasks. Each level includes those before.
const (
	TasksRead  = "read"
	TasksAdd   = "add"
	TasksWrite = "write"
)

// CheckTasks refuses any other word. Empty is valid.
func CheckTasks(access string) error {
	switch access {
	case "", TasksRead, TasksAdd, TasksWrite:
		return nil
	}
	return Errorf(ErrUsage, "%q is nothing that a sandbox may do with tasks", access).WithHint("say %s, %s or %s", TasksRead, TasksAdd, TasksWrite)
}

// CheckBroken returns an error if the sandbox's spec cannot be read.
func (s *Sandbox) CheckBroken() error {
	if s.Broken == "" {
		return nil
	}
	return Errorf(ErrConflict, "sandbox %s is broken: %s", s.Name, s.Broken).WithHint("%s", s.Mend)
}

// Primary is the directory commands start in: the workdir that was asked for,
// else the first workspace, else the empty string for "the home directory".
func (s *Sandbox) Primary() string {
	if s.Workdir != "" {
		return s.Workdir
	}
	if len(s.Workspaces) > 0 {
		return s.Workspaces[0].Target
	}
	return ""
}

// Named is a path that leads to a shared directory, or to a file.
type Named struct {
	Path   string `json:"path"`
	Target string `json:"target"` // where that is inside
}

// Program is one installation of an agent's program.
type Program struct {
	Name         string `json:"name"`         // under which it is found inside
	Installation string `json:"installation"` // its ID: the version, as a rule
	Binary       string `json:"binary"`       // path in the installation
	// From is the description it is an installation of. Default: the agent of
	// the sandbox.
	From string `json:"from,omitempty"`
	// Runtime is the runtime of the program, if neither the installation nor the host has it.
	Runtime *Program `json:"runtime,omitempty"`
}

// Image is a container image as it was when a sandbox was created from it.
type Image struct {
	Name   string `json:"name,omitempty"` // in full; it may mean another one by now
	Digest string `json:"digest"`         // of its manifest
}

// Build makes a sandbox one for steps of a build: its home and /tmp are in its root layer, which is
// the step's result, and commands run as root.
type Build struct {
	Lock    string `json:"lock"`              // held as long as the build runs
	Program string `json:"program"`           // bothy-build, on the host
	Context string `json:"context,omitempty"` // the files it copies from, on the host
}

// Mount makes one directory or file of the host visible in the sandbox.
type Mount struct {
	Source   string `json:"source"` // absolute, symbolic links resolved
	Target   string `json:"target"` // absolute, inside
	ReadOnly bool   `json:"read_only,omitempty"`
}

// String gives the mount in the form of the -v flag.
func (m Mount) String() string {
	s := m.Source
	if m.Target != m.Source {
		s += ":" + m.Target
	}
	if m.ReadOnly {
		s += ":ro"
	}
	return s
}

// Limits bounds what a sandbox may take from the host. Zero means no limit was
// asked for.
type Limits struct {
	CPUs   float64 `json:"cpus,omitempty"`   // processors, may be a fraction
	Memory int64   `json:"memory,omitempty"` // bytes, everything inside plus the wall itself
	Pids   int64   `json:"pids,omitempty"`   // processes and threads inside
	Disk   int64   `json:"disk,omitempty"`   // bytes that it keeps outside of the host's directories and of checkpoints
}

// MinMemory is the memory that the sandbox itself and a shell need, in bytes.
const MinMemory = 64 << 20

// ValidCPUs reports whether n can be a number of processors. Zero means no limit.
func ValidCPUs(n float64) bool { return n >= 0 && n <= 1<<20 } // false for NaN, too

// Names of the limits, as in an Enforcement and in flags.
const (
	LimitCPUs   = "cpus"
	LimitMemory = "memory"
	LimitPids   = "pids"
	LimitDisk   = "disk"
)

// Enforcement says whether this host really enforces one limit, and how.
type Enforcement struct {
	Limit    string `json:"limit"`
	Value    string `json:"value"`
	Enforced bool   `json:"enforced"`
	By       string `json:"by,omitempty"`     // the mechanism: "cgroup v2", "sentry"
	Reason   string `json:"reason,omitempty"` // why it is not enforced
}

// Duration is a time.Duration written as text ("30m") in JSON and YAML.
type Duration time.Duration

// MarshalText writes the duration as time.Duration does.
func (d Duration) MarshalText() ([]byte, error) {
	return []byte(time.Duration(d).String()), nil
}

// UnmarshalText reads what time.ParseDuration reads.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return err
	}
	*d = Duration(v)
	return nil
}
