package flow

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/flow/flowplan"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

// Decision is the next action. Exactly one of Count, Look, Again, Skip, Ask, Work, Join, Wait and
// End is set.
type Decision struct {
	Count *flowplan.Node // find out the usage of an interrupted try
	Look  bool           // read the files again
	Again *flowplan.Node // try it once more, now that its list is done
	Skip  *flowplan.Node // skip it, for the reason Why
	Ask   *flowplan.Node // ask a person
	Work  *flowplan.Node // try it
	Join  bool           // wait for a running step
	Wait  time.Time      // likewise, or until then
	End   *End           // only when no step is running

	Hash string // of Skip, Ask and Work
	Why  string

	Room  string      // of Work; empty: it has a sandbox of its own
	Share spec.Budget // limits of its model usage
	Part  bool        // others have the rest of the budget
}

// Next decides the next action at a time.
func Next(s *State, now time.Time) Decision {
	for _, n := range s.nodes {
		if st := s.byID[n.ID]; st.Status == run.Running && st.lost {
			return Decision{Count: n}
		}
	}
	if !s.looked {
		return Decision{Look: true}
	}
	if why := s.strayed(); why != "" {
		return s.endWhenIdle(&End{Status: run.Failed, Reason: "error", Detail: why})
	}
	if why := s.forsaken(); why != "" {
		return s.endWhenIdle(&End{Status: run.Failed, Reason: ReasonAgent, Detail: run.Head(why, flowplan.MaxMissing)})
	}
	if n := s.recheckable(); n != nil && s.spentEnd(now) == nil {
		return Decision{Again: n}
	}
	var wait Decision // for models that cannot be asked: steps that need none are decided meanwhile
	for _, n := range s.nodes {
		hash, due := s.isDue(n)
		if !due {
			continue
		}
		switch d, can := s.decideStep(n, hash, now); {
		case can && !d.Wait.IsZero():
			wait = d
		case can:
			return d
		}
	}
	if !wait.Wait.IsZero() {
		return wait
	}
	return s.endWhenIdle(s.outcome())
}

// endWhenIdle ends the flow once no step is running any more.
func (s *State) endWhenIdle(end *End) Decision {
	if len(s.atWork()) > 0 {
		return Decision{Join: true}
	}
	return Decision{End: end}
}

// isDue reports whether a node must run now, and returns the hash of its task.
func (s *State) isDue(n *flowplan.Node) (hash string, due bool) {
	st := s.byID[n.ID]
	if st.Status == run.Running || !s.canRun(n) {
		return "", false
	}
	hash = s.hashTask(n)
	return hash, !st.settled() && st.Status != run.Waiting || st.Hash != hash
}

// canRun reports whether all that a node needs has a result. In a group done in turn, the earlier elements
// need one too.
func (s *State) canRun(n *flowplan.Node) bool {
	for _, need := range s.needsOf(n) {
		if !need.settled() {
			return false
		}
	}
	for _, other := range s.nodes {
		if n.Group == "" || !s.inTurn || other == n {
			break
		}
		if other.Group == n.Group && other.Number < n.Number && !s.byID[other.ID].settled() {
			return false
		}
	}
	return true
}

// strayed explains that a list has changed since the flow was laid out.
func (s *State) strayed() string {
	for _, id := range slices.Sorted(maps.Keys(s.plan.Lists)) {
		if list := s.plan.Lists[id]; s.files[list.Input] != list.SHA256 {
			return fmt.Sprintf("inputs/%s has changed since the flow began, and the steps of %s were made from it; restore it, or begin another run", list.Input, id)
		}
	}
	return ""
}

// decideStep decides about a node without a result. can is false if the node must wait for a running one.
func (s *State) decideStep(n *flowplan.Node, hash string, now time.Time) (d Decision, can bool) {
	d.Hash = hash
	if why := s.unwanted(n); why != "" {
		d.Skip, d.Why = n, why
		return d, true
	}
	if n.Step.ForPerson() {
		d.Ask = n
		return d, true
	}
	if end := s.spentEnd(now); end != nil {
		return s.endWhenIdle(end), true
	}
	if d.Room, can = s.freeRoom(n); !can {
		return d, false
	}
	if d.Share, d.Part, can = s.allotShare(n); !can {
		return d, false
	}
	if s.Until.After(now) {
		return Decision{Wait: s.Until}, true
	}
	d.Work = n
	return d, true
}

// Reasons why a flow waits for a person.
const (
	ReasonApproval = "approval"
	ReasonQuestion = "question"
)

// ReasonSkipped is the reason of a flow that did everything except for elements of a list that are left
// to a person.
const ReasonSkipped = "skipped"

// ReasonNoOutput is the reason of a flow in which no step failed, but whose final step was skipped.
const ReasonNoOutput = "no_output"

// ReasonAgent is the reason of a flow whose agents failed for several elements in a row, for example
// because their model does not exist.
const ReasonAgent = "agent"

// ReasonRemoved is the reason of a flow whose files were removed.
const ReasonRemoved = "removed"

// Removed returns the end of a flow whose files were removed.
func Removed(r *run.Run) End {
	return End{Status: run.Cancelled, Reason: ReasonRemoved, Detail: r.Dir() + " was removed"}
}

// Asks returns the first question to a person, and whether that is an approval or a question. Both
// are empty without a question.
func (s *State) Asks() (reason, detail string) {
	list := s.Questions()
	if len(list) == 0 {
		return "", ""
	}
	q := s.askingOf(list[0])
	return q.Reason, q.Detail
}

// askingOf returns the question of a step that waits for a person.
func (s *State) askingOf(st *StepState) Asking {
	q := Asking{Step: st.ID, Reason: ReasonApproval, Detail: st.ID + ": " + run.Head(st.Message, flowplan.MaxMissing)}
	if !s.Approves(st) {
		q.Reason = ReasonQuestion
	}
	return q
}

// outcome returns the end of a flow in which no step is left.
func (s *State) outcome() *End {
	if reason, detail := s.Asks(); reason != "" {
		return &End{Status: run.Waiting, Reason: reason, Detail: detail}
	}
	var failed []string
	reason := "rejected"
	for _, n := range s.nodes {
		if st := s.byID[n.ID]; st.Status == run.Failed && n.Group == "" {
			failed = append(failed, st.ID+": "+run.Head(st.Detail, maxDetail))
			if n.Step.Approval == nil {
				reason = "step"
			}
		}
	}
	if failed != nil {
		return &End{Status: run.Failed, Reason: reason, Detail: strings.Join(failed, "; ")}
	}
	for _, e := range s.Elements() {
		if e.review {
			failed = append(failed, e.ID+" "+e.Why)
		}
	}
	if failed != nil {
		return &End{Status: run.Completed, Reason: ReasonSkipped, Detail: run.Head(strings.Join(failed, "; "), flowplan.MaxMissing)}
	}
	if why := s.fruitless(); why != "" {
		return &End{Status: run.Completed, Reason: ReasonNoOutput, Detail: why}
	}
	return &End{Status: run.Completed, Reason: "done"}
}

// maxDetail bounds the text about one step at the end of a flow, in bytes.
const maxDetail = 300

// spentEnd ends a flow whose budget is used up.
func (s *State) spentEnd(now time.Time) *End {
	limit := time.Duration(s.plan.Limits.Time)
	return (*End)(s.Usage.Spent(s.plan.Budget(), limit, s.Took(s.Status, now), s.unmetered))
}

// Raisable reports whether a flow has reached a limit, and can continue with a higher one.
func (s *State) Raisable() bool { return s.Status == run.Limited && !s.plan.Remove }

// Reached returns the end of a flow that would end at once when resumed, because it has reached a limit.
// It is nil if the limits leave some room.
func (s *State) Reached() *End {
	if end := s.spentEnd(time.Time{}); end != nil && end.Status == run.Limited {
		return end
	}
	return nil
}

// Waits returns the delay after which the flow continues by itself.
func (s *State) Waits() (run.Delay, bool) {
	return s.denial, s.Status == run.Running && !s.Until.IsZero()
}

// Denied reports whether models could not be asked, and none has answered since.
func (s *State) Denied() bool { return s.limits > 0 }

// Known reports whether an agent or the gateway has said until when models cannot be asked.
func (s *State) Known() bool { return !s.told.IsZero() }

// Over reports whether a flow cannot be resumed.
func (s *State) Over() bool {
	return s.Final() || s.Status == run.Completed && s.Reason != ReasonSkipped
}

// ExitCode returns the exit code of the command that carried a flow on.
func (s *State) ExitCode() int {
	return s.Result.ExitCode(s.Reason == ReasonSkipped || s.Reason == ReasonNoOutput)
}

// Draft returns the path of the drafted flow below the directory of the run, or "".
func (s *State) Draft() string {
	if !s.plan.Drafts || s.Status != run.Completed || s.Steps[0].Output == nil {
		return ""
	}
	return flowplan.OutputsDir + "/" + s.Steps[0].Output.Path
}
