// Package spec holds Bothy's vocabulary: the description of a sandbox, its states, the form of an error
// for a person, and the exit codes of commands. It depends only on the standard library, so every other
// package, and any program outside, can use it.
package spec

import (
	"cmp"
	"time"
)

// Version is the version of every document that this package describes. Readers refuse a newer one.
const Version = 1

// TemplateHost is the template with the host's programs.
const TemplateHost = "host"

// Sandbox is the specification of a sandbox: everything that was decided at its creation. Afterwards
// only its ports, its program, the script of its mock and the times of its automatic checkpoints change.
type Sandbox struct {
	Version   int       `json:"version"`
	ID        string    `json:"id"`   // 12 hex digits, random
	Name      string    `json:"name"` // unique in one state directory
	Agent     string    `json:"agent"`
	Driver    string    `json:"driver"`
	Template  string    `json:"template"` // TemplateHost, the name of one made from a sandbox, or that of a container image
	CreatedAt time.Time `json:"created_at"`

	// Image is the container image that the root comes from; nil if the root is the host's.
	Image *Image `json:"image,omitempty"`

	// Build marks a sandbox that executes a step of a build; nil in all others.
	Build *Build `json:"build,omitempty"`

	// Devcontainer are the settings from a devcontainer.json; nil without one.
	Devcontainer *Devcontainer `json:"devcontainer,omitempty"`

	// Command is the program that the sandbox was made for, by its path inside; empty for an agent, and
	// for a shell.
	Command []string `json:"command,omitempty"`
	// Program is the installation of the agent that the sandbox uses until it gets another one; nil if
	// the agent is a program of the template.
	Program *Program `json:"program,omitempty"`
	// Adapter is the installation of the program that speaks with editors for the agent; nil if no editor
	// has asked for it, or if the agent speaks itself.
	Adapter *Program `json:"adapter,omitempty"`

	// Config says that the sandbox sees the parts of the agent's configuration on the host that hold no
	// secret.
	Config bool `json:"config,omitempty"`

	// Workspaces are the directories (or files) of the host that the sandbox works on, mounted at their
	// own path. The first is the primary one: commands start there. None means a sandbox without a
	// project.
	Workspaces []Mount `json:"workspaces"`
	// Named are the paths that the creator used for workspaces, if they lead through symbolic links of
	// the host. Inside, each is a link to the workspace.
	Named []Named `json:"named,omitempty"`
	// WorkspaceMode says how writes reach writable workspace directories: WorkspaceLive,
	// WorkspaceReview, or WorkspaceClone. Default: live.
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

	// Checkpoint says when Bothy makes checkpoints automatically, as ParseOccasions reads it. Empty:
	// never.
	Checkpoint string `json:"checkpoint,omitempty"`

	// Tasks says what programs inside may do with the tasks of their project: TasksRead
	// ... Empty: nothing.
	Tasks string `json:"tasks,omitempty"`

	// Loop is the ID of the loop that works in it; empty: none.
	Loop string `json:"loop,omitempty"`

	// Docker gives the sandbox a Docker daemon of its own, which starts on its first use.
	Docker bool `json:"docker,omitempty"`

	// Mock says that a script plays the providers of models; nil: real ones are asked.
	Mock *Mock `json:"mock,omitempty"`

	// ModelServer is the server that the agent asks instead of its maker's models; nil: it asks those.
	ModelServer *ModelServer `json:"model_server,omitempty"`

	// Ports are the sandbox's ports that are published on the host. HostPorts are ports of the host's
	// loopback that the inside reaches as host.bothy.
	Ports     []Port   `json:"ports,omitempty"`
	HostPorts []uint16 `json:"host_ports,omitempty"`

	Limits      Limits   `json:"limits"`
	Budget      Budget   `json:"budget,omitzero"`
	IdleTimeout Duration `json:"idle_timeout"` // zero: never stops by itself
	// Broken says why the sandbox cannot be used: its spec is unreadable. Such a sandbox has only an ID, and
	// can only be removed.
	Broken string `json:"broken,omitempty"`
	// Mend is the advice for it, if known.
	Mend string `json:"-"`
	// Remove says to remove the sandbox once its first command ends.
	Remove bool `json:"remove,omitempty"`
}

// Access of a sandbox to tasks. Each level includes the ones before.
const (
	TasksRead  = "read"
	TasksAdd   = "add"
	TasksWrite = "write"
)

// CheckTasks refuses an unknown access. Empty is valid.
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

// Primary returns the directory that commands start in: the requested workdir, else the first workspace,
// else "" for the home directory.
func (s *Sandbox) Primary() string {
	if s.Workdir != "" {
		return s.Workdir
	}
	if len(s.Workspaces) > 0 {
		return s.Workspaces[0].Target
	}
	return ""
}

// Named is a path that leads to a shared directory or file.
type Named struct {
	Path   string `json:"path"`
	Target string `json:"target"` // its path inside
}

// Program is one installation of an agent's program.
type Program struct {
	Name         string `json:"name"`         // its name inside
	Installation string `json:"installation"` // its ID: usually the version
	Binary       string `json:"binary"`       // path in the installation
	// From is the name of its description. Default: the agent of the sandbox.
	From string `json:"from,omitempty"`
	// Runtime is the runtime of the program, if neither the installation nor the host has it.
	Runtime *Program `json:"runtime,omitempty"`
}

// Image is a container image, at the time when a sandbox was created from it.
type Image struct {
	Name   string `json:"name,omitempty"` // the full name; by now it may mean another image
	Digest string `json:"digest"`         // digest of the image's manifest
}

// Build says that a sandbox runs steps of a build: its home and /tmp are in its root layer, which is the
// step's result, and commands run as root.
type Build struct {
	Lock    string `json:"lock"`              // held while the build runs
	Program string `json:"program"`           // bothy-build, on the host
	Context string `json:"context,omitempty"` // the files it copies from, on the host
}

// Mount makes one directory or file of the host visible in the sandbox.
type Mount struct {
	Source   string `json:"source"` // absolute, symbolic links resolved
	Target   string `json:"target"` // absolute, inside
	ReadOnly bool   `json:"read_only,omitempty"`
}

// String formats the mount as the -v flag takes it.
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

// Limits bounds the host resources of a sandbox. Zero means no limit.
type Limits struct {
	CPUs   float64 `json:"cpus,omitempty"`   // processors, may be a fraction
	Memory int64   `json:"memory,omitempty"` // bytes, of everything inside plus the wall itself
	Pids   int64   `json:"pids,omitempty"`   // processes and threads inside
	Disk   int64   `json:"disk,omitempty"`   // bytes outside of the host's directories and of checkpoints
}

// WithDefaults returns the limits, with those of def in the place of limits that are not set.
func (l Limits) WithDefaults(def Limits) Limits {
	return Limits{
		CPUs: cmp.Or(l.CPUs, def.CPUs), Memory: cmp.Or(l.Memory, def.Memory),
		Pids: cmp.Or(l.Pids, def.Pids), Disk: cmp.Or(l.Disk, def.Disk),
	}
}

// MinMemory is the memory that the sandbox itself and a shell need, in bytes.
const MinMemory = 64 << 20

// ValidCPUs reports whether n can be a number of processors. Zero means no limit.
func ValidCPUs(n float64) bool { return n >= 0 && n <= 1<<20 } // false for NaN, too

// Names of the limits, as in Enforcement and in flags.
const (
	LimitCPUs   = "cpus"
	LimitMemory = "memory"
	LimitPids   = "pids"
	LimitDisk   = "disk"
)

// Enforcement says whether and how this host enforces one limit.
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

// UnmarshalText reads the format of time.ParseDuration.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return err
	}
	*d = Duration(v)
	return nil
}
