package flowplan

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
)

// checkSteps checks the steps of a group. A step that needs the group needs all of them.
func (l *lint) checkSteps(g *Step) error {
	l.group = g
	for i := range g.Steps {
		s := &g.Steps[i]
		if err := l.checkStep(s); err != nil {
			return fmt.Errorf("step %s: %w", cmp.Or(s.ID, fmt.Sprint(i+1)), err)
		}
	}
	l.group = nil
	for i := range g.Steps {
		l.above[g.ID][g.Steps[i].ID] = true
	}
	return nil
}

// checkCopies checks steps that work in copies, and steps that judge them.
func (l *lint) checkCopies(s *Step) error {
	of := l.before[s.Of]
	switch {
	case s.Copy && (s.Prompt == "" || s.Matrix == nil || l.group != nil):
		return errors.New("copy: it is for a prompt with a matrix, in no group")
	case s.Of == "":
		return nil
	case of == nil || !of.Copy:
		return fmt.Errorf("of: %s is not an earlier step that works in copies", s.Of)
	case s.Command == "" || s.Matrix != nil || s.Inputs != nil || l.group != nil:
		return errors.New("of: it is for a command without matrix and inputs, in no group")
	}
	return nil
}

// checkBack requires a step to go back to that leads to this step again.
func (l *lint) checkBack(s *Step) error {
	if s.Back == nil {
		return nil
	}
	to := l.before[s.Back.To]
	switch {
	case to == nil || !l.above[s.ID][to.ID]:
		return fmt.Errorf("back: %s is not a step that it needs", s.Back.To)
	case l.of[to.ID] != l.group:
		return fmt.Errorf("back: %s is not in the same group", to.ID)
	case to.Prompt == "":
		return fmt.Errorf("back: %s is not a prompt, so no agent would learn of the flaws", to.ID)
	case to.Matrix != nil || s.Matrix != nil:
		return errors.New("back: it does not go with a matrix")
	case s.Back.Rounds() < 1 || s.Back.Rounds() > maxBack:
		return fmt.Errorf("back: times: %d is not from 1 to %d", s.Back.Rounds(), maxBack)
	}
	return nil
}

// kindOfGroup requires a list that is an input, and steps, and refuses all other fields.
func (l *lint) kindOfGroup(g *Step) error {
	in := l.flow.Input(g.Each)
	switch only := (Step{ID: g.ID, Needs: g.Needs, Each: g.Each, Steps: g.Steps, Passes: g.Passes, Recheck: g.Recheck}); {
	case l.group != nil:
		return errors.New("a group is in no other group")
	case g.Each == "" || len(g.Steps) == 0 || len(g.Steps) > maxSteps:
		return fmt.Errorf("a group has each, and 1 to %d steps", maxSteps)
	case in == nil || in.File == "" || !in.Required:
		return fmt.Errorf("each: %s is not a required input that is a file", g.Each)
	case !reflect.DeepEqual(*g, only):
		return errors.New("a group has id, needs, each, passes, recheck and steps, and nothing else")
	}
	return nil
}
