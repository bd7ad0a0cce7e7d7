package flow

import (
	"time"

	"github.com/bothy-dev/bothy/internal/gate"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

// Types of the events of a flow, with their data. Of the types in package run, Began has no data, Ready
// has Made, and Ended has End.
const (
	Found    = "found"    // Seen: the current files
	Started  = "started"  // Start: a try of a step begins
	Worked   = "worked"   // Work: the try has a result, and its output is kept
	Cut      = "cut"      // Short: the try was interrupted; only its usage counts
	Skipped  = "skipped"  // Skip: a step is skipped
	Recheck  = "recheck"  // Again: a failed step is tried once more at the end of its list
	Asked    = "asked"    // Ask: a person has to decide
	Called   = "called"   // Call: a person was told of a question, while other steps were running or at the end
	Answered = "answered" // Answer
)

// Made names the sandboxes that a flow works in.
type Made struct {
	Sandboxes map[string]string `json:"sandboxes"` // names, by agents
}

// Seen contains the hashes of a run's files. Missing files are left out.
type Seen struct {
	Inputs  map[string]string `json:"inputs"`  // by their names below inputs/
	Outputs map[string]string `json:"outputs"` // likewise
}

// Start is the beginning of a try.
type Start struct {
	Step    string `json:"step"` // node
	Attempt int    `json:"attempt"`
	Hash    string `json:"hash"` // covers its task and inputs
	// Before is the usage of models by its sandbox at that time; nil if unknown.
	Before *Used  `json:"before,omitempty"`
	Room   string `json:"room,omitempty"` // the room of the try; empty: a sandbox of its own
	// Share is its part of the common budget.
	Share spec.Budget `json:"share,omitzero"`
}

// Used is a usage of models.
type Used struct {
	Tokens int64   `json:"tokens"`
	USD    float64 `json:"usd"`
}

// Short is an interrupted try.
type Short struct {
	Step    string  `json:"step"`
	Attempt int     `json:"attempt"`
	Tokens  int64   `json:"tokens"` // since it began
	USD     float64 `json:"usd"`
	// Seen is the gateway's count of it, Said the agent's own report until then. Nil: nothing.
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

// Work is the result of a try.
type Work struct {
	Step    string `json:"step"`
	Attempt int    `json:"attempt"`
	// Verdict is ok, failed or limit (spec.VerdictOK ...): for an agent by its own events, for a command
	// by its exit code.
	Verdict string       `json:"verdict"`
	Error   string       `json:"error,omitempty"` // why it failed
	Until   time.Time    `json:"until,omitzero"`  // models cannot be asked until then, if known
	Message string       `json:"message,omitempty"`
	Checks  []gate.Check `json:"checks,omitempty"`
	Output  *Artefact    `json:"output,omitempty"` // set if it passed
	// Tokens and USD are the usage of models: the agent's figure, or the gateway's count if that is
	// more.
	Tokens int64   `json:"tokens"`
	USD    float64 `json:"usd"`
	// Said is the agent's figure, nil if it has none. Seen is the gateway's count, nil if it saw no
	// requests to models.
	Said *spec.Claimed  `json:"said,omitempty"`
	Seen *spec.BillItem `json:"seen,omitempty"`
	// Unlisted says that the sandbox has asked a model without a price, now or earlier.
	Unlisted bool    `json:"unlisted,omitempty"`
	Seconds  float64 `json:"seconds"`
	// Overloaded goes with the verdict limit: the gateway has seen that the provider is overloaded, and
	// no allowance is used up.
	Overloaded bool `json:"overloaded,omitempty"`
	// Scant says that the try failed when its share was used up, while other steps had theirs. It
	// does not count as a try.
	Scant bool `json:"scant,omitempty"`
}

// Skip says why a step is skipped.
type Skip struct {
	Step string `json:"step"`
	Hash string `json:"hash"`
	Why  string `json:"why"`
}

// Again is a failed step that is tried once more.
type Again struct {
	Step string `json:"step"`
}

// Ask is the question for a person to decide.
type Ask struct {
	Step    string `json:"step"`
	Hash    string `json:"hash"`
	Message string `json:"message"`
}

// Call says that a person was told of a question.
type Call struct {
	Step  string `json:"step"`
	Asked int64  `json:"asked"` // number of the event
}

// Answer is the person's decision.
type Answer struct {
	Step     string `json:"step"`
	Hash     string `json:"hash"`     // of the question
	Approved bool   `json:"approved"` // or answered
	Text     string `json:"text,omitempty"`
	// Output and Checks belong to an answer to a question.
	Output *Artefact    `json:"output,omitempty"`
	Checks []gate.Check `json:"checks,omitempty"`
}

// End is the state of a flow that no process carries on any more.
type End struct {
	Status run.Status `json:"status"`
	Reason string     `json:"reason"`
	Detail string     `json:"detail,omitempty"`
	Signal int        `json:"signal,omitempty"` // the signal that interrupted it
}
