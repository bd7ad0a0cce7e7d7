package flow

import (
	"encoding/json"
	"fmt"
	"path/filepath"
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
	// said is left for that one then.
	Host   *run.Host
	Events []run.Event
	Name   string
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
	if p.Host == nil {
		data, err := json.Marshal(r)
		if err != nil {
			return err
		}
		return p.Run.Leave(run.Message{Kind: run.Reply, Actor: p.Name, Data: data})
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
	seen, err := Look(p.Run.Dir(), s)
	if err != nil {
		return nil, nil, err
	}
	hash := st.Hash
	s.found(seen)
	s.spread()
	if n := s.node(st.ID); st.Status != Waiting || !s.can(n) || s.hash(n) != hash {
		return nil, nil, spec.Errorf(spec.ErrConflict, "what %s of the run %s asks about has changed since", st.ID, p.Run.ID).
			WithHint("bothy flow resume %s does again what must be, and asks again", p.Run.ID)
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
