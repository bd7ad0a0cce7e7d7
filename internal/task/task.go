// Package task is a graph of work: the tasks, their dependencies, and the holder of each task with the
// end of its claim. It has the rules and no files. Store is the interface to the storage of a graph, and
// package book implements it on disk.
//
// The fields, the kinds of dependencies and the rules of readiness are those of Beads. Beads'
// issues.jsonl is read and written (see ReadIssues and Graph.Write), and its unknown fields are kept as they
// are. Claims are leases: they say who works on a task and until when, and an expired one does not
// count.
//
// Agents may have written titles and texts. The caller that prints them makes them safe first.
package task

import (
	"encoding/json"
	"slices"
	"time"
)

// Task is one piece of work. A task that belongs to a graph is only changed by the methods of Graph.
type Task struct {
	ID                 string     `json:"id"`
	Title              string     `json:"title"`
	Description        string     `json:"description,omitempty"`
	Design             string     `json:"design,omitempty"`
	AcceptanceCriteria string     `json:"acceptance_criteria,omitempty"`
	Notes              string     `json:"notes,omitempty"`
	SpecID             string     `json:"spec_id,omitempty"`
	Status             Status     `json:"status,omitempty"`
	Priority           int        `json:"priority"` // 0, the most urgent, to 4
	Type               string     `json:"issue_type,omitempty"`
	Assignee           string     `json:"assignee,omitempty"`
	Owner              string     `json:"owner,omitempty"`
	EstimatedMinutes   *int       `json:"estimated_minutes,omitempty"`
	CreatedAt          time.Time  `json:"created_at"`
	CreatedBy          string     `json:"created_by,omitempty"`
	UpdatedAt          time.Time  `json:"updated_at"`
	StartedAt          *time.Time `json:"started_at,omitempty"`
	ClosedAt           *time.Time `json:"closed_at,omitempty"`
	CloseReason        string     `json:"close_reason,omitempty"`
	ClosedBySession    string     `json:"closed_by_session,omitempty"`

	// The assignee of a task at work has a claim until LeaseExpiresAt; nil: a claim without an end.
	LeaseExpiresAt *time.Time `json:"lease_expires_at,omitempty"`
	HeartbeatAt    *time.Time `json:"heartbeat_at,omitempty"` // when the claim was made or renewed

	DueAt        *time.Time        `json:"due_at,omitempty"`
	DeferUntil   *time.Time        `json:"defer_until,omitempty"` // not ready before
	ExternalRef  *string           `json:"external_ref,omitempty"`
	SourceSystem string            `json:"source_system,omitempty"`
	Metadata     json.RawMessage   `json:"metadata,omitempty"`
	Labels       []string          `json:"labels,omitempty"`
	Dependencies []Dependency      `json:"dependencies,omitempty"`
	Comments     []json.RawMessage `json:"comments,omitempty"`
	Ephemeral    bool              `json:"ephemeral,omitempty"`
	Pinned       bool              `json:"pinned,omitempty"`
	IsTemplate   bool              `json:"is_template,omitempty"`

	// raw is the document that the task was read from, with its unknown fields. In a changed task it is
	// nil, or older than the fields.
	raw     json.RawMessage
	changed bool
	listed  bool // it was read from an entry of a list, see fromEntry
}

// Status is the state of a task. Users may have other ones than those listed here: such a task is
// neither ready nor done.
type Status string

// Statuses.
const (
	Open       Status = "open"
	InProgress Status = "in_progress"
	Blocked    Status = "blocked"
	Deferred   Status = "deferred"
	Closed     Status = "closed"
	Pinned     Status = "pinned" // stays open for ever, and blocks no task
	Hooked     Status = "hooked"
	Tombstone  Status = "tombstone" // deleted, in files of older versions of Beads
)

// Statuses returns the statuses that a task can be given.
func Statuses() []string {
	return []string{string(Open), string(InProgress), string(Blocked), string(Deferred), string(Closed), string(Pinned), string(Hooked)}
}

// Types returns the kinds of tasks that people are offered. Others are kept.
func Types() []string {
	return []string{"bug", "feature", "task", "epic", "chore", "decision", "message", "molecule", "gate", "spike", "story", "milestone"}
}

// Kind is the meaning of a dependency.
type Kind string

// Kinds of dependencies. All others only inform, and are kept unchanged.
const (
	Blocks            Kind = "blocks"             // waits until the other is closed
	ParentChild       Kind = "parent-child"       // is a part of the other, and waits as long as that is blocked
	ConditionalBlocks Kind = "conditional-blocks" // begins only if the other is closed as failed
	WaitsFor          Kind = "waits-for"          // waits for the children of the other: all, or the first
	Related           Kind = "related"
	DiscoveredFrom    Kind = "discovered-from" // was found while the other was worked on
)

// Kinds returns the kinds of dependencies that people are offered.
func Kinds() []string {
	return []string{
		string(Blocks), string(ParentChild), string(ConditionalBlocks), string(WaitsFor), string(Related), string(DiscoveredFrom),
		"tracks", "caused-by", "validates", "supersedes", "duplicates", "replies-to", "relates-to", "until", "delegated-from", "approved-by",
	}
}

// Blocking reports whether a dependency of this kind can keep a task from being ready. Cycles over
// such dependencies are refused.
func (k Kind) Blocking() bool {
	return k == Blocks || k == ParentChild || k == ConditionalBlocks || k == WaitsFor
}

// Dependency says that one task depends on another. It is immutable: it is only added and removed.
type Dependency struct {
	TaskID      string          `json:"issue_id"`
	DependsOnID string          `json:"depends_on_id"`
	Kind        Kind            `json:"type"`
	CreatedAt   time.Time       `json:"created_at"`
	CreatedBy   string          `json:"created_by,omitempty"`
	Metadata    json.RawMessage `json:"metadata,omitempty"` // for WaitsFor: {"gate":"any-children"}, also as a string
	ThreadID    string          `json:"thread_id,omitempty"`

	raw json.RawMessage // as read
}

// gateAny is the gate of WaitsFor that the first child opens.
const gateAny = "any-children"

// anyChild reports whether a dependency of kind WaitsFor ends with the first child.
func (d *Dependency) anyChild() bool {
	data := d.Metadata
	var text string
	if json.Unmarshal(data, &text) == nil {
		data = json.RawMessage(text)
	}
	var meta struct {
		Gate string `json:"gate"`
	}
	return json.Unmarshal(data, &meta) == nil && meta.Gate == gateAny
}

// isOver reports whether the task blocks no other any more.
func (t *Task) isOver() bool {
	return t.isDone() || t.Status == Pinned
}

// isDone reports whether the task is closed or deleted.
func (t *Task) isDone() bool { return t.Status == Closed || t.Status == Tombstone }

// failures are words of a reason that make a closed task a failed one.
var failures = []string{"failed", "rejected", "wontfix", "won't fix", "cancelled", "canceled", "abandoned", "blocked", "error", "timeout", "aborted"}

// Failed reports whether the task is closed for a reason that means failure.
func (t *Task) Failed() bool {
	return t.Status == Closed && slices.ContainsFunc(failures, func(word string) bool { return containsFold(t.CloseReason, word) })
}

// Claimed reports whether a holder works on the task now, and returns its name and the end of the
// claim. The time is zero if the claim has no end.
func (t *Task) Claimed(now time.Time) (who string, until time.Time, ok bool) {
	if !t.hasHolder() {
		return "", until, false
	}
	if t.LeaseExpiresAt != nil {
		until = *t.LeaseExpiresAt
	}
	return t.Assignee, until, !t.expired(now)
}

// hasHolder reports whether the task has a holder, even if the claim has expired.
func (t *Task) hasHolder() bool { return t.Status == InProgress || t.Status == Hooked }

// expired reports whether a claim has expired: then the task counts as open. A claim that was made further
// in the future than its lease is long has expired, too: the clock was set back, and the claim would last
// longer by that time.
func (t *Task) expired(now time.Time) bool {
	if t.Status != InProgress || t.LeaseExpiresAt == nil {
		return false
	}
	ahead := t.HeartbeatAt != nil && t.HeartbeatAt.Sub(now) > max(t.LeaseExpiresAt.Sub(*t.HeartbeatAt), 0)
	return ahead || !t.LeaseExpiresAt.After(now)
}

// Parents returns the tasks that this one is a part of, usually one.
func (t *Task) Parents() (ids []string) {
	for i := range t.Dependencies {
		if t.Dependencies[i].Kind == ParentChild {
			ids = append(ids, t.Dependencies[i].DependsOnID)
		}
	}
	return ids
}
