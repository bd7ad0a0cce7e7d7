package loop

import (
	"time"

	"github.com/bothy-dev/bothy/internal/loop/taskqueue"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/task"
	"github.com/bothy-dev/bothy/spec"
)

// Types of the events of a loop, with their data. Of the types in package run, Began has no data, Ready
// has Made, and Ended has End.
const (
	Placing   = "placing"   // Made: these places are about to be made
	Baseline  = "baseline"  // Verdict: of the gates before the first iteration
	Iteration = "iteration" // Begun: the agent starts
	Worked    = "worked"    // Work: the agent has ended, with all its processes
	Cut       = "cut"       // Work: the agent was interrupted; only its usage counts
	Kept      = "kept"      // Keep: the agent's files are a checkpoint
	Confirmed = "confirmed" // Keep: the next carrier found exactly the files of the checkpoint
	Judged    = "judged"    // Verdict
	Reviewing = "reviewing" // Asking: a reviewer starts
	Reviewed  = "reviewed"  // Review: the reviewer's judgement, which is part of the verdict

	ReviewDelayed = "review_delayed" // Unheard: no model answers the reviewer for now; it is asked again
	ReviewCut     = "review_cut"     // Unheard: the reviewer was interrupted; its usage counts

	Guarded = "guarded" // Guard: protected files were restored

	Hinted   = "hinted"   // Advice
	Cleared  = "cleared"  // no data: undelivered hints are withdrawn
	Took     = "took"     // Taken: the current task from here
	Closed   = "closed"   // Finished
	PutBack  = "put_back" // Left: the task is for others
	Lost     = "lost"     // Left: others have the task
	Rewound  = "rewound"  // Back: the loop continues from there
	Restored = "restored" // Put: the files are those of that checkpoint

	Handed   = "handed"   // Hand: another of a worker's places has its result
	Joined   = "joined"   // Join: a worker's result, merged with the files of the loop's sandbox
	Rejudged = "rejudged" // Verdict: of the gates on the merge
	Settled  = "settled"  // Settle: the loop's sandbox has the merge
	Replaced = "replaced" // Place: it replaces one that was removed
)

// Made names the sandboxes that a loop works in.
type Made struct {
	Sandbox string  `json:"sandbox"` // its name
	Places  []Place `json:"places,omitempty"`
}

// Place is another sandbox of a loop. Its agent works beside the agent of the loop's sandbox, or takes
// turns with it. The place gets the files of the loop's sandbox from time to time, and returns its
// results.
type Place struct {
	Seat
	ID      string   `json:"id"`
	Sandbox string   `json:"sandbox"`        // its name
	Lent    []string `json:"lent,omitempty"` // names of the secrets that the agent's sandbox was lent when it was made
}

// Hand says that a worker's place for an agent now has the files of another place at a checkpoint.
type Hand struct {
	Seat
	Checkpoint int64 `json:"checkpoint"`
}

// Begun is the beginning of an iteration.
type Begun struct {
	By
	Iteration int    `json:"iteration"`       // from 1
	Hints     int    `json:"hints,omitempty"` // number of hints delivered to the agent
	Agent     string `json:"agent,omitempty"` // set if several take turns
	Model     string `json:"model,omitempty"`
	Session   string `json:"session,omitempty"` // the session that it continues
}

// Work is the agent's result in an iteration.
type Work struct {
	By
	Iteration int `json:"iteration"`
	// Verdict is ok, failed or limit (spec.VerdictOK ...), by the agent's own events. For limits the
	// gateway's view counts, if the gateway has seen any answer.
	Verdict string `json:"verdict"`
	Error   string `json:"error,omitempty"` // why it failed
	// Stayed says how the agent was stopped after it had reported its end and did not exit. Its report
	// counts for the verdict.
	Stayed string `json:"stayed,omitempty"`
	// Overloaded goes with the verdict limit: the gateway has seen that the provider is overloaded, and
	// no allowance is used up.
	Overloaded bool `json:"overloaded,omitempty"`
	// Until is when models may be asked again; zero if not known.
	Until   time.Time `json:"until,omitzero"`
	Message string    `json:"message,omitempty"` // the last one, or its end
	Done    bool      `json:"done"`              // the agent promises that it is done
	Abort   bool      `json:"abort,omitempty"`
	Asks    bool      `json:"asks,omitempty"` // it ends with a question to a person
	Session string    `json:"session,omitempty"`
	Calls   int       `json:"tool_calls"`
	// Tokens and USD are the usage: the agent's own figure, or the gateway's count if that is more.
	Tokens int64   `json:"tokens"`
	USD    float64 `json:"usd"`
	// Said is the agent's own figure; nil: none, or none for this work alone.
	Said *spec.Claimed `json:"said,omitempty"`
	// Seen is the gateway's count; nil: it saw no requests to models.
	Seen *spec.BillItem `json:"seen,omitempty"`
	// Unlisted says that the sandbox has asked a model without a price, now or earlier.
	Unlisted bool    `json:"unlisted,omitempty"`
	Seconds  float64 `json:"seconds"`
	// Unprinted says why the run's logs lack some of the output.
	Unprinted string `json:"unprinted,omitempty"`
	// Crashed says how the sandbox ended under the agent, if that cut the work short.
	Crashed string `json:"fell,omitempty"`
}

// Keep is a checkpoint of an iteration's files.
type Keep struct {
	By
	Iteration  int   `json:"iteration"`
	Checkpoint int64 `json:"checkpoint"`
	Changes    int   `json:"changes"` // files that differ from the previous checkpoint
	// Whole counts the files that differ from before the task (without tasks, from before the first
	// iteration). It is set if the agent says that it is done and has made several checkpoints.
	Whole *int `json:"whole,omitempty"`
	// Again says that a new carrier made the checkpoint, and not an iteration.
	Again bool `json:"again,omitempty"`
}

// Gate is the result of one check.
type Gate struct {
	Name    string  `json:"name"`
	Green   bool    `json:"green"`
	Why     string  `json:"why,omitempty"`    // why it is red
	Output  string  `json:"output,omitempty"` // the end of its output
	Seconds float64 `json:"seconds"`
	Review  bool    `json:"review,omitempty"` // it is a reviewer's judgement of the current task

	Protects string `json:"protects,omitempty"` // the path that must not change
}

// Verdict is the result of all gates on a checkpoint.
type Verdict struct {
	By
	Iteration  int               `json:"iteration"`
	Checkpoint int64             `json:"checkpoint"`
	Gates      []Gate            `json:"gates"`
	Protected  map[string]string `json:"protected,omitempty"` // of a baseline: the hashes
}

// Guard says that changed protected files were restored.
type Guard struct {
	By
	Paths      []string `json:"paths,omitempty"`      // the first restored paths
	More       int      `json:"more,omitempty"`       // number of further ones
	Left       []string `json:"left,omitempty"`       // those that could not be restored, each with the reason
	Checkpoint int64    `json:"checkpoint,omitempty"` // the checkpoint afterwards; 0 if nothing had changed
}

// Advice is a person's hint for the next iteration.
type Advice struct {
	Message string `json:"message_id"`
	Text    string `json:"text"`
}

// Finished is a completed task.
type Finished struct {
	By
	Task      string `json:"task"`
	Iteration int    `json:"iteration"`
}

// Left is an unfinished task that the loop no longer works on.
type Left struct {
	By
	Task      string `json:"task"`
	Why       string `json:"why"`
	Iteration int    `json:"iteration"`
	// Checkpoint is the checkpoint to restore the files from; 0: leave them unchanged.
	Checkpoint int64 `json:"checkpoint,omitempty"`
	// Again says that the task is tried again, starting from the others' results.
	Again bool `json:"again,omitempty"`
	// Outrun says that the others' results are the reason, and not the work itself: it does not count as
	// a try.
	Outrun bool `json:"outrun,omitempty"`
	// Objected says that a reviewer objects to the work, and that the work is still in the files.
	Objected bool `json:"objected,omitempty"`
}

// Join is a worker's result, merged with the files of the loop's sandbox.
type Join struct {
	By
	Task       string `json:"task"`
	Iteration  int    `json:"iteration"`
	Checkpoint int64  `json:"checkpoint,omitempty"` // of the merge; 0 if there are conflicts
	Ours       int64  `json:"ours,omitempty"`       // checkpoint of the loop's sandbox before the merge
	// Alone says that the merge has no other changes: no other worker finished meanwhile, so the gates'
	// verdict still counts.
	Alone     bool     `json:"alone,omitempty"`
	Conflicts []string `json:"conflicts,omitempty"` // paths that others have changed, too
	Texts     []string `json:"texts,omitempty"`     // likewise; in these, each line comes from one side
}

// Settle says which checkpoint the loop's sandbox has.
type Settle struct {
	By
	Checkpoint int64 `json:"checkpoint"`
}

// By identifies the worker; 0 if only one works.
type By struct {
	Worker int `json:"worker,omitempty"`
}

// Put is the result of restoring files.
type Put struct {
	Gone bool `json:"gone,omitempty"` // the checkpoint was removed, so the files are unchanged
	// Beneath are files that are not restored, and were changed since the checkpoint: the gates' earlier
	// verdict does not cover them.
	Beneath []string `json:"beneath,omitempty"`
}

// End is the state of a loop that no process carries on any more.
type End struct {
	Status run.Status `json:"status"`
	Reason string     `json:"reason"`
	Detail string     `json:"detail,omitempty"`
	Signal int        `json:"signal,omitempty"` // the signal that interrupted it
	// Open counts the tasks that are still open, if the loop ends because it can take no task.
	Open map[task.Reason]int `json:"open,omitempty"`
	// HeldUp are the first of these tasks.
	HeldUp []taskqueue.Open `json:"held_up,omitempty"`
}
