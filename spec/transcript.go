package spec

import (
	"encoding/json"
	"time"
)

// AgentTranscript says where an agent keeps its sessions, and how to read them. They are either files of
// its home with a JSON document a line, to which it appends, or a database.
type AgentTranscript struct {
	// Files are patterns of paths relative to the home, one file for each session.
	Files    []string       `json:"files,omitempty"`
	Database *AgentDatabase `json:"database,omitempty"`
	AgentReading
}

// AgentDatabase is an SQLite file that has all sessions. Rules read its rows as if each were a line. A
// message comes after its parts and is {row: message, id, time, message}; a part is {row: part, id,
// time, message, part}. Here message and part are the content of their Data. A row that changes is read
// again, and each rule speaks of it once.
type AgentDatabase struct {
	File     string      `json:"file"` // relative to the home
	Sessions AgentTable  `json:"sessions"`
	Messages AgentTable  `json:"messages"`
	Parts    *AgentTable `json:"parts,omitempty"`
}

// AgentTable names a table and its columns. Rows count in the order of their insertion.
type AgentTable struct {
	Table string `json:"table"`
	ID    string `json:"id"`
	// In has the ID of a row's parent: the session of a message, the message of a part. A session with a
	// parent belongs to a helper, and is left out.
	In string `json:"in,omitempty"`
	// Time is the time of the row; of a session, the time of its last change. Sessions need it.
	Time string `json:"time,omitempty"`
	// Data has a JSON document. Messages and parts need it.
	Data string `json:"data,omitempty"`
}

// AgentReading says what lines of JSON mean. In a path, dots separate steps: names of members, positions
// in a list, * for each element of a list. A single dot is the value itself. Only a string, a number,
// true and false are text.
type AgentReading struct {
	// Session leads to the session's ID, Time to the time: in the form of RFC 3339, or in seconds or
	// milliseconds since 1970. Both apply to lines that have them. Rows of a database have a session
	// without them.
	Session AgentPaths `json:"session,omitempty"`
	Time    AgentPaths `json:"time,omitempty"`
	// Rules are tried in order, and each rule that matches yields an event. A line without a matching
	// rule is reported as unknown.
	Rules []AgentRule `json:"rules"`
}

// AgentRule converts an agent's own event into the common form. Which of its fields matter depends on
// the kind; see TranscriptEvent.
type AgentRule struct {
	// When says which lines match. Empty: all.
	When AgentEvent `json:"when,omitempty"`
	// Each leads to a list, or to a single value. Rules are applied to each element as to a line.
	// Such a rule has nothing else.
	Each  string      `json:"each,omitempty"`
	Rules []AgentRule `json:"rules,omitempty"`

	Kind    string     `json:"kind,omitempty"`
	Role    string     `json:"role,omitempty"`
	ID      AgentPaths `json:"id,omitempty"` // of a start: the session's ID
	Text    AgentPaths `json:"text,omitempty"`
	Model   AgentPaths `json:"model,omitempty"`
	Tool    AgentPaths `json:"tool,omitempty"`
	Input   AgentPaths `json:"input,omitempty"` // a string that holds an object counts as that object
	Until   AgentPaths `json:"until,omitempty"` // in the form of Time
	Verdict string     `json:"verdict,omitempty"`
	Usage   *AgentUse  `json:"usage,omitempty"`
	// Failed matches if a tool failed, Partial if a message is only a piece.
	Failed  AgentEvent `json:"failed,omitempty"`
	Partial AgentEvent `json:"partial,omitempty"`

	// Once leads to a value that an agent repeats when it repeats an event: the rule yields one event
	// for each value.
	Once AgentPaths `json:"once,omitempty"`
}

// AgentUse leads to numbers of a TranscriptUsage. A missing number is 0.
type AgentUse struct {
	Input      AgentPaths `json:"input,omitempty"`
	Cached     AgentPaths `json:"cached,omitempty"`
	CacheWrite AgentPaths `json:"cache_write,omitempty"`
	Output     AgentPaths `json:"output,omitempty"`
	Reasoning  AgentPaths `json:"reasoning,omitempty"`
	USD        AgentPaths `json:"usd,omitempty"`
	Total      bool       `json:"total,omitempty"`
	// Within says that the agent includes cache reads and writes in its input, Apart that it
	// excludes thinking from its output.
	Within bool `json:"within,omitempty"`
	Apart  bool `json:"apart,omitempty"`
}

// AgentPaths are paths. The first one that leads to something counts. A single path may be written as a
// string.
type AgentPaths []string

// UnmarshalJSON reads a string or a list of strings.
func (p *AgentPaths) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*p = AgentPaths{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(p))
}

// Kinds of a TranscriptEvent.
const (
	TalkStart      = "start"    // a session begins or continues: Model
	TalkMessage    = "message"  // Role said Text
	TalkThinking   = "thinking" // Text
	TalkToolCall   = "tool_call"
	TalkToolResult = "tool_result"
	TalkUsage      = "usage"
	TalkLimit      = "limit" // an allowance is used up: Text, Until
	TalkError      = "error" // Text; the agent may continue
	TalkEnd        = "end"   // Verdict, Text
	// TalkUnknown is a document that matches no rule, with Raw, or a line that is not JSON, with
	// Text.
	TalkUnknown = "unknown"
	// TalkIgnore is a kind for rules only: nothing further is read in the line.
	TalkIgnore = "ignore"
)

// Roles of a message.
const (
	RoleUser   = "user"
	RoleAgent  = "agent"
	RoleSystem = "system" // the agent's own program speaks to the model or to the user
)

// Verdicts of an end.
const (
	VerdictOK     = "ok"
	VerdictFailed = "failed"
	VerdictLimit  = "limit" // an allowance is used up: an immediate retry is useless
)

// TranscriptEvent is an agent's message or action, in one form for all agents. Everything in it was
// written inside a sandbox, so it must not be trusted.
type TranscriptEvent struct {
	Kind    string    `json:"kind"`
	Time    time.Time `json:"time,omitzero"`
	Session string    `json:"session,omitempty"` // the ID for resuming
	Role    string    `json:"role,omitempty"`
	// ID is the ID of a message, or of a tool's call and its result. A later usage replaces an earlier
	// one with the same ID.
	ID    string          `json:"id,omitempty"`
	Text  string          `json:"text,omitempty"`
	Model string          `json:"model,omitempty"`
	Tool  string          `json:"tool,omitempty"`
	Input json.RawMessage `json:"input,omitempty"`
	// Partial says that the next message of the same role continues this one.
	Partial bool             `json:"partial,omitempty"`
	Failed  bool             `json:"failed,omitempty"` // of a tool_result: the tool failed
	Until   time.Time        `json:"until,omitzero"`
	Verdict string           `json:"verdict,omitempty"`
	Usage   *TranscriptUsage `json:"usage,omitempty"`
	Cause   string           `json:"cause,omitempty"` // why it is unknown
	Raw     json.RawMessage  `json:"raw,omitempty"`
}

// TranscriptUsage is the usage by the agent's count. Input excludes cache reads and writes, and Output
// includes thinking, as far as the agent's description says how it counts.
type TranscriptUsage struct {
	Input      int64   `json:"input_tokens"`
	Cached     int64   `json:"cached_tokens"`
	CacheWrite int64   `json:"cache_write_tokens"`
	Output     int64   `json:"output_tokens"`
	Reasoning  int64   `json:"reasoning_tokens"`
	USD        float64 `json:"usd"`
	// Total says that this is the sum of everything before, not an additional usage.
	Total bool `json:"total,omitempty"`
}
