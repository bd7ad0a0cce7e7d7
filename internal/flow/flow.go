// Package flow carries a flow on: steps that need each other, each done by an agent or
// a command in a sandbox, or by a person, each with a document that is judged where no
// sandbox can write.
//
// It decides and does nothing itself: how a flow stands is a fold over its events (see
// package run), what comes next is a function of that, and whoever runs agents and
// commands is behind an interface. So a flow goes on after a crash with the first step
// that has no result, and all of it can be tested without a sandbox.
package flow

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/bothy-dev/bothy/internal/gate"
	"github.com/bothy-dev/bothy/spec"
)

// Flow is what a file describes.
type Flow struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Version     Text   `json:"version,omitempty"`
	Agent       string `json:"agent,omitempty"` // of steps that name none
	// Parallel is how many steps may be done side by side; by default one.
	Parallel int `json:"parallel,omitempty"`
	// Remove has its sandboxes be removed when it has come to its end.
	Remove bool    `json:"rm,omitempty"`
	Inputs []Input `json:"inputs,omitempty"`
	Steps  []Step  `json:"steps"`
}

// Input is what a flow is given when it begins.
type Input struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// File is the name below inputs/ of an input that is a file; empty for a text.
	File     string `json:"file,omitempty"`
	Required bool   `json:"required,omitempty"`
	Default  *Text  `json:"default,omitempty"` // of a text
}

// Step is one step: of Prompt, Command, Approval, Question and Steps it has exactly one.
type Step struct {
	ID       string            `json:"id"`
	Needs    []string          `json:"needs,omitempty"` // steps that stand before it
	If       string            `json:"if,omitempty"`
	Matrix   map[string]Values `json:"matrix,omitempty"`
	Agent    string            `json:"agent,omitempty"`
	Model    string            `json:"model,omitempty"`
	Prompt   string            `json:"prompt,omitempty"`
	Command  string            `json:"command,omitempty"` // for /bin/sh
	Approval *Approval         `json:"approval,omitempty"`
	Question *Question         `json:"question,omitempty"` // Output is what the person answers
	Env      map[string]Text   `json:"env,omitempty"`
	// Inputs are the files it gets: inputs/NAME, or ${{ steps.ID.output }}. Without it
	// all inputs, and what the steps that it needs put out.
	Inputs *[]string `json:"inputs,omitempty"`
	// Output is the document it makes, below outputs/.
	Output   string       `json:"output,omitempty"`
	Validate *gate.Checks `json:"validate,omitempty"` // of Output
	// Retry is how often it is tried again, with what was missing; by default 2 of a
	// prompt, and 0 of a command.
	Retry   *int           `json:"retry,omitempty"`
	Timeout *spec.Duration `json:"timeout,omitempty"` // for each try; by default an hour of a prompt, and 10 minutes of a command
	Final   bool           `json:"final,omitempty"`   // its output is that of the flow
	// Back is where it goes on if the step has failed.
	Back *Back `json:"back,omitempty"`

	// Copy has each time of a prompt with a matrix work in a copy of the directory of its
	// own, which waits there for a person. The other steps see nothing of the directory.
	Copy bool `json:"copy,omitempty"`
	// Of has a command judge what such a step left: it is done for each of its times, in a
	// sandbox of its own that begins with that copy. What it prints is its output.
	Of string `json:"of,omitempty"`

	// Fresh has a command be done in a sandbox that is made for it: nothing that an earlier
	// step has run could have changed what is there. What it prints is its output.
	Fresh bool `json:"fresh,omitempty"`

	// Each makes a group of it: Steps are done for each element of the list in this input.
	Each  string `json:"each,omitempty"`
	Steps []Step `json:"steps,omitempty"`
	// Passes is a path below outputs/ for that list, in which what is done passes.
	Passes string `json:"passes,omitempty"`
	// Recheck has a command that failed for one of them be tried once more at the end of the
	// list, if another one was done after it: that may have mended what was red.
	Recheck bool `json:"recheck,omitempty"`
}

// Back says that an earlier step is done again, and told what was wrong; and with it all
// that needs it.
type Back struct {
	To    string `json:"to"`              // a prompt that the step needs, or that what it needs does
	Times *int   `json:"times,omitempty"` // how often that one is sent back, whoever does; by default 2
}

func (b *Back) times() int {
	if b.Times != nil {
		return *b.Times
	}
	return 2
}

// Approval is asked of a person.
type Approval struct {
	Message string `json:"message"`
}

// Question is asked of a person, who answers in words.
type Question struct {
	Message string `json:"message"`
}

// forPerson tells whether a person is asked.
func (s *Step) forPerson() bool { return s.Approval != nil || s.Question != nil }

// asks is what a person is asked; empty if nobody is.
func (s *Step) asks() string {
	switch {
	case s.Approval != nil:
		return s.Approval.Message
	case s.Question != nil:
		return s.Question.Message
	}
	return ""
}

// Text is a text that may be written as a whole number or as true or false.
type Text string

// UnmarshalJSON refuses what would not come out as it was written.
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
	return fmt.Errorf("%s is no text: put it in quotes", b)
}

// Bounds of a flow.
const (
	maxFile    = 256 << 10 // bytes
	maxSteps   = 100
	maxNodes   = 256  // steps, with each of a matrix for itself
	maxOfLists = 1000 // the same, with each of a group for each element
	maxBack    = 10
	maxInputs  = 32
	maxRetry   = 10
	maxMatrix  = 64 // times a step is done
	maxMessage = 8 << 10
	// MaxParallel bounds how many steps may be done side by side: each has a sandbox.
	MaxParallel = 16
	// MaxValue bounds an input that is a text, in bytes.
	MaxValue = 32 << 10
)
