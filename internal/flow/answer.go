package flow

import (
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

// Decide keeps what a person decided about a step that waits for that; about the only
// one if it is not named. What was asked must be what there is now. The flow is gone on
// with by whoever carries it on next.
func Decide(p *Plan, r *run.Run, h *run.Host, events []run.Event, step string, approved bool, text, actor string) (*State, error) {
	s, err := Fold(p, events)
	if err != nil {
		return nil, err
	}
	st, err := s.question(r.ID, step)
	if err != nil {
		return nil, err
	}
	seen, err := Look(r.Dir(), s)
	if err != nil {
		return nil, err
	}
	now := *st
	s.found(seen)
	n := s.node(st.ID)
	if !s.can(n) || s.hash(n) != now.Hash {
		return nil, spec.Errorf(spec.ErrConflict, "what %s of the run %s asks about has changed since", st.ID, r.ID).
			WithHint("bothy flow resume %s does again what must be, and asks again", r.ID)
	}
	ev, err := h.Append(Answered, actor, Answer{Step: st.ID, Hash: now.Hash, Approved: approved, Text: text})
	if err == nil {
		err = s.Add(ev)
	}
	if err == nil {
		err = writeRecord(r.Dir(), r.ID, s)
	}
	return s, err
}

// question finds what is asked.
func (s *State) question(id, step string) (*StepState, error) {
	list := s.Questions()
	if step == "" && len(list) > 1 {
		return nil, spec.Errorf(spec.ErrUsage, "%d steps of the run %s wait for you", len(list), id).WithHint("name one: bothy flow approve %s %s", id, list[0].ID)
	}
	for _, st := range list {
		if step == "" || step == st.ID {
			return st, nil
		}
	}
	if step != "" && s.byID[step] == nil {
		return nil, spec.Errorf(spec.ErrNotFound, "the run %s has no step %s", id, step)
	}
	return nil, spec.Errorf(spec.ErrConflict, "nothing of the run %s waits to be approved", id).WithHint("bothy flow status %s shows how it stands", id)
}
