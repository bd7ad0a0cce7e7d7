package flow

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/flow/flowplan"
	"github.com/bothy-dev/bothy/internal/gate"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

// Person is a user who decides or answers.
type Person struct {
	Plan *flowplan.Plan
	Run  *run.Run
	// Host is the right to carry the run on. It is nil if another process has that right: then the
	// answer is left for that process, see [Person.Heard].
	Host   *run.Host
	Events []run.Event
	Name   string

	said reply
	left run.Message // the answer, if Host is nil
}

// reply is a person's answer to a flow that another process carries on.
type reply struct {
	Answer
	Document []byte `json:"document,omitempty"` // of a question
}

// Decide records a person's decision about a waiting step; an empty name means the only such step. The
// question must not have changed since it was asked. The process that next carries the flow on uses the
// decision.
func (p *Person) Decide(step string, approved bool, why string) (*State, error) {
	s, st, err := p.findQuestion(step, true)
	if err != nil {
		return nil, err
	}
	return s, p.keepReply(s, reply{Answer: Answer{Step: st.ID, Hash: st.Hash, Approved: approved, Text: why}})
}

// Answer records a person's answer, if it passes the checks of the step.
func (p *Person) Answer(step, text string) (*State, error) {
	s, st, err := p.findQuestion(step, false)
	if err != nil {
		return nil, err
	}
	n, document := s.nodeOf(st.ID), []byte(text)
	r := n.Step.Checks().Judge(document)
	if !r.Passed {
		return nil, spec.Errorf(spec.ErrUsage, "that does not answer %s: %s", st.ID, strings.Join(r.Flaws(), "; "))
	}
	return s, p.keepReply(s, reply{answerOf(n, st.Hash, document, r.Checks), document})
}

// answerOf makes the answer to a node's question.
func answerOf(n *flowplan.Node, hash string, document []byte, checks []gate.Check) Answer {
	a := &Artefact{Path: n.Output, SHA256: flowplan.HashOf(document), Size: int64(len(document)), At: time.Now().UTC()}
	return Answer{Step: n.ID, Hash: hash, Approved: true, Output: a, Checks: checks}
}

func (p *Person) keepReply(s *State, r reply) error {
	p.said = r
	if p.Host == nil {
		data, err := json.Marshal(r)
		if err == nil {
			p.left, err = p.Run.Post(run.Message{Kind: run.Reply, Actor: p.Name, Data: data})
		}
		return err
	}
	if err := r.keepDocument(p.Run.Dir()); err != nil {
		return err
	}
	ev, err := p.Host.Append(Answered, p.Name, r.Answer)
	if err == nil {
		err = s.Add(ev)
	}
	if err == nil {
		err = writeRecord(p.Run.Dir(), p.Run.ID, s)
	}
	return err
}

// Left reports whether the answer was left for the process that carries the run on.
func (p *Person) Left() bool { return p.left.ID != "" }

// Heard reports whether that process has read the answer. The error is ErrConflict if the answer
// decided nothing.
func (p *Person) Heard() (bool, error) {
	waits, err := p.Run.Waits(p.left)
	if waits || err != nil {
		return false, err
	}
	events, err := p.Run.Events()
	if err != nil {
		return true, err
	}
	other := ""
	for _, ev := range events[min(len(p.Events), len(events)):] {
		var a Answer
		if ev.Type != Answered || json.Unmarshal(ev.Data, &a) != nil || a.Step != p.said.Step || a.Hash != p.said.Hash {
			continue
		}
		if ev.Actor == p.Name && a.equals(p.said.Answer) {
			return true, nil
		}
		other = a.pastTense() + " by " + ev.Actor
	}
	if other == "" {
		return true, p.changed(p.said.Step)
	}
	return true, spec.Errorf(spec.ErrConflict, "%s of the run %s was %s first", p.said.Step, p.Run.ID, other).WithHint("bothy flow status %s shows how it stands", p.Run.ID)
}

// TakeBack removes the answer if it is still unread.
func (p *Person) TakeBack() error {
	if !p.Left() {
		return nil
	}
	if err := p.Run.Take(p.left); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// equals reports whether two answers are equal.
func (a *Answer) equals(b Answer) bool {
	if a.Approved != b.Approved || a.Text != b.Text || (a.Output == nil) != (b.Output == nil) {
		return false
	}
	return a.Output == nil || a.Output.SHA256 == b.Output.SHA256
}

// pastTense names an answer in the past tense.
func (a *Answer) pastTense() string {
	switch {
	case a.Output != nil:
		return "answered"
	case a.Approved:
		return "approved"
	}
	return "rejected"
}

// changed returns the error for a question that has changed since it was asked.
func (p *Person) changed(step string) error {
	return spec.Errorf(spec.ErrConflict, "what %s of the run %s asks about has changed since", step, p.Run.ID).
		WithHint("bothy flow resume %s does again what must be, and asks again", p.Run.ID)
}

// readReply decodes a message, and reports whether it answers an open question.
func (s *State) readReply(m run.Message) (r reply, about bool) {
	if m.Kind != run.Reply || json.Unmarshal(m.Data, &r) != nil {
		return r, false
	}
	st := s.byID[r.Step]
	return r, st != nil && st.Status == run.Waiting && st.Hash == r.Hash
}

// Said applies answers that are not in the log yet to a state that is only displayed. The process that
// next carries the flow on records them. events is the number of events before them.
func (s *State) Said(list []run.Message, events int) {
	for _, m := range list {
		if r, about := s.readReply(m); about {
			events++
			s.answered(r.Answer, run.Event{Seq: int64(events), Actor: m.Actor})
			s.spread()
		}
	}
}

// isAnswered reports whether a person has answered, and the waiting flow can continue.
func (c *Carrier) isAnswered() bool {
	if c.state.Status != run.Waiting {
		return false
	}
	list, _ := c.Run.Mail() // the next carrier reports a read error
	return slices.ContainsFunc(list, func(m run.Message) bool {
		_, about := c.state.readReply(m)
		return about
	})
}

// keepDocument writes the answered document, before the event that records it.
func (r *reply) keepDocument(dir string) error {
	if r.Output == nil {
		return nil
	}
	return keepFile(filepath.Join(dir, flowplan.OutputsDir), r.Output.Path, r.Document)
}

// keepReply records an answer that arrived while the flow was carried on, if the question is still the
// same.
func (c *Carrier) keepReply(m run.Message) error {
	var r reply
	if err := json.Unmarshal(m.Data, &r); err != nil {
		return fmt.Errorf("read what %s said: %w", m.Actor, err)
	}
	if err := c.lookAtFiles(); err != nil {
		return err
	}
	st := c.state.byID[r.Step]
	if st == nil || st.Status != run.Waiting || st.Hash != r.Hash || !c.state.canRun(c.state.nodeOf(r.Step)) || c.state.hashTask(c.state.nodeOf(r.Step)) != r.Hash {
		return nil // it is asked again
	}
	if err := r.keepDocument(c.Run.Dir()); err != nil {
		return err
	}
	return c.appendEvent(Answered, m.Actor, r.Answer)
}

// findQuestion finds the question, and checks that its inputs have not changed.
func (p *Person) findQuestion(step string, approval bool) (*State, *StepState, error) {
	s, err := Fold(p.Plan, p.Events)
	if err != nil {
		return nil, nil, err
	}
	st, err := s.question(p.Run.ID, step, approval)
	if err != nil {
		return nil, nil, err
	}
	hash := st.Hash
	if err := s.lookAtFiles(p.Run.Dir()); err != nil {
		return nil, nil, err
	}
	if n := s.nodeOf(st.ID); st.Status != run.Waiting || !s.canRun(n) || s.hashTask(n) != hash {
		return nil, nil, p.changed(st.ID)
	}
	return s, st, nil
}

// question finds the open approval or question.
func (s *State) question(id, step string, approval bool) (*StepState, error) {
	verb, other := "answered", fmt.Sprintf("approve %s %s", id, step)
	if approval { // without a text the name of the step would be the answer
		verb, other = "approved", fmt.Sprintf("answer %s %s 'TEXT'", id, step)
	}
	var list []*StepState
	for _, st := range s.Questions() {
		if s.Approves(st) == approval {
			list = append(list, st)
		} else if step == st.ID {
			return nil, spec.Errorf(spec.ErrUsage, "%s of the run %s is not to be %s", step, id, verb).WithHint("bothy flow %s", other)
		}
	}
	if step == "" && len(list) > 1 {
		return nil, spec.Errorf(spec.ErrUsage, "%d steps of the run %s wait to be %s", len(list), id, verb).WithHint("name one, such as %s", list[0].ID)
	}
	for _, st := range list {
		if step == "" || step == st.ID {
			return st, nil
		}
	}
	if step != "" && s.byID[step] == nil {
		return nil, spec.Errorf(spec.ErrNotFound, "the run %s has no step %s", id, step)
	}
	return nil, spec.Errorf(spec.ErrConflict, "nothing of the run %s waits to be %s", id, verb).WithHint("bothy flow status %s shows how it stands", id)
}
