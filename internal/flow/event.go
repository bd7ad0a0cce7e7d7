package flow

import (
	"time"

	"github.com/bothy-dev/bothy/internal/gate"
	"github.com/bothy-dev/bothy/spec"
)

// Types of the events of a flow, with what their data are.
const (
	Began    = "began"    // a process carries it on from here
	Ready    = "ready"    // Made: its sandboxes are there
	Found    = "found"    // Seen: the files as they are now
	Started  = "started"  // Start: a step is tried
	Worked   = "worked"   // Work: that try has a result, and its output is kept
	Cut      = "cut"      // Short: it was cut short; what it has used counts, and nothing else
	Skipped  = "skipped"  // Skip: a step is passed over
	Recheck  = "recheck"  // Again: what failed is tried once more at the end of its list
	Asked    = "asked"    // Ask: a person is to decide
	Called   = "called"   // Call: a person was told what is asked, while others were at work or at the end
	Answered = "answered" // Answer
	Ended    = "ended"    // End: nobody carries it on any more
)

// Made tells what a flow works in.
type Made struct {
	Sandboxes map[string]string `json:"sandboxes"` // names, by agents
}

// Seen is what the files of a run hash to. One that is not there is not in it.
type Seen struct {
	Inputs  map[string]string `json:"inputs"`  // by their names below inputs/
	Outputs map[string]string `json:"outputs"` // likewise
}

// Start is the beginning of a try.
type Start struct {
	Step    string `json:"step"` // node
	Attempt int    `json:"attempt"`
	Hash    string `json:"hash"` // of what it is asked to do, and with what
	// Before is what models had taken for its sandbox by then; nil if that is not known.
	Before *Used  `json:"before,omitempty"`
	Room   string `json:"room,omitempty"` // where it is tried; empty: in a sandbox that goes with it
	// Share is what models may take for it, of what all may.
	Share spec.Budget `json:"share,omitzero"`
}

// Used is what models have taken.
type Used struct {
	Tokens int64   `json:"tokens"`
	USD    float64 `json:"usd"`
}

// Short is a try that was cut short.
type Short struct {
	Step    string  `json:"step"`
	Attempt int     `json:"attempt"`
	Tokens  int64   `json:"tokens"` // since it began
	USD     float64 `json:"usd"`
	// Seen is what the gateway counted of it, Said what the agent had said by then; nil: nothing.
	Seen *spec.BillItem `json:"seen,omitempty"`
	Said *spec.Claimed  `json:"said,omitempty"`
}

// Artefact is a document that passed its checks.
type Artefact struct {
	Path   string    `json:"path"` // below outputs/
	SHA256 string    `json:"sha256"`
	Size   int64     `json:"size"`
	At     time.Time `json:"validated_at"`
}

// Work is what became of a try.
type Work struct {
	Step    string `json:"step"`
	Attempt int    `json:"attempt"`
	// Verdict is ok, failed or limit (spec.VerdictOK ...): of an agent by its own
	// events, of a command by its exit code.
	Verdict string       `json:"verdict"`
	Error   string       `json:"error,omitempty"` // why it failed
	Until   time.Time    `json:"until,omitzero"`  // models cannot be asked until then, if known
	Message string       `json:"message,omitempty"`
	Checks  []gate.Check `json:"checks,omitempty"`
	Output  *Artefact    `json:"output,omitempty"` // if it passed
	// Tokens and USD are what models took: what the agent says, or what the gateway
	// counted, if that is more.
	Tokens int64   `json:"tokens"`
	USD    float64 `json:"usd"`
	// Said is what the agent says, nil if it says nothing; Seen what the gateway counted, nil
	// if it saw no model asked.
	Said *spec.Claimed  `json:"said,omitempty"`
	Seen *spec.BillItem `json:"seen,omitempty"`
	// Unlisted says that a model without a price was asked in its sandbox, by now or before.
	Unlisted bool    `json:"unlisted,omitempty"`
	Seconds  float64 `json:"seconds"`
	// Overloaded is with the verdict limit: nobody's allowance is used up, but the provider
	// has too much to do, as the gateway has seen.
	Overloaded bool `json:"overloaded,omitempty"`
	// Scant says that it came to nothing when its share was used up, while others had
	// theirs: that is no try.
	Scant bool `json:"scant,omitempty"`
}

// Skip says why a step is passed over.
type Skip struct {
	Step string `json:"step"`
	Hash string `json:"hash"`
	Why  string `json:"why"`
}

// Again is a step that failed, and is tried once more.
type Again struct {
	Step string `json:"step"`
}

// Ask is what a person is to decide.
type Ask struct {
	Step    string `json:"step"`
	Hash    string `json:"hash"`
	Message string `json:"message"`
}

// Call is that a person was told of a question.
type Call struct {
	Step  string `json:"step"`
	Asked int64  `json:"asked"` // the event
}

// Answer is what the person decided.
type Answer struct {
	Step     string `json:"step"`
	Hash     string `json:"hash"`     // of what was asked
	Approved bool   `json:"approved"` // or answered
	Text     string `json:"text,omitempty"`
	// Output and Checks are of what was answered to a question.
	Output *Artefact    `json:"output,omitempty"`
	Checks []gate.Check `json:"checks,omitempty"`
}

// End says how a flow stands when nobody carries it on any more.
type End struct {
	Status Status `json:"status"`
	Reason string `json:"reason"`
	Detail string `json:"detail,omitempty"`
	Signal int    `json:"signal,omitempty"` // that interrupted it
}
