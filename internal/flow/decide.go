package flow

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

// Decision is the next action. Exactly one of Count, Look, Again, Skip, Ask, Work, Join, Wait and
// End is set.
type Decision struct {
	Count *Node     // find out the usage of an interrupted try
	Look  bool      // read the files again
	Again *Node     // try it once more, now that its list is done
	Skip  *Node     // skip it, for the reason Why
	Ask   *Node     // ask a person
	Work  *Node     // try it
	Join  bool      // wait for a running step
	Wait  time.Time // likewise, or until then
	End   *End      // only when no step is running

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
		return s.last(&End{Status: run.Failed, Reason: "error", Detail: why})
	}
	if why := s.forsaken(); why != "" {
		return s.last(&End{Status: run.Failed, Reason: ReasonAgent, Detail: run.Head(why, maxMissing)})
	}
	if n := s.recheckable(); n != nil && s.spent(now) == nil {
		return Decision{Again: n}
	}
	var wait Decision // for models that cannot be asked: steps that need none are decided meanwhile
	for _, n := range s.nodes {
		hash, due := s.due(n)
		if !due {
			continue
		}
		switch d, can := s.begun(n, hash, now); {
		case can && !d.Wait.IsZero():
			wait = d
		case can:
			return d
		}
	}
	if !wait.Wait.IsZero() {
		return wait
	}
	return s.last(s.outcome())
}

// last ends the flow once no step is running any more.
func (s *State) last(end *End) Decision {
	if len(s.atWork()) > 0 {
		return Decision{Join: true}
	}
	return Decision{End: end}
}

// due reports whether a node must run now, and returns the hash of its task.
func (s *State) due(n *Node) (hash string, due bool) {
	st := s.byID[n.ID]
	if st.Status == run.Running || !s.can(n) {
		return "", false
	}
	hash = s.hash(n)
	return hash, !st.settled() && st.Status != run.Waiting || st.Hash != hash
}

// can reports whether all that a node needs has a result. In a group done in turn, the earlier elements
// need one too.
func (s *State) can(n *Node) bool {
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
			return fmt.Sprintf("inputs/%s is not what it was when the flow began: the steps of %s were laid out for that; put it back, or begin another run", list.Input, id)
		}
	}
	return ""
}

// begun decides about a node without a result. can is false if the node must wait for a running one.
func (s *State) begun(n *Node, hash string, now time.Time) (d Decision, can bool) {
	d.Hash = hash
	if why := s.unwanted(n); why != "" {
		d.Skip, d.Why = n, why
		return d, true
	}
	if n.Step.forPerson() {
		d.Ask = n
		return d, true
	}
	if end := s.spent(now); end != nil {
		return s.last(end), true
	}
	if d.Room, can = s.free(n); !can {
		return d, false
	}
	if d.Share, d.Part, can = s.allot(n); !can {
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
	q := s.ask(list[0])
	return q.Reason, q.Detail
}

// WorkLeft reports whether a step is left that is not for a person.
func (s *State) WorkLeft() bool {
	return slices.ContainsFunc(s.nodes, func(n *Node) bool {
		st := s.byID[n.ID]
		return !n.Step.forPerson() && st.Status != run.Completed && st.Status != Passed
	})
}

// Approves reports whether a waiting step wants an approval, and not an answer.
func (s *State) Approves(st *StepState) bool { return s.node(st.ID).Step.Approval != nil }

// ask returns the question of a step that waits for a person.
func (s *State) ask(st *StepState) Asking {
	q := Asking{Step: st.ID, Reason: ReasonApproval, Detail: st.ID + ": " + run.Head(st.Message, maxMissing)}
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
		return &End{Status: run.Completed, Reason: ReasonSkipped, Detail: run.Head(strings.Join(failed, "; "), maxMissing)}
	}
	if why := s.fruitless(); why != "" {
		return &End{Status: run.Completed, Reason: ReasonNoOutput, Detail: why}
	}
	return &End{Status: run.Completed, Reason: "done"}
}

// fruitless explains why the final step was skipped, so that the flow has no output. It is empty if that
// step was done, or the flow has none.
func (s *State) fruitless() (why string) {
	for _, n := range s.nodes {
		if !n.Step.Final {
			continue
		}
		st := s.byID[n.ID]
		if st.Status == run.Completed {
			return ""
		}
		why = cmp.Or(why, n.ID+" was passed over: "+run.Head(st.Detail, maxDetail))
	}
	return why
}

// maxDetail bounds the text about one step at the end of a flow, in bytes.
const maxDetail = 300

// unwanted explains why a node whose needs have results is skipped; empty if it is not.
func (s *State) unwanted(n *Node) string {
	for _, number := range n.After {
		if s.need(n, number) != run.Completed {
			return s.elements[n.Beside(number)][0].Element + ", which it needs, was not done"
		}
	}
	return s.plan.Rejects(n, Progress{
		Succeeded: func() bool { return s.succeeded(n) },
		Failed:    func() bool { return s.failedAbove(n) },
		Status:    func(step string) string { return string(s.together(n, step)) },
	})
}

// excluded reports whether a node was skipped because of its own condition alone, or because of that of
// the copy that it would judge.
func (s *State) excluded(n *Node) bool {
	return s.byID[n.ID].Status == Passed && (s.plan.excludes(n) || n.judges() != "" && s.excluded(s.node(n.judges())))
}

// succeeded reports whether all steps that a node needs are completed. In a step with several
// times, or a group, the parts that their own conditions exclude are not missed, if any part was
// done.
func (s *State) succeeded(n *Node) bool {
	done := map[string]bool{} // the needed steps and groups
	for _, id := range n.Needs {
		need := s.node(id)
		of := need.Step.ID
		if need.Group != "" && need.Group != n.Group {
			of = need.Group
		}
		switch completed := s.byID[id].Status == run.Completed; {
		case completed || s.excluded(need):
			done[of] = done[of] || completed
		default:
			return false
		}
	}
	return !slices.Contains(slices.Collect(maps.Values(done)), false)
}

// failedAbove reports whether a node that this one needs, directly or not, has failed.
func (s *State) failedAbove(n *Node) bool {
	above := map[string]bool{}
	for _, id := range n.Needs {
		above[id] = true
	}
	for _, n := range slices.Backward(s.nodes) { // a needed node comes before those that need it
		if !above[n.ID] {
			continue
		}
		if s.byID[n.ID].Status == run.Failed {
			return true
		}
		for _, id := range n.Needs {
			above[id] = true
		}
	}
	return false
}

// together returns the combined status of all times of a step or a group, as a node sees it and as
// succeeded defines it.
func (s *State) together(by *Node, step string) run.Status {
	status, done := run.Completed, false
	for _, n := range s.nodes {
		if n.Step.ID != step && n.Group != step || !by.sees(n) {
			continue
		}
		switch st := s.byID[n.ID].Status; {
		case st == run.Failed:
			return run.Failed
		case st == run.Completed:
			done = true
		case !s.excluded(n):
			status = st
		}
	}
	if status == run.Completed && !done {
		return Passed
	}
	return status
}

// spent ends a flow whose budget is used up.
func (s *State) spent(now time.Time) *End {
	l := s.plan.Limits
	switch {
	case l.Time > 0 && s.Took(s.Status, now) >= time.Duration(l.Time):
		return &End{Status: run.Limited, Reason: "time", Detail: fmt.Sprintf("not done after %s", time.Duration(l.Time))}
	case l.Tokens > 0 && s.Tokens >= l.Tokens:
		return &End{Status: run.Limited, Reason: "tokens", Detail: fmt.Sprintf("not done after %d tokens", s.Tokens)}
	case l.USD > 0 && s.USD >= l.USD:
		return &End{Status: run.Limited, Reason: "cost", Detail: fmt.Sprintf("not done after %.2f USD", s.USD)}
	case l.USD > 0 && s.unlisted: // the gateway refuses all further requests of its sandbox
		return &End{Status: run.Failed, Reason: "unmetered", Detail: "it has a budget in USD, and a model that was asked has no price: bothy cost SANDBOX names it, the setting prices can give it one"}
	case l.Tokens > 0 && s.noCount, l.USD > 0 && s.noPrice:
		return &End{Status: run.Failed, Reason: "unmetered", Detail: "it has a budget, and nobody can tell what an agent took: the gateway saw no model asked that it knows, and the agent does not say"}
	}
	return nil
}

// Raisable reports whether a flow has reached a limit, and can continue with a higher one.
func (s *State) Raisable() bool { return s.Status == run.Limited && !s.plan.Remove }

// Reached returns the end of a flow that would end at once when resumed, because it has reached a limit.
// It is nil if the limits leave some room.
func (s *State) Reached() *End {
	if end := s.spent(time.Time{}); end != nil && end.Status == run.Limited {
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
	return OutputsDir + "/" + s.Steps[0].Output.Path
}
