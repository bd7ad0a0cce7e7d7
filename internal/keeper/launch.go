// Package keeper is the process that owns one running sandbox: its wall, sessions, control
// socket, root layer and logs. The processes of the wall have no other parent; when the keeper
// ends, for whatever reason, they end with it.
package keeper

import (
	"time"

	"github.com/bothy-dev/bothy/internal/program"
)

// Argv0 is the name under which a keeper runs.
const Argv0 = program.Keeper

// Descriptors the engine hands to a keeper.
//
// The lock has a high number for a reason. The sentry moves descriptors to 253 and up. If the
// kernel must enlarge the descriptor table of a process with threads for that, the process
// waits ten milliseconds and more for a grace period. A child forked from a keeper with such a
// descriptor has a large enough table from the start.
const (
	LaunchFD = 3   // a socket: launch.Settings come in, readiness goes out
	BothyFD  = 4   // the launching program, opened with O_PATH: it stays valid if the name changes
	LockFD   = 252 // the sandbox's lock, held as long as the keeper lives
)

// OpenFiles is how many files a keeper and its wall must be able to open.
const OpenFiles = 1024

// Launched says that the sandbox takes commands.
type Launched struct {
	Unlent string `json:"unlent,omitempty"` // why no secret is lent, although some should
}

// Times of a keeper.
const (
	defaultSaveEvery = 5 * time.Second
	stopGrace        = 2 * time.Second        // between SIGTERM and SIGKILL inside
	verdictGrace     = 500 * time.Millisecond // the same if the sandbox is stopped for its own misbehaviour

	startTime      = 2 * time.Second // how long a start may take, roughly
	startGCPercent = 400             // see Begin
)
