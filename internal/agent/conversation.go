package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/bothy-dev/bothy/spec"
)

// Argv0 is the name under which the binary installs. It gets one Order on its
// standard input, which stays open as long as the answer is wanted, answers with
// a Message a line on its standard output, and ends.
const Argv0 = "bothy-install"

// Order is what the installing process is told.
type Order struct {
	State   string  `json:"state"` // the state directory
	Request Request `json:"request"`
}

// Phase is what an installation is at.
type Phase string

// The phases, in their order. Each may be missing.
const (
	Waiting     Phase = "waiting"   // for another process that installs the same program
	Resolving   Phase = "resolving" // asking the registry
	Downloading Phase = "downloading"
	Unpacking   Phase = "unpacking"
)

// Event tells how far an installation is. Bytes of Total are done; Total is 0
// where it is not known.
type Event struct {
	Phase   Phase  `json:"phase"`
	Version string `json:"version,omitempty"` // once it is known
	Bytes   int64  `json:"bytes,omitempty"`
	Total   int64  `json:"total,omitempty"`
}

// Result is a program that can be used.
type Result struct {
	Installation
	// Fresh: it was installed just now.
	Fresh bool `json:"fresh,omitempty"`
	// Notices are for the user to read: why another version than the newest is
	// used, which settings are not honoured.
	Notices []string `json:"notices,omitempty"`
}

// Message is one line of the installing process: an event, or in the end the
// result or an error.
type Message struct {
	Event  *Event          `json:"event,omitempty"`
	Result *Result         `json:"result,omitempty"`
	Error  *spec.WireError `json:"error,omitempty"`
}

// errSilent says that the installing process ended without an answer.
var errSilent = errors.New("it ended without an answer")

// Listen reads what the installing process says to its end, and gives its answer.
func Listen(r io.Reader, progress func(Event)) (Result, error) {
	for d := json.NewDecoder(r); ; {
		var m Message
		err := d.Decode(&m)
		switch {
		case err == io.EOF:
			return Result{}, errSilent
		case err != nil:
			return Result{}, fmt.Errorf("%w: %w", errSilent, err)
		case m.Error != nil:
			return Result{}, m.Error.Err()
		case m.Result != nil:
			return *m.Result, nil
		case m.Event != nil && progress != nil:
			progress(*m.Event)
		}
	}
}

// Silent reports whether an error is that of a process that ended without an
// answer, so that how it ended is the reason.
func Silent(err error) bool { return errors.Is(err, errSilent) }
