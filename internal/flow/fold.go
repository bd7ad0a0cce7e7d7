package flow

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/bothy-dev/bothy/internal/flow/flowplan"
	"github.com/bothy-dev/bothy/internal/gate"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

// Statuses that only steps have.
const (
	Pending run.Status = "pending" // it has no result
	Passed  run.Status = "skipped" // it was skipped
)

// Final reports whether a flow has ended for good.
func (s *State) Final() bool { return s.Status == run.Limited || s.Status == run.Cancelled }

// settled reports whether a step has a result.
func (st *StepState) settled() bool {
	return st.Status == run.Completed || st.Status == run.Failed || st.Status == Passed
}

// Exhausted is the detail of a step whose agent has to wait.
const Exhausted = "the agent's allowance is used up"

// Crowded is the detail of a step whose model's provider is overloaded.
const Crowded = "the provider of its model is overloaded"

// ShareUsed is the detail of a step whose share of the budget was too small.
const ShareUsed = "its share of the budget is used up: it is tried again by itself"

// StepState is the state of a step, or of one time of a step with a matrix.
type StepState struct {
	ID       string       `json:"id"`
	Status   run.Status   `json:"status"`
	Attempts int          `json:"attempts"` // all that were ever made
	Missing  []string     `json:"missing,omitempty"`
	Detail   string       `json:"detail,omitempty"` // why it has this status
	Output   *Artefact    `json:"output,omitempty"`
	Checks   []gate.Check `json:"checks,omitempty"`
	Message  string       `json:"message,omitempty"` // the agent's last; the question of an approval
	Hash     string       `json:"hash,omitempty"`    // of its task and inputs
	Group    string       `json:"group,omitempty"`   // the step is done for an element of a list
	Element  string       `json:"element,omitempty"` // which one
	Rounds   int          `json:"rounds,omitempty"`  // how often it was sent back by a later step
	// Matrix are the values for this time of a step with a matrix. The author of the flow chose them.
	Matrix map[string]string `json:"matrix,omitempty"`
	// Tokens and USD are the usage of models by all its tries.
	Tokens int64   `json:"tokens,omitempty"`
	USD    float64 `json:"usd,omitempty"`
	// Metered is the same, by source.
	Metered spec.Metered `json:"metered,omitzero"`

	node *flowplan.Node

	rechecked bool // since a user gave it all its tries again

	unable bool // it failed because its agent did, whatever the quality of its work

	done   int64     // the event that settled it, or at which it began to wait
	called int64     // likewise, for the last question that a person was told of
	tries  int       // those that count, for this hash
	flawed int       // the try whose result it has to fix: the last one that was judged
	alone  bool      // its share was too small: it runs when no other step is running
	since  time.Time // the beginning of the first try

	// Of the running try:
	began  int64 // the event
	lost   bool  // its host has died
	room   string
	before *Used // usage of models by the room at its beginning
	share  spec.Budget
}

// State is the state of a flow.
type State struct {
	run.Result
	graph
	Steps []*StepState `json:"steps"`

	Ready     bool              `json:"-"`
	Sandboxes map[string]string `json:"sandboxes,omitempty"`

	Until time.Time `json:"until,omitzero"` // end of the wait for models that cannot be asked
	run.Usage

	unmetered run.Unmetered // since the current carrier began; only failed steps have asked models without a price

	files     map[string]string // hashes of the files in inputs/
	looked    bool              // since the current carrier began
	back      *SentBack         // set by the last event
	told      time.Time         // the reported end of the wait, if any
	denial    run.Delay         // the last delay
	limitedBy int64             // the event of the last refusal
	limits    int               // number of refusals in a row

	marked map[string]string // elements that pass in the list as last written
	pools  map[string]int    // the number of sandboxes, by agents
	lonely bool              // only one step at a time works on the directory, except for fresh ones
	inTurn bool              // elements of a list are done one after the other
}

// Fold returns the state of a flow after its events. It ignores unknown events.
func Fold(p *flowplan.Plan, events []run.Event) (*State, error) {
	s := &State{Result: run.Result{Status: run.Queued}, graph: newGraph(p), files: map[string]string{}, marked: map[string]string{}, Steps: []*StepState{}}
	s.pools, s.lonely, s.inTurn = p.Pools(), p.OnDirectory(), p.InTurn()
	for _, n := range s.nodes {
		s.Steps = append(s.Steps, s.byID[n.ID])
	}
	for _, ev := range events {
		if err := s.Add(ev); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Add applies the next event.
func (s *State) Add(ev run.Event) error {
	s.back = nil
	err := s.addEvent(ev)
	s.spread()
	return err
}

// spread resets the steps that need a step that runs again.
func (s *State) spread() {
	for _, n := range s.nodes { // a needed node comes before those that need it
		st := s.byID[n.ID]
		if !st.settled() && st.Status != run.Waiting {
			continue
		}
		for _, need := range s.needsOf(n) {
			if !need.settled() || need.done > st.done {
				st.resetStep("a step that it needs is done again")
				break
			}
		}
	}
}

func (s *State) addEvent(ev run.Event) error {
	if ev.Type != Answered || s.Status != run.Running { // the flow may have no carrier
		s.Clock(s.Status == run.Running, ev)
	}
	switch ev.Type {
	case run.Began:
		s.beginCarrier()
	case run.Ready:
		return run.Read(ev, func(m Made) { s.Ready, s.Sandboxes = true, m.Sandboxes })
	case Found:
		return run.Read(ev, s.compareFiles)
	case Started:
		return run.Read(ev, func(b Start) { s.startTry(b, ev) })
	case Worked:
		return run.Read(ev, func(w Work) { s.addWork(w, ev) })
	case Cut:
		return run.Read(ev, s.addCut)
	case Skipped:
		return run.Read(ev, func(k Skip) { s.settle(k.Step, k.Hash, Passed, k.Why, ev.Seq) })
	case Recheck:
		return run.Read(ev, func(a Again) { s.recheck(a.Step) })
	case Asked:
		return run.Read(ev, func(a Ask) {
			if st := s.settle(a.Step, a.Hash, run.Waiting, "", ev.Seq); st != nil {
				st.Message = a.Message
			}
		})
	case Called:
		return run.Read(ev, s.called)
	case Answered:
		return run.Read(ev, func(a Answer) { s.answered(a, ev) })
	case run.Ended:
		return run.Read(ev, func(e End) { s.Result = run.Result(e) })
	}
	return nil
}

// Told returns the step that an event is about, or nil.
func (s *State) Told(ev run.Event) *StepState {
	var about struct {
		Step string `json:"step"`
	}
	if len(ev.Data) == 0 || json.Unmarshal(ev.Data, &about) != nil {
		return nil
	}
	return s.byID[about.Step]
}

// beginCarrier starts a carrier. If the flow failed, or its budget was too small, the failed steps get all
// their tries again.
func (s *State) beginCarrier() {
	if s.Status == run.Failed || s.Status == run.Limited || s.Reason == ReasonSkipped {
		for _, n := range s.nodes {
			if st := s.byID[n.ID]; st.Status == run.Failed {
				st.resetStep("")
				st.rechecked = false
				if to := s.byID[n.GoesBackTo()]; to != nil {
					to.Rounds = 0
				}
			}
		}
	}
	for _, st := range s.Steps {
		st.lost = st.Status == run.Running
	}
	s.Status, s.Reason, s.Detail, s.Signal, s.looked = run.Running, "", "", 0, false
	s.Until = time.Time{} // the new carrier starts afresh
	s.unmetered = run.Unmetered{}
}

// resetStep makes a step pending again.
func (st *StepState) resetStep(why string) {
	st.Status, st.Detail, st.Output, st.Checks, st.Missing, st.Hash, st.tries, st.done, st.Rounds = Pending, why, nil, nil, nil, "", 0, 0, 0
	st.unable, st.alone, st.since = false, false, time.Time{}
}

// compareFiles compares the files with their state when they passed.
func (s *State) compareFiles(f Seen) {
	s.files, s.looked = f.Inputs, true
	for _, st := range s.Steps {
		if st.Output != nil && f.Outputs[st.Output.Path] != st.Output.SHA256 {
			st.resetStep("outputs/" + st.Output.Path + " has changed since it was validated")
		}
	}
}

func (s *State) startTry(b Start, ev run.Event) {
	st := s.byID[b.Step]
	if st == nil {
		return
	}
	if st.Hash != b.Hash {
		st.resetStep("")
	}
	st.Hash, st.Status, st.Attempts = b.Hash, run.Running, b.Attempt
	s.Until = time.Time{} // the wait is over for all, whatever its reason
	st.began, st.lost, st.room, st.before, st.share = ev.Seq, false, b.Room, b.Before, b.Share
	if st.since.IsZero() {
		st.since = ev.Time
	}
}

// addCut counts the usage of a try without a result.
func (s *State) addCut(c Short) {
	s.addUsage(c.Step, c.Tokens, c.USD, c.Seen, c.Said)
	if st := s.byID[c.Step]; st != nil && st.Status == run.Running {
		st.Status, st.Detail = Pending, "it was cut short"
	}
}

// addUsage counts the usage of models by a step. A command for which the gateway saw no request made none,
// as far as can be known.
func (s *State) addUsage(step string, tokens int64, usd float64, seen *spec.BillItem, said *spec.Claimed) {
	s.Tokens += tokens
	s.USD += usd
	st := s.byID[step]
	if st == nil {
		return
	}
	st.Tokens += tokens
	st.USD += usd
	if seen != nil || said != nil || s.nodeOf(step).Step.Prompt != "" {
		m := spec.Meter(seen, said)
		s.Metered.Add(m)
		st.Metered.Add(m)
	}
}

// maxLimits is how many refusals in a row are believed.
const maxLimits = 72

func (s *State) addWork(w Work, ev run.Event) {
	s.addUsage(w.Step, w.Tokens, w.USD, w.Seen, w.Said)
	st := s.byID[w.Step]
	if st == nil {
		return
	}
	if w.Verdict == spec.VerdictOK && s.nodeOf(w.Step).Step.Prompt != "" {
		s.unmetered.Note("an agent", w.Tokens, w.USD, w.Said, w.Seen)
	}
	s.unmetered.Unlisted = s.unmetered.Unlisted || w.Verdict != spec.VerdictOK && w.Unlisted
	st.Message, st.Checks = w.Message, w.Checks
	news := st.began > s.limitedBy                                         // work that was already running is not news about an allowance
	if w.Verdict == spec.VerdictLimit && (s.limits < maxLimits || !news) { // as if it had not happened
		st.Status, st.Detail = Pending, Exhausted
		if w.Overloaded {
			st.Detail = Crowded
		}
		s.limited(w, ev, news)
		return
	}
	if news {
		s.limits, s.Until = 0, time.Time{}
	}
	if w.Scant {
		st.Status, st.Detail, st.alone = Pending, ShareUsed, true
		return
	}
	st.Missing = missing(w)
	if len(st.Missing) == 0 {
		st.Status, st.Output, st.Detail, st.done = run.Completed, w.Output, "", ev.Seq
		return
	}
	st.Detail, st.flawed = st.Missing[0], w.Attempt
	st.Status, st.tries = Pending, st.tries+1
	if n := s.nodeOf(w.Step); st.tries > n.Step.Retries() {
		st.Status, st.done = run.Failed, ev.Seq
		st.unable = n.Step.Prompt != "" && w.Verdict != spec.VerdictOK
		s.goBack(n, st.Missing)
	}
}

// limited makes the flow wait. Steps that ran side by side when models could not be asked any more all
// report that. It counts once, and the step that knows the end is believed.
func (s *State) limited(w Work, ev run.Event, news bool) {
	if news || !w.Until.IsZero() {
		s.told = w.Until
	}
	if news {
		s.limits++
	}
	s.denial.Add(run.Why(w.Overloaded), ev.Time, s.told, s.limits)
	s.Until, s.limitedBy = s.denial.Until, ev.Seq
}

// settle gives a result to a step that is not running.
func (s *State) settle(id, hash string, status run.Status, why string, done int64) *StepState {
	st := s.byID[id]
	if st != nil {
		st.resetStep(why)
		st.Status, st.Hash, st.done = status, hash, done
	}
	return st
}

// answered applies an answer to its question. An answer to another question decides nothing.
func (s *State) answered(a Answer, ev run.Event) {
	st := s.byID[a.Step]
	if st == nil || st.Status != run.Waiting || st.Hash != a.Hash {
		return
	}
	st.Status, st.done, st.Detail = run.Completed, ev.Seq, "approved by "+ev.Actor
	if a.Output != nil {
		st.Output, st.Checks, st.Detail = a.Output, a.Checks, "answered by "+ev.Actor
	}
	if !a.Approved {
		st.Status, st.Detail = run.Failed, "rejected by "+ev.Actor
		st.Missing = []string{st.Detail}
	}
	if a.Text != "" {
		st.Detail += ": " + a.Text
	}
	if !a.Approved {
		s.goBack(s.nodeOf(st.ID), []string{st.Detail})
	}
	if s.Status == run.Waiting && len(s.Questions()) == 0 {
		s.Reason, s.Detail = "answered", "bothy flow resume goes on"
	}
}

// Questions returns the steps that wait for a person's decision, as long as the decision would change
// anything.
func (s *State) Questions() (list []*StepState) {
	if s.Over() {
		return nil
	}
	for _, st := range s.Steps {
		if st.Status == run.Waiting {
			list = append(list, st)
		}
	}
	return list
}

// hashTask covers a node's task and its inputs. For each needed node it includes the event of its result: if
// the needed node runs again, so does this one.
func (s *State) hashTask(n *flowplan.Node) string {
	type need struct {
		ID, Status, Output string
		Done               int64
	}
	files, nodes := s.plan.Sources(n, s.nodes)
	inputs := map[string]string{}
	for _, name := range files {
		inputs[name] = s.files[name]
	}
	var needs []need
	for _, id := range slices.Concat(n.Needs, nodes) {
		st := s.byID[id]
		one := need{ID: id, Status: string(st.Status), Done: st.done}
		if st.Output != nil {
			one.Output = st.Output.SHA256
		}
		needs = append(needs, one)
	}
	for _, number := range n.After {
		one := need{ID: fmt.Sprint(n.Group, "#", number), Status: string(s.elementStatus(n, number))}
		for _, st := range s.elements[n.Beside(number)] {
			one.Done = max(one.Done, st.done)
		}
		needs = append(needs, one)
	}
	return flowplan.Digest(struct {
		Definition string
		Inputs     map[string]string
		Needs      []need
	}{s.definition(n), inputs, needs})
}
