package loop

import (
	"cmp"
	"fmt"
	"time"

	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/task"
	"github.com/bothy-dev/bothy/spec"
)

// Types of the events of a loop, with their data. Those of run are: Began without data, Ready with
// Made, and Ended with End.
const (
	Placing   = "placing"   // Made: these places are about to be made
	Baseline  = "baseline"  // Verdict: of the gates before the first iteration
	Iteration = "iteration" // Begun: the agent is started
	Worked    = "worked"    // Work: it has ended, with all that it started
	Cut       = "cut"       // Work: it was cut short; its use counts, and nothing else
	Kept      = "kept"      // Keep: its files are a checkpoint
	Confirmed = "confirmed" // Keep: the next carrier found the files of the checkpoint, and no others
	Judged    = "judged"    // Verdict
	Reviewing = "reviewing" // Asking: a reviewer begins
	Reviewed  = "reviewed"  // Review: its judgement, which is part of the verdict

	ReviewDelayed = "review_delayed" // Unheard: no model answers it for now; it is asked again
	ReviewCut     = "review_cut"     // Unheard: it was cut short; its use counts

	Guarded = "guarded" // Guard: protected files were put back

	Hinted   = "hinted"   // Advice
	Cleared  = "cleared"  // no data: untold hints are taken back
	Took     = "took"     // Taken: the task to work on from here
	Closed   = "closed"   // Finished
	PutBack  = "put_back" // Left: it is for others
	Lost     = "lost"     // Left: others have it
	Rewound  = "rewound"  // Back: it goes on from there
	Restored = "restored" // Put: the files are those of that checkpoint

	Handed   = "handed"   // Hand: another of a worker's places has its result
	Joined   = "joined"   // Join: a worker's result, merged with the files of the loop's sandbox
	Rejudged = "rejudged" // Verdict: of the gates on the merge
	Settled  = "settled"  // Settle: the loop's sandbox has the merge
	Replaced = "replaced" // Place: one was removed, and this is there instead
)

// Made names the sandboxes that a loop works in.
type Made struct {
	Sandbox string  `json:"sandbox"` // its name
	Places  []Place `json:"places,omitempty"`
}

// Place is another sandbox of a loop. Its agent works beside, or takes turns with, the agent of
// the loop's sandbox. It gets the files of the loop's sandbox from time to time, and returns its
// results.
type Place struct {
	Seat
	ID      string   `json:"id"`
	Sandbox string   `json:"sandbox"`        // its name
	Lent    []string `json:"lent,omitempty"` // names of secrets that an agent's was lent when it was made
}

// Who names the agent or worker of a seat, for people. first is the agent of the loop's sandbox.
func (s Seat) Who(first string) string {
	if s.Worker > 0 && s.Agent != "" {
		return fmt.Sprintf("worker %d, %s", s.Worker, s.Agent)
	}
	if s.Worker > 0 {
		return fmt.Sprintf("worker %d", s.Worker)
	}
	return cmp.Or(s.Agent, first)
}

// Seat identifies the owner of a place: an agent, or one of several workers. A worker has a place
// of its own, in which the first agent works, and one for each agent that takes turns with that.
type Seat struct {
	Agent  string `json:"agent,omitempty"`
	Worker int    `json:"worker,omitempty"` // from 1; 0 is the only one
}

// Hand says that a worker's place for an agent now has the files of another one at a checkpoint.
type Hand struct {
	Seat
	Checkpoint int64 `json:"checkpoint"`
}

// Begun is the beginning of an iteration.
type Begun struct {
	By
	Iteration int    `json:"iteration"`       // from 1
	Hints     int    `json:"hints,omitempty"` // how many the agent is told
	Agent     string `json:"agent,omitempty"` // if several take turns
	Model     string `json:"model,omitempty"`
	Session   string `json:"session,omitempty"` // the session that it continues
}

// Work is the agent's result in an iteration.
type Work struct {
	By
	Iteration int `json:"iteration"`
	// Verdict is ok, failed or limit (spec.VerdictOK ...), by the agent's own events. For limits
	// it is by the gateway's view, if the gateway has seen any answer.
	Verdict string `json:"verdict"`
	Error   string `json:"error,omitempty"` // why it failed
	// Stayed is how the agent was stopped that had reported its end, but did not exit. Its report
	// is used for the verdict.
	Stayed string `json:"stayed,omitempty"`
	// Overloaded goes with the verdict limit: the provider is overloaded, as the gateway has seen,
	// and no allowance is used up.
	Overloaded bool `json:"overloaded,omitempty"`
	// Until is when models may be asked again; zero if not known.
	Until   time.Time `json:"until,omitzero"`
	Message string    `json:"message,omitempty"` // the last one, or its end
	Done    bool      `json:"done"`              // it promised so
	Abort   bool      `json:"abort,omitempty"`
	Asks    bool      `json:"asks,omitempty"` // it ends with a question to a person
	Session string    `json:"session,omitempty"`
	Calls   int       `json:"tool_calls"`
	// Tokens and USD are its use: its own figure, or the gateway's count if that is more.
	Tokens int64   `json:"tokens"`
	USD    float64 `json:"usd"`
	// Said is its own figure; nil: none, or none for this work alone.
	Said *spec.Claimed `json:"said,omitempty"`
	// Seen is the gateway's count; nil: it saw no model asked.
	Seen *spec.BillItem `json:"seen,omitempty"`
	// Unlisted says that a model without a price was asked in its sandbox, by now or before.
	Unlisted bool    `json:"unlisted,omitempty"`
	Seconds  float64 `json:"seconds"`
	// Unprinted is why its output is not, or not all, in the run's logs.
	Unprinted string `json:"unprinted,omitempty"`
	// Crashed is how the sandbox ended under it, of work that was cut short by that.
	Crashed string `json:"fell,omitempty"`
}

// Keep is a checkpoint of an iteration's files.
type Keep struct {
	By
	Iteration  int   `json:"iteration"`
	Checkpoint int64 `json:"checkpoint"`
	Changes    int   `json:"changes"` // files that differ from the checkpoint before
	// Whole counts the files that differ from before the task (without tasks, before the first
	// iteration). It is set if the agent says that it is done and has made several checkpoints.
	Whole *int `json:"whole,omitempty"`
	// Again says that a new carrier made it, and not an iteration.
	Again bool `json:"again,omitempty"`
}

// Gate is the result of one check.
type Gate struct {
	Name    string  `json:"name"`
	Green   bool    `json:"green"`
	Why     string  `json:"why,omitempty"`    // it is red
	Output  string  `json:"output,omitempty"` // the end of its output
	Seconds float64 `json:"seconds"`
	Review  bool    `json:"review,omitempty"` // a reviewer said it, of the task in hand

	Protects string `json:"protects,omitempty"` // the path that is to stay as it was
}

// Verdict is the result of all gates on a checkpoint.
type Verdict struct {
	By
	Iteration  int               `json:"iteration"`
	Checkpoint int64             `json:"checkpoint"`
	Gates      []Gate            `json:"gates"`
	Protected  map[string]string `json:"protected,omitempty"` // of a baseline: their hashes
}

// Guard says that changed files among the protected ones were put back.
type Guard struct {
	By
	Paths      []string `json:"paths,omitempty"`      // the first ones that were put back
	More       int      `json:"more,omitempty"`       // how many others were
	Left       []string `json:"left,omitempty"`       // those that could not be, each with the reason
	Checkpoint int64    `json:"checkpoint,omitempty"` // its checkpoint; 0 if all were unchanged
}

// Advice is a person's hint for the next iteration.
type Advice struct {
	Message string `json:"message_id"`
	Text    string `json:"text"`
}

// Finished is a task that was done.
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
	// Checkpoint is the one that files are put back to; 0 leaves them as they are.
	Checkpoint int64 `json:"checkpoint,omitempty"`
	// Again says that it is tried again, starting from the others' results.
	Again bool `json:"again,omitempty"`
	// Outrun says that the others' results are the reason, and not the work itself: it does not
	// count as a try.
	Outrun bool `json:"outrun,omitempty"`
	// Objected says that a reviewer objects to the work, and that the work is still there.
	Objected bool `json:"objected,omitempty"`
}

// Join is a worker's result, merged with the files of the loop's sandbox.
type Join struct {
	By
	Task       string `json:"task"`
	Iteration  int    `json:"iteration"`
	Checkpoint int64  `json:"checkpoint,omitempty"` // of the merge; 0 if there are conflicts
	Ours       int64  `json:"ours,omitempty"`       // of the loop's sandbox before the merge
	// Alone says that the merge has no other changes: no other worker finished meanwhile, so the
	// gates' verdict holds.
	Alone     bool     `json:"alone,omitempty"`
	Conflicts []string `json:"conflicts,omitempty"` // paths that others have changed, too
	Texts     []string `json:"texts,omitempty"`     // likewise; each line of them comes from one side
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

// Put is the result of putting files back.
type Put struct {
	Gone bool `json:"gone,omitempty"` // the checkpoint was removed: they are as they were
	// Beneath are files that are not put back, and that were changed since the checkpoint: the
	// gates' verdict of then is about other files.
	Beneath []string `json:"beneath,omitempty"`
}

// End is the state of a loop when no process carries it on any more.
type End struct {
	Status run.Status `json:"status"`
	Reason string     `json:"reason"`
	Detail string     `json:"detail,omitempty"`
	Signal int        `json:"signal,omitempty"` // that interrupted it
	// Open counts, of a loop that ends for want of tasks, those that are open nevertheless.
	Open map[task.Reason]int `json:"open,omitempty"`
	// HeldUp are the first of them.
	HeldUp []Open `json:"held_up,omitempty"`
}
