package spec

import "time"

// UsualLinger is the Linger of agents whose description has none.
const UsualLinger = 15 * time.Second

// AgentHeadless is how an agent does one job with nobody at a terminal. What is
// started is the program with Args, then what is wanted of Model, Limits and MCP,
// then one of Session's, then Prompt's. Its standard input ends after the prompt,
// or at once.
type AgentHeadless struct {
	// Args give all permissions and ask for output a program can read. They
	// stand in the place of Agent.Args.
	Args   []string    `json:"args"`
	Prompt AgentPrompt `json:"prompt"`
	// Output names the form of standard output, for whoever reads it: "text", or
	// any name for events, a JSON document a line.
	Output string `json:"output"`
	// Events tells what the lines of Output mean; nil if nobody described it.
	Events *AgentReading `json:"events,omitempty"`

	// End are the events that may be the last of a run: none of them, and the
	// agent crashed. A run is good if it ends with status 0, its last such event
	// is one of Success, and something was said or done. Text has neither, and
	// is judged by its status.
	End     []AgentEvent `json:"end,omitempty"`
	Success []AgentEvent `json:"success,omitempty"`
	// Exhausted are parts of what it says in an event that is an end and no
	// success, if an allowance is used up: to try again at once is of no use.
	// Elsewhere they mean nothing, for anybody can say them.
	Exhausted []string `json:"exhausted,omitempty"`
	// Linger is how long it may take to exit when it has printed such an event, and nothing
	// since: then it is ended, and judged by that event. Zero is [UsualLinger].
	Linger Duration `json:"linger,omitempty"`

	Session *AgentSession `json:"session,omitempty"`
	// Model chooses one: {model}.
	Model  []string    `json:"model,omitempty"`
	Limits AgentLimits `json:"limits,omitzero"`
	MCP    *AgentMCP   `json:"mcp,omitempty"`
}

// AgentPrompt is how a prompt goes in: on standard input, or in an argument, of
// which Linux takes at most 128 KiB.
type AgentPrompt struct {
	Stdin bool `json:"stdin,omitempty"`
	// Args come last. Without Stdin one of them has {prompt}.
	Args []string `json:"args,omitempty"`
}

// AgentEvent matches an event that has all of these: a field, as a path (see
// AgentReading), and its value as text. a|b is either, * is any text.
type AgentEvent map[string]string

// AgentSession is how a conversation is gone on with.
type AgentSession struct {
	// New begins one under a UUID of ours: {session}. Empty: it chooses itself.
	New []string `json:"new,omitempty"`
	// Resume goes on with one.
	Resume []string `json:"resume"`
	// Event is one that tells which it is, Field where in it.
	Event AgentEvent `json:"event"`
	Field string     `json:"field"`
}

// AgentLimits are bounds it keeps itself: {limit}. Time is not among them, that is
// for whoever starts it.
type AgentLimits struct {
	Turns []string `json:"turns,omitempty"` // requests to the model
	USD   []string `json:"usd,omitempty"`   // as it reckons itself
}

// AgentMCP is where it is told of MCP servers: by arguments, or in a file.
type AgentMCP struct {
	// Args have {servers}, a JSON object with Key.
	Args []string `json:"args,omitempty"`
	// File is relative to the home, JSON or TOML by its name.
	File string `json:"file,omitempty"`
	// Key is the one under which servers stand by their names.
	Key string `json:"key"`
	// Entry is how one is written: "command" has command, args and env; "list"
	// has type local, and in command the arguments too.
	Entry string `json:"entry"`
}
