package flow

import (
	"path/filepath"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

// Person is who decides or answers, with the right to carry the run on.
type Person struct {
	Plan   *Plan
	Run    *run.Run
	Host   *run.Host
	Events []run.Event
	Name   string
}

// Decide keeps what a person decided about a step that waits for that; about the only
// one if it is not named. What was asked must be what there is now. The flow is gone on
// with by whoever carries it on next.
func (p *Person) Decide(step string, approved bool, why string) (*State, error) {
	s, st, err := p.asked(step, true)
	if err != nil {
		return nil, err
	}
	return s, p.keep(s, Answer{Step: st.ID, Hash: st.Hash, Approved: approved, Text: why})
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
	if err := keepFile(filepath.Join(p.Run.Dir(), OutputsDir), n.Output, document); err != nil {
		return nil, err
	}
	a := &Artefact{Path: n.Output, SHA256: hashOf(document), Size: int64(len(document)), At: time.Now().UTC()}
	return s, p.keep(s, Answer{Step: st.ID, Hash: st.Hash, Approved: true, Output: a, Checks: r.Checks})
}

func (p *Person) keep(s *State, a Answer) error {
	ev, err := p.Host.Append(Answered, p.Name, a)
	if err == nil {
		err = s.Add(ev)
	}
	if err == nil {
		err = writeRecord(p.Run.Dir(), p.Run.ID, s)
	}
	return err
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
	verb, other := "answered", "approve"
	if approval {
		verb, other = "approved", "answer"
	}
	var list []*StepState
	for _, st := range s.Questions() {
		if (s.node(st.ID).Step.Approval != nil) == approval {
			list = append(list, st)
		} else if step == st.ID {
			return nil, spec.Errorf(spec.ErrUsage, "%s of the run %s is not to be %s", step, id, verb).WithHint("bothy flow %s %s %s", other, id, step)
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
