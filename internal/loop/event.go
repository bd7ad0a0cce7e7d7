package loop

import (
	"cmp"
	"fmt"
	"time"

	"github.com/bothy-dev/bothy/internal/task"
	"github.com/bothy-dev/bothy/spec"
)

// Types of the events of a loop, with what their data are.
const (
	Began     = "began"     // a process carries it on from here
	Placing   = "placing"   // Made: these places are about to be made
	Ready     = "ready"     // Made: its sandbox is there
	Baseline  = "baseline"  // Verdict: what the gates said before the first iteration
	Iteration = "iteration" // Begun: the agent is started
	Worked    = "worked"    // Work: it has ended, with all that it started
	Cut       = "cut"       // Work: it was cut short; what it has used counts, and nothing else
	Kept      = "kept"      // Keep: what it left is a checkpoint
	Confirmed = "confirmed" // Keep: whoever goes on finds what was kept, and nothing else
	Judged    = "judged"    // Verdict
	Reviewing = "reviewing" // Asking: a reviewer begins
	Reviewed  = "reviewed"  // Review: what it said, which is part of the verdict

	ReviewDelayed = "review_delayed" // Unheard: no model answers it for now; it is asked again
	ReviewCut     = "review_cut"     // Unheard: it was cut short; what it has used counts

	Guarded = "guarded" // Guard: what is protected was put back

	Hinted   = "hinted"   // Advice
	Cleared  = "cleared"  // nothing: what was advised and not told yet is taken back
	Took     = "took"     // Taken: the task to work on from here
	Closed   = "closed"   // Finished
	PutBack  = "put_back" // Left: it is for others
	Lost     = "lost"     // Left: others have it
	Rewound  = "rewound"  // Back: it goes on from there
	Restored = "restored" // Put: the files are what they were there
	Ended    = "ended"    // End: nobody carries it on any more; what may follow is run.Raised

	Handed   = "handed"   // Hand: another of a worker's places holds what it has done
	Joined   = "joined"   // Join: what a worker did, together with what the loop's sandbox has
	Rejudged = "rejudged" // Verdict: what the gates said of that
	Settled  = "settled"  // Settle: the loop's sandbox has it
	Replaced = "replaced" // Place: one was removed, and this is there instead
)

// Made tells what a loop works in.
type Made struct {
	Sandbox string  `json:"sandbox"` // its name
	Places  []Place `json:"places,omitempty"`
}

// Place is another sandbox of a loop, for one that works beside, or in turns with, whose
// the loop's sandbox is. It has what that holds from time to time, and gives back what
// became of it.
type Place struct {
	Seat
	ID      string   `json:"id"`
	Sandbox string   `json:"sandbox"`        // its name
	Lent    []string `json:"lent,omitempty"` // names of secrets that an agent's was lent when it was made
}

// Who is who works there, for people; first is whose the loop's sandbox is.
func (s Seat) Who(first string) string {
	if s.Worker > 0 && s.Agent != "" {
		return fmt.Sprintf("worker %d, %s", s.Worker, s.Agent)
	}
	if s.Worker > 0 {
		return fmt.Sprintf("worker %d", s.Worker)
	}
	return cmp.Or(s.Agent, first)
}

// Seat says who works: an agent, if it has a place of its own, or one of several workers,
// who has one for itself, in which the first agent works, and one for each that takes turns
// with that.
type Seat struct {
	Agent  string `json:"agent,omitempty"`
	Worker int    `json:"worker,omitempty"` // from 1; 0 is the only one
}

// Hand is that a worker's place for an agent holds what another one held at a checkpoint.
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
	Session   string `json:"session,omitempty"` // that it goes on with
}

// Work is what became of the agent in an iteration.
type Work struct {
	By
	Iteration int `json:"iteration"`
	// Verdict is ok, failed or limit (spec.VerdictOK ...), by the agent's own events,
	// and for limits by what the gateway has seen, if it has seen any answer.
	Verdict string `json:"verdict"`
	Error   string `json:"error,omitempty"` // why it failed
	// Stayed is how the agent was ended that had said how it ended, and did not exit. By what
	// it had said it is judged.
	Stayed string `json:"stayed,omitempty"`
	// Overloaded is with the verdict limit: nobody's allowance is used up, but the provider
	// has too much to do, as the gateway has seen.
	Overloaded bool `json:"overloaded,omitempty"`
	// Until is when models may be asked again; zero if not known.
	Until   time.Time `json:"until,omitzero"`
	Message string    `json:"message,omitempty"` // the last one, or its end
	Done    bool      `json:"done"`              // it promised so
	Abort   bool      `json:"abort,omitempty"`
	Asks    bool      `json:"asks,omitempty"` // it ends with a question to a person
	Session string    `json:"session,omitempty"`
	Calls   int       `json:"tool_calls"`
	// Tokens and USD are what it used: what it says, or what the gateway counted, if
	// that is more.
	Tokens int64   `json:"tokens"`
	USD    float64 `json:"usd"`
	// Said is what it says; nil: nothing, or nothing of this work alone.
	Said *spec.Claimed `json:"said,omitempty"`
	// Seen is what the gateway counted; nil: it saw no model asked.
	Seen *spec.BillItem `json:"seen,omitempty"`
	// Unlisted says that a model without a price was asked in its sandbox, by now or before.
	Unlisted bool    `json:"unlisted,omitempty"`
	Seconds  float64 `json:"seconds"`
	// Unprinted is why what it printed is not, or not all, in the run's logs.
	Unprinted string `json:"unprinted,omitempty"`
	// Fell is how the sandbox ended under it, of work that was cut short by that.
	Fell string `json:"fell,omitempty"`
}

// Keep is a checkpoint of what an iteration left.
type Keep struct {
	By
	Iteration  int   `json:"iteration"`
	Checkpoint int64 `json:"checkpoint"`
	Changes    int   `json:"changes"` // files that are otherwise than at the one before
	// Whole are those that are otherwise than before the task, or without tasks before the
	// first iteration, where who says that it is done has made several.
	Whole *int `json:"whole,omitempty"`
	// Again says that somebody goes on, and that it is no iteration's.
	Again bool `json:"again,omitempty"`
}

// Gate is what one of the checks said.
type Gate struct {
	Name    string  `json:"name"`
	Green   bool    `json:"green"`
	Why     string  `json:"why,omitempty"`    // it is red
	Output  string  `json:"output,omitempty"` // the end of what it printed
	Seconds float64 `json:"seconds"`
	Review  bool    `json:"review,omitempty"` // a reviewer said it, of the task in hand

	Protects string `json:"protects,omitempty"` // the path that is to stay as it was
}

// Verdict is what all gates said of a checkpoint.
type Verdict struct {
	By
	Iteration  int               `json:"iteration"`
	Checkpoint int64             `json:"checkpoint"`
	Gates      []Gate            `json:"gates"`
	Protected  map[string]string `json:"protected,omitempty"` // of a baseline: what they hash to
}

// Guard is that what is protected was put back, where it was otherwise.
type Guard struct {
	By
	Paths      []string `json:"paths,omitempty"`      // the first of what was put back
	More       int      `json:"more,omitempty"`       // how many others were
	Left       []string `json:"left,omitempty"`       // what could not be, each with why
	Checkpoint int64    `json:"checkpoint,omitempty"` // of it; 0 if nothing was otherwise
}

// Advice is what a person has to say to the next iteration.
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

// Left is a task that is no longer worked on, although it is not done.
type Left struct {
	By
	Task      string `json:"task"`
	Why       string `json:"why"`
	Iteration int    `json:"iteration"`
	// Checkpoint is what files are put back to; 0 leaves them as they are.
	Checkpoint int64 `json:"checkpoint,omitempty"`
	// Again says that it is tried again, from what others have done meanwhile.
	Again bool `json:"again,omitempty"`
	// Outrun says that what others have done is why, and not what was done: so that is no try.
	Outrun bool `json:"outrun,omitempty"`
	// Objected tells that a reviewer does not agree to what was done, and that it is still
	// there.
	Objected bool `json:"objected,omitempty"`
}

// Join is what a worker did, brought together with what the loop's sandbox holds.
type Join struct {
	By
	Task       string `json:"task"`
	Iteration  int    `json:"iteration"`
	Checkpoint int64  `json:"checkpoint,omitempty"` // that has both; 0 if there are conflicts
	Ours       int64  `json:"ours,omitempty"`       // that has what the loop's sandbox held
	// Alone says that nothing else is in it: nobody was done meanwhile, and what the
	// gates have said holds.
	Alone     bool     `json:"alone,omitempty"`
	Conflicts []string `json:"conflicts,omitempty"` // paths that others have changed, too
	Texts     []string `json:"texts,omitempty"`     // likewise, of which each line is one side's
}

// Settle tells which checkpoint the loop's sandbox holds.
type Settle struct {
	By
	Checkpoint int64 `json:"checkpoint"`
}

// By says which of several workers did it; 0 if there is only one.
type By struct {
	Worker int `json:"worker,omitempty"`
}

// Put tells what became of putting files back.
type Put struct {
	Gone bool `json:"gone,omitempty"` // the checkpoint was removed: they are as they were
	// Beneath are files that are not put back, and that were changed since the checkpoint was
	// made: what the gates said then is of other ones.
	Beneath []string `json:"beneath,omitempty"`
}

// End says how a loop stands when nobody carries it on any more.
type End struct {
	Status Status `json:"status"`
	Reason string `json:"reason"`
	Detail string `json:"detail,omitempty"`
	Signal int    `json:"signal,omitempty"` // that interrupted it
	// Open counts, of a loop that ends for want of tasks, those that are open nevertheless.
	Open map[task.Reason]int `json:"open,omitempty"`
	// HeldUp are the first of them.
	HeldUp []Open `json:"held_up,omitempty"`
}
