// Package modelscript holds the script of a model: a document in YAML or JSON, read and
// checked. Package modelserver plays it; callers that only check scripts do not need HTTP.
package modelscript

import (
	"math"
	"time"
)

// Script is the list of the model's answers. The zero value has no answers, and is an error.
type Script struct {
	// Conversations are tried in order; the first match is used.
	Conversations []Conversation `yaml:"conversations"`
	// Turns is the conversation for prompts that match none of them.
	Turns []Turn `yaml:"turns"`
}

// Conversation is the sequence of answers to one prompt.
type Conversation struct {
	// Match is a regular expression (RE2) for the last prompt. The empty one matches every
	// prompt.
	Match string `yaml:"match"`
	Turns []Turn `yaml:"turns"`
}

// Turn is one answer of the model. After an answer with tool calls, the next follows once the client has
// sent their results.
type Turn struct {
	Text string `yaml:"text"`
	// Tools are called together, after the text: clients may run them at the same time. A
	// call that depends on another needs its own turn.
	Tools []Tool `yaml:"tools"`
	Usage Usage  `yaml:"usage"` // token counts of the answer
	// Delay passes before the first byte of the answer, or of the failure.
	Delay Duration `yaml:"delay"`
	Fail  *Failure `yaml:"fail"`
}

// Usage is the number of tokens that an answer reports.
type Usage struct {
	Input  int `yaml:"input"`  // the whole prompt, including the cached part
	Cached int `yaml:"cached"` // of Input
	Output int `yaml:"output"`
}

// Tool is a tool call: exactly one of the fields. All but Raw are translated to the names and arguments
// of the client.
type Tool struct {
	WriteFile  *WriteFile  `yaml:"write_file"`
	RunCommand *RunCommand `yaml:"run_command"`
	ReadFile   *ReadFile   `yaml:"read_file"`
	MCP        *MCP        `yaml:"mcp"`
	Raw        *Raw        `yaml:"raw"`
}

// WriteFile creates or replaces a file. The path is relative to the client's working
// directory, or absolute.
type WriteFile struct {
	Path    string `yaml:"path"`
	Content string `yaml:"content"`
}

// RunCommand runs a shell command line.
type RunCommand struct {
	Command string `yaml:"command"`
}

// ReadFile shows a file to the model.
type ReadFile struct {
	Path string `yaml:"path"`
}

// MCP calls a tool of an MCP server, by the names that the client's configuration and the server use.
type MCP struct {
	Server    string         `yaml:"server"`
	Tool      string         `yaml:"tool"`
	Arguments map[string]any `yaml:"arguments"`
}

// Raw calls a tool exactly as written here, whether or not it is offered.
type Raw struct {
	Name      string         `yaml:"name"`
	Namespace string         `yaml:"namespace"` // of the Responses API
	Arguments map[string]any `yaml:"arguments"`
	// Input is for custom tools of the Responses API, which take a text instead of arguments.
	Input string `yaml:"input"`
}

// Failure is the failure of a turn: exactly one of Status, Hang and Cut.
type Failure struct {
	// Times is how often the turn fails before it is answered. Zero means always.
	Times int `yaml:"times"`

	// Status answers with an HTTP error (400 to 599) in the provider's form.
	Status int `yaml:"status"`
	// Hang sends nothing more until the client leaves or the time has passed. Then the connection is
	// closed without an answer.
	Hang Duration `yaml:"hang"`
	// Cut closes the connection.
	Cut bool `yaml:"cut"`

	// After is how many events of the stream are sent before Hang, Cut or Status, at most all but the
	// last. Zero sends nothing, not even a status. For an answer that is not a stream, anything above
	// zero sends the first half. After events, a Status is an event, too, in the provider's form for
	// late errors.
	After int `yaml:"after"`

	// The other fields belong to Status. Empty fields get the provider's defaults for that status.
	Type       string            `yaml:"type"` // of the error: overloaded_error, insufficient_quota, UNAVAILABLE
	Message    string            `yaml:"message"`
	Body       string            `yaml:"body"` // instead of the provider's form
	Headers    map[string]string `yaml:"headers"`
	RetryAfter Duration          `yaml:"retry_after"` // in whole seconds, rounded up; limits have it where the provider has
	Limit      *Limit            `yaml:"limit"`
}

// Limit makes a 429 name the exhausted limit, in the provider's headers and body.
type Limit struct {
	Kind LimitKind `yaml:"kind"`
	// Resets is the time until the limit resets.
	Resets Duration `yaml:"resets"`
}

// LimitKind distinguishes limits that clients treat differently.
type LimitKind string

// Kinds of limits.
const (
	// LimitRate is requests or tokens per minute: clients wait and retry.
	LimitRate LimitKind = "rate"
	// LimitSubscription is a plan's allowance per hours or days: clients give up.
	LimitSubscription LimitKind = "subscription"
)

// Duration is a time.Duration written as text: 1s, 200ms. Hang may be forever.
type Duration time.Duration

// Forever does not end by itself.
const Forever Duration = math.MaxInt64

// UnmarshalText reads the format of time.ParseDuration, and "forever".
func (d *Duration) UnmarshalText(b []byte) error {
	if string(b) == "forever" {
		*d = Forever
		return nil
	}
	v, err := time.ParseDuration(string(b))
	*d = Duration(v)
	return err
}
