// Package keeper is the process that owns one running sandbox: its wall, its
// sessions, its control socket, its root layer and its logs. It is the only
// parent of the processes that make up the wall; when it ends, for whatever
// reason, they end with it.
package keeper

import (
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// Argv0 is the name under which the binary plays the keeper's role.
const Argv0 = "bothy-keeper"

// Descriptors the engine hands to a keeper.
const (
	LaunchFD = 3 // a socket: a Launch comes in, readiness goes out
	LockFD   = 4 // the sandbox's lock, held as long as the keeper lives
)

// Launch is what a keeper cannot find out by itself: it runs with an empty
// environment, in namespaces of its own.
//
// The keeper answers with an empty wire.Reply once the sandbox takes commands,
// or with a wire.Failure.
type Launch struct {
	PID     int                `json:"pid"`     // the keeper's own, as the host counts
	Version string             `json:"version"` // of the binary that launches
	Cache   string             `json:"cache"`   // where templates keep derived files
	User    string             `json:"user"`    // the caller's name
	Home    string             `json:"home"`    // the home directory's path, inside as outside
	Shell   string             `json:"shell"`
	Cgroup  string             `json:"cgroup,omitempty"`
	Limits  []spec.Enforcement `json:"limits,omitempty"`
	// Hidden are paths inside to be covered by an empty directory.
	Hidden []string `json:"hidden,omitempty"`
	// Pids and Disk are the limits the wall itself holds.
	Pids int64 `json:"pids"`
	Disk int64 `json:"disk"`
	// Memory is the limit the keeper watches over itself, in bytes; where a
	// cgroup holds it too, this is the gentler one.
	Memory int64 `json:"memory"`
	// SaveEvery is the shortest time between two background saves.
	SaveEvery spec.Duration `json:"save_every"`
}

// Times a keeper works by.
const (
	defaultSaveEvery = 5 * time.Second
	stopGrace        = 2 * time.Second // between SIGTERM and SIGKILL inside
	orphanGrace      = 5 * time.Second // for a command whose caller vanished
)
