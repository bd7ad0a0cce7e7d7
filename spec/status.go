package spec

import "time"

// State is the state of a sandbox in its life cycle.
type State string

// The states. A sandbox that was removed has none: it is gone.
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
	CrashTold bool       `json:"crash_told,omitempty"` // a command has said so
	KeeperPID int        `json:"keeper_pid,omitempty"`
	Cgroup    string     `json:"cgroup,omitempty"` // directory to remove after a crash
	StartedAt *time.Time `json:"started_at,omitempty"`
	StoppedAt *time.Time `json:"stopped_at,omitempty"`
	UsedAt    *time.Time `json:"last_used_at,omitempty"` // the last time a person attached or a command ran

	// Ports are those that are published, with the addresses and ports of the
	// host at which they are. Of a sandbox that does not run: were, when it ran.
	Ports []Port `json:"ports,omitempty"`

	// WaitingSince is since when the agent at its terminal has said nothing: it
	// waits for a person. Nil if it works, or none runs.
	WaitingSince *time.Time `json:"waiting_since,omitempty"`

	Limits []Enforcement `json:"limits,omitempty"`
	// Disk is the sandbox's disk usage; nil before it was counted.
	Disk *DiskUse  `json:"disk,omitempty"`
	Root RootLayer `json:"root_layer"`
	// Gaps are differences between the template's view and the expected one on this host, in
	// sentences.
	Gaps []string `json:"gaps,omitempty"`
	// Unlent are leases that should be in effect and are not. Of a sandbox that
	// does not run: were not, when it ran.
	Unlent []Unlent `json:"unlent,omitempty"`
	// NetworkPaused says why no new connection is let through, despite its rules; empty if the
	// network is not paused.
	NetworkPaused string `json:"network_paused,omitempty"`
	// Mounted are the directories of the host that the sandbox sees. Of a sandbox that does
	// not run: saw, when it ran.
	Mounted []Mounted `json:"mounted,omitempty"`
}

// Mounted tells which directory was at a path when it was mounted.
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
	// Parts are its places, the largest first.
	Parts []DiskPart `json:"parts"`
	// Uncounted are directories that could not be looked into.
	Uncounted int `json:"uncounted,omitempty"`
}

// DiskPart is one of the places of a sandbox's files.
type DiskPart struct {
	What  string `json:"what"` // for a person: "the home directory"
	Bytes int64  `json:"bytes"`
	Files int64  `json:"files"`
}

// Over tells whether it was too much.
func (d *DiskUse) Over() bool { return d != nil && (d.Bytes > d.Limit || d.Files > d.FilesLimit) }

// RootLayer tells how safe the private layer over the template is.
type RootLayer struct {
	// SavedAt is when the layer was last written to disk. Later changes are lost if the keeper or
	// the wall is killed.
	SavedAt *time.Time `json:"saved_at,omitempty"`
	// Bytes is the size of the saved layer on disk.
	Bytes int64 `json:"bytes"`
	// Bound is the longest time a change waits for its save while the sandbox
	// works.
	Bound Duration `json:"bound"`
	// SaveError is why the last save failed, empty when it did not.
	SaveError string `json:"save_error,omitempty"`
}

// Session is one program a person or a script started in a sandbox.
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
	CPUSeconds float64 `json:"cpu_seconds"` // of all its processes since start
	Memory     int64   `json:"memory"`      // bytes resident, all its processes
	Processes  int     `json:"processes"`   // inside
	Sessions   int     `json:"sessions"`
}
