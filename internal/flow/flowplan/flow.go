// Package flowplan reads a flow and checks it. A flow consists of steps that need each other. An agent or a
// command in a sandbox does a step, or a person does. A plan is a flow with the inputs and settings of one
// run; it says which nodes the run has and which sandboxes they need. Package flow carries it on.
package flowplan

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/bothy-dev/bothy/internal/gate"
	"github.com/bothy-dev/bothy/spec"
)

// Flow is the content of a flow file.
type Flow struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Version     Text   `json:"version,omitempty"`
	Agent       string `json:"agent,omitempty"` // for steps without one
	// Parallel is how many steps may run side by side; default: one.
	Parallel int `json:"parallel,omitempty"`
	// Remove says to remove the sandboxes at the end.
	Remove bool    `json:"rm,omitempty"`
	Inputs []Input `json:"inputs,omitempty"`
	Steps  []Step  `json:"steps"`
}

// Input is a value or file that a flow gets at its beginning.
type Input struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// File is the name below inputs/ of an input that is a file; empty for a text.
	File     string `json:"file,omitempty"`
	Required bool   `json:"required,omitempty"`
	Default  *Text  `json:"default,omitempty"` // of a text
}

// Step is one step. It has exactly one of Prompt, Command, Approval, Question and Steps.
type Step struct {
	ID       string            `json:"id"`
	Needs    []string          `json:"needs,omitempty"` // steps that come before it
	If       string            `json:"if,omitempty"`
	Matrix   map[string]Values `json:"matrix,omitempty"`
	Agent    string            `json:"agent,omitempty"`
	Model    string            `json:"model,omitempty"`
	Prompt   string            `json:"prompt,omitempty"`
	Command  string            `json:"command,omitempty"` // for /bin/sh
	Approval *Approval         `json:"approval,omitempty"`
	Question *Question         `json:"question,omitempty"` // Output is the person's answer
	Env      map[string]Text   `json:"env,omitempty"`
	// Inputs are the files it gets: inputs/NAME, or ${{ steps.ID.output }}. Nil: all inputs, and the
	// outputs of the steps that it needs.
	Inputs *[]string `json:"inputs,omitempty"`
	// Output is the document it makes, below outputs/.
	Output   string       `json:"output,omitempty"`
	Validate *gate.Checks `json:"validate,omitempty"` // of Output
	// Retry is how often it is tried again, with its flaws; default: 2 for a prompt, and 0 for a
	// command.
	Retry   *int           `json:"retry,omitempty"`
	Timeout *spec.Duration `json:"timeout,omitempty"` // for each try; default: an hour for a prompt, and 10 minutes for a command
	Final   bool           `json:"final,omitempty"`   // its output is the flow's output
	// Back is the step to go back to if this one has failed.
	Back *Back `json:"back,omitempty"`

	// Copy runs each time of a prompt with a matrix in its own copy of the directory, which stays there
	// for a person. The other steps see nothing of the directory.
	Copy bool `json:"copy,omitempty"`
	// Of names such a step, for a command that judges it. The command runs for each of its times, in a
	// sandbox of its own that starts with that copy. Its stdout is its output.
	Of string `json:"of,omitempty"`

	// Fresh runs a command in a new sandbox, so no earlier step could have changed anything there. Its
	// stdout is its output.
	Fresh bool `json:"fresh,omitempty"`

	// Each makes the step a group: Steps run for each element of the list in this input.
	Each  string `json:"each,omitempty"`
	Steps []Step `json:"steps,omitempty"`
	// Passes is a path below outputs/ for a copy of that list, in which finished elements pass.
	Passes string `json:"passes,omitempty"`
	// Recheck tries a command that failed for an element once more at the end of the list, if
	// another element was done after it: that may have fixed the red check.
	Recheck bool `json:"recheck,omitempty"`
}

// Back sends an earlier step back, with the flaws. That step runs again, and so do all that need it.
type Back struct {
	To    string `json:"to"`              // a prompt that this step needs, directly or not
	Times *int   `json:"times,omitempty"` // how often all steps together send that step back; default 2
}

func (b *Back) Rounds() int {
	if b.Times != nil {
		return *b.Times
	}
	return 2
}

// Approval is a question to a person, who approves or rejects.
type Approval struct {
	Message string `json:"message"`
}

// Question is a question to a person, who answers in words.
type Question struct {
	Message string `json:"message"`
}

// ForPerson reports whether the step asks a person.
func (s *Step) ForPerson() bool { return s.Approval != nil || s.Question != nil }

// QuestionText returns the question to a person; empty if the step has none.
func (s *Step) QuestionText() string {
	switch {
	case s.Approval != nil:
		return s.Approval.Message
	case s.Question != nil:
		return s.Question.Message
	}
	return ""
}

// Text is a string that may be written as a whole number or as true or false.
type Text string

// UnmarshalJSON refuses a value whose text would change.
func (t *Text) UnmarshalJSON(b []byte) error {
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	switch v := v.(type) {
	case string:
		*t = Text(v)
		return nil
	case bool:
		*t = Text(strconv.FormatBool(v))
		return nil
	case float64:
		if n, err := strconv.ParseInt(string(b), 10, 64); err == nil {
			*t = Text(strconv.FormatInt(n, 10))
			return nil
		}
	}
	return fmt.Errorf("%s is not a text: put it in quotes", b)
}

// Directories in the directory of a run.
const (
	InputsDir  = "inputs"
	OutputsDir = "outputs"
)

// Bounds of a flow.
const (
	maxFile    = 256 << 10 // bytes
	maxSteps   = 100
	maxNodes   = 256  // steps, counting each of a matrix
	maxOfLists = 1000 // likewise, counting each of a group for each element
	maxBack    = 10
	maxInputs  = 32
	maxRetry   = 10
	maxMatrix  = 64 // times a step is done
	// MaxParallel bounds how many steps may run side by side: each has a sandbox.
	MaxParallel = 16
	// MaxValue bounds a text input, in bytes.
	MaxValue = 32 << 10
)

// LogName returns the name of a try's log file.
func LogName(n *Node, try string) string {
	if n.Step.Prompt != "" {
		return queries + try + ".log"
	}
	return try + ".log"
}

// queries begins the name of an agent's log: Looplia's word.
const queries = "query-"
