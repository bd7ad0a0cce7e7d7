package spec

import (
	"time"
)

// State is the state of a sandbox in its life cycle.
type State string

// States of a sandbox. A removed sandbox has none.
const (
	Stopped  State = "stopped"
	Starting State = "starting"
	Running  State = "running"
	Stopping State = "stopping"
)

// Status is the current state of a sandbox, as its keeper last wrote it. Only the keeper writes it
// while the keeper lives. The keeper's lock tells whether the sandbox really runs, never this file
// alone.
type Status struct {
	Version   int        `json:"version"`
	State     State      `json:"state"`
	Reason    string     `json:"reason,omitempty"` // why it stopped
	Crashed   bool       `json:"crashed,omitempty"`
	CrashTold bool       `json:"crash_told,omitempty"` // a command has reported the crash
	KeeperPID int        `json:"keeper_pid,omitempty"`
	Cgroup    string     `json:"cgroup,omitempty"` // directory to remove after a crash
	StartedAt *time.Time `json:"started_at,omitempty"`
	StoppedAt *time.Time `json:"stopped_at,omitempty"`
	UsedAt    *time.Time `json:"last_used_at,omitempty"` // the last time a person attached or a command ran

	// Ports are the published ports, with their actual addresses and ports on the host. For a stopped
	// sandbox, they are those of its last run.
	Ports []Port `json:"ports,omitempty"`

	// WaitingSince is the time since when the agent at its terminal has been silent: it waits for a
	// person. Nil if it works, or none runs.
	WaitingSince *time.Time `json:"waiting_since,omitempty"`

	Limits []Enforcement `json:"limits,omitempty"`
	// Disk is the sandbox's disk usage; nil before it was counted.
	Disk *DiskUse  `json:"disk,omitempty"`
	Root RootLayer `json:"root_layer"`
	// Gaps describe how the template's view differs from the expected one on this host, in sentences.
	Gaps []string `json:"gaps,omitempty"`
	// Unlent are leases that should be in effect and are not. For a stopped sandbox, they are those of
	// its last run.
	Unlent []Unlent `json:"unlent,omitempty"`
	// NetworkPaused says why all new connections are blocked, despite the rules; empty if the network is
	// not paused.
	NetworkPaused string `json:"network_paused,omitempty"`
	// Mounted are the host directories that the sandbox sees. For a stopped sandbox, they are those of
	// its last run.
	Mounted []Mounted `json:"mounted,omitempty"`
}

// Mounted identifies the directory that was at a path at the time of the mount.
type Mounted struct {
	Source string `json:"source"`
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
	Birth  int64  `json:"birth,omitempty"` // in nanoseconds since 1970; 0 if the file system does not keep it
}

// DiskUse is the disk usage of a sandbox at the last count, outside of the host's directories and
// of checkpoints, and its limits.
type DiskUse struct {
	CountedAt time.Time `json:"counted_at"`
	Bytes     int64     `json:"bytes"` // allocated
	Files     int64     `json:"files"` // names of files and directories
	// Limit and FilesLimit bound the usage while the sandbox runs. They exceed its configured limit
	// if it was over that when it started.
	Limit      int64 `json:"limit"`
	FilesLimit int64 `json:"files_limit"`
	// Parts are the places of the sandbox's files, the largest first.
	Parts []DiskPart `json:"parts"`
	// Uncounted is the number of directories that could not be read.
	Uncounted int `json:"uncounted,omitempty"`
}

// DiskPart is one of the places of a sandbox's files.
type DiskPart struct {
	What  string `json:"what"` // for a person: "the home directory"
	Bytes int64  `json:"bytes"`
	Files int64  `json:"files"`
}

// Over reports whether the usage exceeds a limit.
func (d *DiskUse) Over() bool { return d != nil && (d.Bytes > d.Limit || d.Files > d.FilesLimit) }

// RootLayer says how safe the private layer over the template is.
type RootLayer struct {
	// SavedAt is when the layer was last written to disk. Later changes are lost if the keeper or
	// the wall is killed.
	SavedAt *time.Time `json:"saved_at,omitempty"`
	// Bytes is the size of the saved layer on disk.
	Bytes int64 `json:"bytes"`
	// Bound is the longest time that a change waits for its save while the sandbox works.
	Bound Duration `json:"bound"`
	// SaveError is the error of the last save; empty if it succeeded.
	SaveError string `json:"save_error,omitempty"`
}

// Session is one program that a person or a script started in a sandbox.
type Session struct {
	ID       string    `json:"id"`
	Kind     string    `json:"kind"` // agent or exec
	Command  []string  `json:"command"`
	TTY      bool      `json:"tty"`
	Attached int       `json:"attached"` // terminals attached now
	PID      int       `json:"pid"`      // inside
	Started  time.Time `json:"started_at"`
}

// Usage is the host's resources that a running sandbox uses.
type Usage struct {
	CPUSeconds float64 `json:"cpu_seconds"` // of all processes since the start
	Memory     int64   `json:"memory"`      // resident bytes of all processes
	Processes  int     `json:"processes"`   // inside
	Sessions   int     `json:"sessions"`
}
