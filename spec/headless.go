package spec

import (
	"time"
)

// UsualLinger is the Linger of agents whose description has none.
const UsualLinger = 15 * time.Second

// AgentHeadless describes how an agent does one job without a person at a terminal. The command is
// the program with Args, then the arguments of Model, Limits and MCP where they are used, then one
// of Session's, then Prompt's. Its standard input ends after the prompt, or at once.
type AgentHeadless struct {
	// Args give all permissions and ask for output that a program can read. They replace Agent.Args.
	Args   []string    `json:"args"`
	Prompt AgentPrompt `json:"prompt"`
	// Output names the format of standard output: "text", or any name for events, one JSON document a
	// line.
	Output string `json:"output"`
	// Events says what the lines of Output mean. Nil: they are not described.
	Events *AgentReading `json:"events,omitempty"`

	// End are the events that may be the last of a run. If none of them came, the agent crashed. A run
	// succeeded if it exits with status 0, its last such event is one of Success, and the agent said or
	// did something. Text has neither list, and is judged by the status.
	End     []AgentEvent `json:"end,omitempty"`
	Success []AgentEvent `json:"success,omitempty"`
	// Exhausted are texts that mean a used-up allowance when they occur in an End event that is not
	// in Success. A retry at once is then useless. Elsewhere they mean nothing, since any text can
	// contain them.
	Exhausted []string `json:"exhausted,omitempty"`
	// Linger is how long the agent may take to exit after it printed an End event and nothing else
	// since. After that, Bothy stops it and judges it by that event. Zero is [UsualLinger].
	Linger Duration `json:"linger,omitempty"`

	Session *AgentSession `json:"session,omitempty"`
	// Model chooses the model: {model}.
	Model  []string    `json:"model,omitempty"`
	Limits AgentLimits `json:"limits,omitzero"`
	MCP    *AgentMCP   `json:"mcp,omitempty"`
}

// AgentPrompt says how a prompt is passed: on standard input, or in an argument, of which Linux takes at
// most 128 KiB.
type AgentPrompt struct {
	Stdin bool `json:"stdin,omitempty"`
	// Args are the last arguments. Without Stdin one of them has {prompt}.
	Args []string `json:"args,omitempty"`
}

// AgentEvent matches an event that has all of these: a field, as a path (see AgentReading), and its
// value as text. a|b is either, * is any text.
type AgentEvent map[string]string

// AgentSession says how to resume a conversation.
type AgentSession struct {
	// New begins a conversation under a UUID of ours: {session}. Empty: the agent chooses the ID.
	New []string `json:"new,omitempty"`
	// Resume continues a conversation.
	Resume []string `json:"resume"`
	// Event is the event that holds the session's ID, Field its field.
	Event AgentEvent `json:"event"`
	Field string     `json:"field"`
}

// AgentLimits are limits that the agent enforces itself: {limit}. Time is not among them; the caller
// limits that.
type AgentLimits struct {
	Turns []string `json:"turns,omitempty"` // requests to the model
	USD   []string `json:"usd,omitempty"`   // by the agent's own count
}

// AgentMCP says how the agent learns of MCP servers: by arguments, or in a file.
type AgentMCP struct {
	// Args have {servers}, a JSON object with Key.
	Args []string `json:"args,omitempty"`
	// File is relative to the home. Its name tells whether it is JSON or TOML.
	File string `json:"file,omitempty"`
	// Key is the member that maps names to servers.
	Key string `json:"key"`
	// Entry is the form of an entry: "command" has command, args and env; "list" has type local, and the
	// arguments are also in command.
	Entry string `json:"entry"`
}
