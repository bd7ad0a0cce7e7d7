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

	"github.com/bothy-dev/bothy/internal/gate"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

// Person is who decides or answers.
type Person struct {
	Plan *Plan
	Run  *run.Run
	// Host is the right to carry the run on. It is nil if another process has that: what is
	// said is left for that one then, see [Person.Heard].
	Host   *run.Host
	Events []run.Event
	Name   string

	said reply
	left run.Message // it, if there is no Host
}

// reply is what a person says to a flow that another process carries on.
type reply struct {
	Answer
	Document []byte `json:"document,omitempty"` // of a question
}

// Decide keeps what a person decided about a step that waits for that; about the only
// one if it is not named. What was asked must be what there is now. The flow is gone on
// with by whoever carries it on next.
func (p *Person) Decide(step string, approved bool, why string) (*State, error) {
	s, st, err := p.asked(step, true)
	if err != nil {
		return nil, err
	}
	return s, p.keep(s, reply{Answer: Answer{Step: st.ID, Hash: st.Hash, Approved: approved, Text: why}})
}

// Answer keeps what a person answered, if it passes the checks of the step.
func (p *Person) Answer(step, text string) (*State, error) {
	s, st, err := p.asked(step, false)
	if err != nil {
		return nil, err
	}
	n, document := s.node(st.ID), []byte(text)
	r := n.Step.checks().Judge(document)
	if !r.Passed {
		return nil, spec.Errorf(spec.ErrUsage, "that is no answer to %s: %s", st.ID, strings.Join(r.Flaws(), "; "))
	}
	return s, p.keep(s, reply{n.answer(st.Hash, document, r.Checks), document})
}

// answer is what a person answered to a question.
func (n *Node) answer(hash string, document []byte, checks []gate.Check) Answer {
	a := &Artefact{Path: n.Output, SHA256: hashOf(document), Size: int64(len(document)), At: time.Now().UTC()}
	return Answer{Step: n.ID, Hash: hash, Approved: true, Output: a, Checks: checks}
}

func (p *Person) keep(s *State, r reply) error {
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

// Left tells whether what was said waits to be heard by who carries the run on, or was.
func (p *Person) Left() bool { return p.left.ID != "" }

// Heard tells whether that one has heard it. The error is ErrConflict if it decided nothing.
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
		if ev.Actor == p.Name && a.same(p.said.Answer) {
			return true, nil
		}
		other = a.verb() + " by " + ev.Actor
	}
	if other == "" {
		return true, p.changed(p.said.Step)
	}
	return true, spec.Errorf(spec.ErrConflict, "%s of the run %s was %s first", p.said.Step, p.Run.ID, other).WithHint("bothy flow status %s shows how it stands", p.Run.ID)
}

// TakeBack has nobody hear any more what was left.
func (p *Person) TakeBack() error {
	if !p.Left() {
		return nil
	}
	if err := p.Run.Take(p.left); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// same tells whether two answers say the same.
func (a *Answer) same(b Answer) bool {
	if a.Approved != b.Approved || a.Text != b.Text || (a.Output == nil) != (b.Output == nil) {
		return false
	}
	return a.Output == nil || a.Output.SHA256 == b.Output.SHA256
}

// verb is what was done by an answer.
func (a *Answer) verb() string {
	switch {
	case a.Output != nil:
		return "answered"
	case a.Approved:
		return "approved"
	}
	return "rejected"
}

// changed says that there is something else now than what was asked about.
func (p *Person) changed(step string) error {
	return spec.Errorf(spec.ErrConflict, "what %s of the run %s asks about has changed since", step, p.Run.ID).
		WithHint("bothy flow resume %s does again what must be, and asks again", p.Run.ID)
}

// heeds gives what a message says about something that is asked.
func (s *State) heeds(m run.Message) (r reply, about bool) {
	if m.Kind != run.Reply || json.Unmarshal(m.Data, &r) != nil {
		return r, false
	}
	st := s.byID[r.Step]
	return r, st != nil && st.Status == Waiting && st.Hash == r.Hash
}

// Said has a state that is only looked at count what people have said, and nobody has kept yet:
// whoever carries the flow on next does. That comes after so many events.
func (s *State) Said(list []run.Message, events int) {
	for _, m := range list {
		if r, about := s.heeds(m); about {
			events++
			s.answered(r.Answer, run.Event{Seq: int64(events), Actor: m.Actor})
			s.spread()
		}
	}
}

// heeded tells whether a person has answered, and the flow waits for nothing else to be gone
// on with.
func (c *Carrier) heeded() bool {
	if c.state.Status != Waiting {
		return false
	}
	list, _ := c.Run.Mail() // if it cannot be read, who goes on says so
	return slices.ContainsFunc(list, func(m run.Message) bool {
		_, about := c.state.heeds(m)
		return about
	})
}

// keepDocument keeps what was answered, before the event that says so.
func (r *reply) keepDocument(dir string) error {
	if r.Output == nil {
		return nil
	}
	return keepFile(filepath.Join(dir, OutputsDir), r.Output.Path, r.Document)
}

// reply keeps what a person said while the flow was carried on, if it is still about what
// there is.
func (c *Carrier) reply(m run.Message) error {
	var r reply
	if err := json.Unmarshal(m.Data, &r); err != nil {
		return fmt.Errorf("read what %s said: %w", m.Actor, err)
	}
	if err := c.look(); err != nil {
		return err
	}
	st := c.state.byID[r.Step]
	if st == nil || st.Status != Waiting || st.Hash != r.Hash || !c.state.can(c.state.node(r.Step)) || c.state.hash(c.state.node(r.Step)) != r.Hash {
		return nil // it is asked again
	}
	if err := r.keepDocument(c.Run.Dir()); err != nil {
		return err
	}
	return c.append(Answered, m.Actor, r.Answer)
}

// asked finds what is asked, and sees that it is about what there is now.
func (p *Person) asked(step string, approval bool) (*State, *StepState, error) {
	s, err := Fold(p.Plan, p.Events)
	if err != nil {
		return nil, nil, err
	}
	st, err := s.question(p.Run.ID, step, approval)
	if err != nil {
		return nil, nil, err
	}
	hash := st.Hash
	if err := s.see(p.Run.Dir()); err != nil {
		return nil, nil, err
	}
	if n := s.node(st.ID); st.Status != Waiting || !s.can(n) || s.hash(n) != hash {
		return nil, nil, p.changed(st.ID)
	}
	return s, st, nil
}

// question finds what is asked: an approval, or a question.
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
