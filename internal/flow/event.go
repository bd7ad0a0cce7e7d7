package flow

import (
	"time"

	"github.com/bothy-dev/bothy/internal/gate"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

// Types of the events of a flow, with their data. Those of run are: Began without data, Ready with
// Made, and Ended with End.
const (
	Found    = "found"    // Seen: the files as they are now
	Started  = "started"  // Start: a step is tried
	Worked   = "worked"   // Work: that try has a result, and its output is kept
	Cut      = "cut"      // Short: it was cut short; its use counts, and nothing else
	Skipped  = "skipped"  // Skip: a step is passed over
	Recheck  = "recheck"  // Again: a failed step is tried once more at the end of its list
	Asked    = "asked"    // Ask: a person is to decide
	Called   = "called"   // Call: a person was told of a question, while others were at work or at the end
	Answered = "answered" // Answer
)

// Made names the sandboxes that a flow works in.
type Made struct {
	Sandboxes map[string]string `json:"sandboxes"` // names, by agents
}

// Seen contains the hashes of a run's files. A missing file is not in it.
type Seen struct {
	Inputs  map[string]string `json:"inputs"`  // by their names below inputs/
	Outputs map[string]string `json:"outputs"` // likewise
}

// Start is the beginning of a try.
type Start struct {
	Step    string `json:"step"` // node
	Attempt int    `json:"attempt"`
	Hash    string `json:"hash"` // of its task and inputs
	// Before is what models had used for its sandbox by then; nil if unknown.
	Before *Used  `json:"before,omitempty"`
	Room   string `json:"room,omitempty"` // where it is tried; empty: in a sandbox that goes with it
	// Share is its part of what models may use for all.
	Share spec.Budget `json:"share,omitzero"`
}

// Used is what models have used.
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
	// Seen is the gateway's count of it, Said what the agent had reported by then. Nil: nothing.
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
	// Verdict is ok, failed or limit (spec.VerdictOK ...): of an agent by its own
	// events, of a command by its exit code.
	Verdict string       `json:"verdict"`
	Error   string       `json:"error,omitempty"` // why it failed
	Until   time.Time    `json:"until,omitzero"`  // models cannot be asked until then, if known
	Message string       `json:"message,omitempty"`
	Checks  []gate.Check `json:"checks,omitempty"`
	Output  *Artefact    `json:"output,omitempty"` // if it passed
	// Tokens and USD are what models used: the agent's figure, or the gateway's count if that is
	// more.
	Tokens int64   `json:"tokens"`
	USD    float64 `json:"usd"`
	// Said is the agent's figure, nil if it has none. Seen is the gateway's count, nil if it saw
	// no model asked.
	Said *spec.Claimed  `json:"said,omitempty"`
	Seen *spec.BillItem `json:"seen,omitempty"`
	// Unlisted says that a model without a price was asked in its sandbox, by now or before.
	Unlisted bool    `json:"unlisted,omitempty"`
	Seconds  float64 `json:"seconds"`
	// Overloaded goes with the verdict limit: the provider is overloaded, as the gateway has seen,
	// and no allowance is used up.
	Overloaded bool `json:"overloaded,omitempty"`
	// Scant says that the try failed when its share was used up, while other steps had theirs. It
	// does not count as a try.
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

// Ask is the question for a person to decide.
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

// Answer is the person's decision.
type Answer struct {
	Step     string `json:"step"`
	Hash     string `json:"hash"`     // of the question
	Approved bool   `json:"approved"` // or answered
	Text     string `json:"text,omitempty"`
	// Output and Checks are those of an answer to a question.
	Output *Artefact    `json:"output,omitempty"`
	Checks []gate.Check `json:"checks,omitempty"`
}

// End is the state of a flow when no process carries it on any more.
type End struct {
	Status run.Status `json:"status"`
	Reason string     `json:"reason"`
	Detail string     `json:"detail,omitempty"`
	Signal int        `json:"signal,omitempty"` // that interrupted it
}
