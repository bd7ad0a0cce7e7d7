package loop

import (
	"math"
	"slices"
	"time"

	"github.com/bothy-dev/bothy/internal/loop/taskqueue"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/task"
	"github.com/bothy-dev/bothy/spec"
)

// Final reports whether a loop cannot be resumed.
func (s *State) Final() bool {
	return s.Status == run.Completed || s.Status == run.Limited || s.Status == run.Aborted || s.Status == run.Cancelled
}

// State is the state of a loop.
type State struct {
	run.Result
	// OpenTasks counts open tasks that cannot be taken, by the reason.
	OpenTasks map[task.Reason]int `json:"open_tasks,omitempty"`
	HeldUp    []taskqueue.Open    `json:"held_up,omitempty"` // the first of them

	Ready    bool     `json:"-"`
	Sandbox  string   `json:"sandbox,omitempty"`
	Places   []Place  `json:"places,omitempty"`
	Baseline *Verdict `json:"baseline,omitempty"`

	Iteration int      `json:"iteration"` // the current, or last
	Agent     string   `json:"agent,omitempty"`
	Model     string   `json:"model,omitempty"`
	Repeats   int      `json:"repeats"` // repeated iterations: after an interruption, or because an allowance was used up
	Work      *Work    `json:"work,omitempty"`
	Keep      *Keep    `json:"kept,omitempty"`
	Verdict   *Verdict `json:"verdict,omitempty"` // the last verdict on an iteration
	// Beneath are files that are not restored, and were changed since the restored checkpoint was
	// judged. No verdict covers both until the next one.
	Beneath   []string `json:"changed_beneath,omitempty"`
	Reviewing string   `json:"reviewing,omitempty"` // the gate whose reviewer is working

	Task   *Taken     `json:"task,omitempty"` // the current task
	Closed []Finished `json:"closed_tasks,omitempty"`
	Left   []Left     `json:"put_back,omitempty"` // tasks that it could not do, or that others took

	Until time.Time `json:"until,omitzero"` // end of the wait for models that cannot be asked
	Hints []string  `json:"hints"`          // for the next iteration

	run.Usage

	Unchanged int `json:"unchanged"`
	SameRed   int `json:"same_red"`
	SameError int `json:"same_error"`
	SameLimit int `json:"same_limit"`
	Asked     int `json:"asked"` // iterations in a row that ended with a question
	Crashes   int `json:"falls"` // how often in a row the sandbox crashed under the agent

	Question string `json:"question,omitempty"` // the last question, if the last iteration ended with one

	// Workers are the states of several workers. They do not include the common state.
	Workers []*State `json:"-"`
	Retries int      `json:"retries,omitempty"` // tasks that were tried again because of the others' results
	Join    *Join    `json:"-"`                 // of a worker: its result, merged with the others'

	step      string // the last step of the current iteration that has a result
	shown     int    // number of hints delivered to the current iteration
	crashedBy string // how the sandbox last ended under the agent
	red, fail string // the last red gates, and the agent's last failure
	told      map[string]bool
	checked   int64 // the newest checkpoint
	limitedAt time.Time
	denial    run.Delay         // the last delay
	back      *Back             // the state to restore
	held      bool              // the task is claimed, as far as this process knows
	tries     int               // iterations at the current task
	from      int64             // the checkpoint before that task
	before    *Verdict          // the gates' verdict on that checkpoint
	changed   bool              // a file was changed since then; without tasks, since before the first iteration
	claims    bool              // the last agent that worked says that it is done
	unjudged  bool              // files may have changed since the gates' verdict
	stale     bool              // files may have changed since the checkpoint: a new carrier has begun
	own       *Verdict          // the gates' verdict on a worker's result, by itself
	given     []string          // hints of a worker until it has worked; or delivered ones until that is recorded
	lost      bool              // the iteration's work was lost with its place
	turns     int               // iterations that a worker has begun
	holder    string            // the agent whose place has the worker's result; empty: the first agent; see noHolder
	tampered  bool              // protected files have changed, as far as is known
	spent     map[string]int    // iterations at each task, of all workers
	tried     int               // of a worker: iterations at the task before it took it
	outrun    map[string]int    // how often others finished something first, by task
	alone     []string          // tasks to do while every other worker is idle
	sessions  map[string]string // that agents can continue, by the owner of a place

	reviewed   int // number of reviewers asked about the verdict
	wasSame    int // SameRed and red before the verdict
	wasRed     string
	objections []Gate // of each reviewer, when it was last asked
	reviews    Usage  // usage of all reviewers
	delayed    bool   // the next reviewer must wait for its allowance

	latest    spec.Metered  // of the last event
	open      bool          // an agent is working, as far as is known
	unknown   bool          // the usage of an agent is unknown
	unmetered run.Unmetered // of agents and reviewers, since the current carrier began
}

// Fold returns the state of a loop after its events. It ignores unknown events.
func Fold(events []run.Event) (*State, error) {
	s := &State{Result: run.Result{Status: run.Queued}, told: map[string]bool{}, Hints: []string{}}
	for _, ev := range events {
		if err := s.Add(ev); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Add applies the next event.
func (s *State) Add(ev run.Event) error {
	s.Clock(s.Status == run.Running && ev.Type != Rewound, ev)
	s.latest = spec.Metered{}
	n, err := workerOf(ev)
	if err != nil {
		return err
	}
	if n > 0 {
		return workerFold{s, s.worker(n)}.addEvent(ev)
	}
	switch ev.Type {
	case run.Began:
		s.beginCarrier()
	case Placing:
		return run.Read(ev, func(m Made) { s.Sandbox, s.Places = m.Sandbox, append(s.Places, m.Places...) })
	case run.Ready:
		return run.Read(ev, func(m Made) { s.Ready, s.Sandbox, s.Places = true, m.Sandbox, m.Places })
	case Baseline:
		return run.Read(ev, func(v Verdict) { s.Baseline, s.checked, s.unjudged = &v, v.Checkpoint, false })
	case Iteration:
		return run.Read(ev, s.beginIteration)
	case Worked:
		return run.Read(ev, func(w Work) { s.addWork(w, ev.Time) })
	case Cut:
		return run.Read(ev, func(w Work) {
			s.addCut(w)
			s.countCrash(w)
		})
	case Kept:
		return run.Read(ev, s.addCheckpoint)
	case Confirmed:
		s.confirmed()
	case Judged:
		return run.Read(ev, s.addVerdict)
	case Guarded:
		return run.Read(ev, s.guarded)
	case Reviewing:
		return run.Read(ev, s.asking)
	case Reviewed:
		return run.Read(ev, s.addReview)
	case ReviewDelayed:
		return run.Read(ev, func(u Unheard) {
			s.delayReview(u, ev.Time)
			s.useReview(u.Usage)
		})
	case ReviewCut:
		return run.Read(ev, func(u Unheard) { s.useReview(u.Usage) })
	case Hinted:
		return run.Read(ev, s.addHint)
	case Cleared:
		s.clearHints()
	case Took:
		return run.Read(ev, s.takeTask)
	case Closed:
		return run.Read(ev, func(f Finished) {
			s.Closed = append(s.Closed, f)
			s.endTask()
		})
	case PutBack, Lost:
		return run.Read(ev, s.leaveTask)
	case Replaced:
		return run.Read(ev, func(p Place) {
			s.replaced(p)
			s.loseWork(p.Agent)
		})
	case Rewound:
		return run.Read(ev, s.rewind)
	case Restored:
		return run.Read(ev, s.restored)
	case run.Ended:
		return run.Read(ev, func(e End) {
			s.held, s.Reviewing = false, ""
			s.endCarrier()
			s.Status, s.Reason, s.Detail, s.Signal, s.OpenTasks, s.HeldUp = e.Status, e.Reason, e.Detail, e.Signal, e.Open, e.HeldUp
		})
	}
	return nil
}

// beginCarrier starts a carrier. A stalled loop gets all its tries again.
func (s *State) beginCarrier() {
	if s.Status == run.Stalled {
		s.Left = nil
		s.Unchanged, s.SameRed, s.SameError, s.SameLimit, s.Until = 0, 0, 0, 0, time.Time{}
		s.resetTries()
	}
	if s.Status == run.Waiting && s.Reason == ReasonQuestion { // the user who resumes has as good as answered
		s.Asked, s.Unchanged = 0, 0
		for _, w := range s.Workers {
			w.Asked, w.Unchanged = 0, 0
		}
	}
	if s.Status == run.Waiting { // a person resumes, who may know that models can be asked by now
		for _, w := range s.allStates() {
			w.Until = time.Time{}
		}
	}
	if s.Status != run.Queued && s.Status != run.Running { // the loop had ended: people may have worked since
		s.unjudged = true
	}
	goneOn := s.Status != run.Queued
	if s.Status == run.Running { // its end was not recorded
		for _, w := range s.allStates() {
			w.unknown, w.open = w.unknown || w.open, false
		}
	}
	s.Status, s.Reason, s.Detail, s.Signal, s.OpenTasks, s.HeldUp, s.held = run.Running, "", "", 0, nil, nil, false
	s.Reviewing, s.unmetered = "", run.Unmetered{} // the new carrier finds out
	s.endCarrier()
	for _, w := range s.allStates() {
		w.Crashes, w.stale = 0, goneOn
	}
}

func (s *State) takeTask(t Taken) {
	if s.Task == nil || s.Task.ID != t.ID {
		s.tries, s.from, s.before = 0, s.checked, s.LastVerdict()
		s.step, s.Work = "", nil // the result of another task does not count for this one
		s.Unchanged, s.changed, s.claims = 0, false, false
	}
	s.Task, s.held, s.stale = &t, true, s.stale && !t.Closed
}

// leaveTask ends the work at a task that is not done.
func (s *State) leaveTask(l Left) {
	s.Left = append(s.Left, l)
	if l.Checkpoint > 0 {
		s.back = &Back{Iteration: s.Iteration, Checkpoint: l.Checkpoint, Verdict: s.before, perhaps: true}
	}
	s.endTask()
}

// restored records that files were restored.
func (s *State) restored(p Put) {
	if b := s.back; b != nil && !p.Gone {
		s.checked, s.Verdict, s.unjudged = b.Checkpoint, b.Verdict, b.Verdict == nil && b.Iteration > 0
		if s.Beneath = p.Beneath; len(p.Beneath) > 0 {
			s.Verdict, s.unjudged = nil, true
		}
	}
	s.tampered = s.Verdict.tampered() || s.Verdict == nil && s.Iteration > 0 && s.Baseline != nil && len(s.Baseline.Protected) > 0
	s.back = nil
}

// Expect applies the hints of people that no process has taken yet, and reports whether the loop should
// pause.
func (s *State) Expect(mail []run.Message) (pause bool) {
	for _, m := range mail {
		switch m.Kind {
		case run.Hint:
			s.addHint(Advice{m.ID, m.Text})
		case run.Clear:
			s.clearHints()
		case run.Pause:
			pause = true
		}
	}
	return pause
}

func (s *State) addHint(a Advice) {
	if !s.told[a.Message] {
		s.told[a.Message] = true
		s.Hints = append(s.Hints, a.Text)
	}
}

// clearHints removes the hints that were not delivered to the current iteration.
func (s *State) clearHints() { s.Hints = s.Hints[:s.shown:s.shown] }

// endTask ends the work at a task: a stall at one task says nothing about the next.
func (s *State) endTask() {
	s.Task, s.held, s.tries, s.step = nil, false, 0, ""
	s.Unchanged, s.SameRed, s.red, s.Asked, s.Question = 0, 0, "", 0, ""
	s.objections, s.Verdict, s.sessions = nil, s.Verdict.lasting(), nil
	s.changed, s.claims = false, false
	s.endReviewWait()
}

func (s *State) beginIteration(b Begun) {
	if b.Iteration == s.Iteration {
		s.Repeats++
	}
	if b.Iteration != s.Iteration {
		s.tries++
	}
	if s.unknown {
		s.addMetered(spec.Meter(nil, nil))
	}
	s.unjudged, s.stale, s.lost, s.open, s.unknown = true, false, false, true, false
	s.Iteration, s.step, s.Until = b.Iteration, Iteration, time.Time{}
	s.shown = max(0, min(b.Hints, len(s.Hints)))
	s.Agent, s.Model = b.Agent, b.Model
}

func (s *State) addWork(w Work, at time.Time) {
	s.Work, s.step, s.open, s.Crashes = &w, Worked, false, 0
	s.addUsage(w)
	s.unmetered.Unlisted = s.unmetered.Unlisted || w.Unlisted
	if w.Verdict == spec.VerdictOK {
		s.unmetered.Note("the agent", w.Tokens, w.USD, w.Said, w.Seen)
	}
	s.remember(w)
	if w.Verdict == spec.VerdictLimit {
		s.addLimit(run.Why(w.Overloaded), w.Until, at)
		s.shown = 0
		return // as if it had not happened: the hints are for the next try
	}
	s.claims = w.Verdict == spec.VerdictOK && w.Done
	s.given = slices.Clone(s.Hints[:s.shown])
	s.Hints, s.shown, s.SameLimit = s.Hints[s.shown:], 0, 0
	s.SameError, s.fail = countSame(s.SameError, s.fail, w.Error)
	s.Asked, s.Question = s.Asked+1, question(w.Message)
	if !w.Asks {
		s.Asked, s.Question = 0, ""
	}
}

// loseWork handles the removal of an agent's place. Its work there that was not kept is lost, with its
// report and its sessions. The current iteration is repeated with the files of the loop's sandbox and
// the same hints.
func (s *State) loseWork(agent string) {
	delete(s.sessions, agent)
	if s.Agent != agent || s.step != Iteration && s.step != Worked {
		return
	}
	s.Hints = slices.Concat(s.given, s.Hints)
	s.step, s.lost, s.shown, s.given = Iteration, true, 0, nil
	s.SameError, s.fail, s.Asked, s.Question, s.claims = 0, "", 0, "", false
}

// Again reports whether the iteration must be repeated because its place was removed.
func (s *State) Again() bool { return s.lost }

// addCut counts the usage of a try without a result: its iteration is repeated.
func (s *State) addCut(w Work) {
	s.addUsage(w)
	s.shown, s.open = 0, false
}

// addUsage adds up the usage. The numbers are the agent's, so negative ones are ignored.
func (s *State) addUsage(w Work) {
	tokens := max(w.Tokens, 0)
	s.Tokens = min(s.Tokens, math.MaxInt64-tokens) + tokens
	s.USD += max(w.USD, 0)
	s.addMetered(spec.Meter(w.Seen, w.Said))
}

// addMetered adds the usage of some work, by source.
func (s *State) addMetered(m spec.Metered) {
	s.Metered.Add(m)
	s.latest.Add(m)
}

func (s *State) addCheckpoint(k Keep) {
	s.Keep, s.step, s.checked, s.given, s.stale = &k, Kept, k.Checkpoint, nil, false
	s.unjudged = s.unjudged || k.Again
	switch {
	case k.Changes > 0:
		s.Unchanged, s.changed = 0, true
	case !k.Again:
		s.Unchanged++
	}
	if k.Whole != nil {
		s.changed = *k.Whole > 0
	}
}

// startPoint returns the checkpoint before the task, or without tasks before the first iteration.
func (s *State) startPoint() int64 {
	if s.Task != nil || s.Baseline == nil {
		return s.from
	}
	return s.Baseline.Checkpoint
}

// Told returns the number of hints delivered to the current iteration.
func (s *State) Told() int { return s.shown }
