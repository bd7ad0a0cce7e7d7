package agent

import (
	"github.com/bothy-dev/bothy/internal/helper"
)

// Argv0 is the name under which the binary installs. It gets one Order (see package helper).
const Argv0 = "bothy-install"

// Order is the task of the installing process.
type Order struct {
	State   string  `json:"state"` // the state directory
	Request Request `json:"request"`
}

// Phase is the current step of an installation.
type Phase string

// The phases, in their order. Each may be missing.
const (
	Waiting     Phase = "waiting"   // for another process that installs the same program
	Resolving   Phase = "resolving" // asking the registry
	Downloading Phase = "downloading"
	Unpacking   Phase = "unpacking"
)

// Event reports the progress of an installation. Bytes of Total are done; Total is 0 if it is unknown.
type Event struct {
	Phase   Phase  `json:"phase"`
	Version string `json:"version,omitempty"` // once it is known
	Bytes   int64  `json:"bytes,omitempty"`
	Total   int64  `json:"total,omitempty"`
}

// Result is a usable program.
type Result struct {
	Installation
	// Fresh is set if the program was installed just now.
	Fresh bool `json:"fresh,omitempty"`
	// Notices are for the user: why another version than the newest is used, which settings are not
	// honoured.
	Notices []string `json:"notices,omitempty"`
}

// Message is one line of the installing process's output.
type Message = helper.Message[Event, Result]
