package spec

import (
	"time"
)

// Mock says that a script plays the providers of models, as long as the sandbox exists.
type Mock struct {
	// Script is the path that the script was read from. The sandbox uses its own copy.
	Script string `json:"script"`
	// Hosts are the names whose servers are played.
	Hosts []string `json:"hosts"`
	// Keys are the made-up credentials, by their service. No server knows them.
	Keys map[string]string `json:"keys"`
}

// ModelAsked is the kind of the records of a mock's requests.
const ModelAsked = "request"

// ModelRequest is one line of the log of a sandbox's mock: a request and its outcome. It has
// neither headers nor bodies. The inside chose the text of names, prompts and errors.
type ModelRequest struct {
	Time  time.Time `json:"time,omitzero"`
	Event string    `json:"event,omitempty"`

	N      int    `json:"n"` // from 1, since the start of the sandbox
	Method string `json:"method"`
	Host   string `json:"host"`
	Path   string `json:"path"`  // without the query
	Bytes  int    `json:"bytes"` // of the body

	API     string `json:"api"`               // anthropic, openai or gemini
	Model   string `json:"model,omitempty"`   // the requested model
	Session string `json:"session,omitempty"` // as the agent names it
	Stream  bool   `json:"stream,omitempty"`
	Prompt  string `json:"prompt,omitempty"` // the last one

	// Conversation and Turn are indices into the script. The default conversation comes after all
	// others. They are nil if the request is for nothing in the script.
	Conversation *int `json:"conversation,omitempty"`
	Turn         *int `json:"turn,omitempty"`
	// Attempt is how often this request asked for this turn.
	Attempt int `json:"attempt,omitempty"`
	// Outcome is answered (by the script), failed (because the script says so), aside (not a
	// question of the conversation) or refused (Error says why).
	Outcome string `json:"outcome"`
	Status  int    `json:"status,omitempty"` // 0 if no byte was sent
	Error   string `json:"error,omitempty"`
}
