package flowplan

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"
)

// checkOutput normalizes the path: without outputs/.
func (l *lint) checkOutput(s *Step) error {
	if s.Output == "" {
		return nil
	}
	s.Output = strings.TrimPrefix(strings.TrimPrefix(s.Output, "${{ sandbox }}/"), "outputs/")
	times := (&Plan{Flow: l.flow}).matrixTimes(s)
	nodes := make([]*Node, len(times))
	for i, m := range times {
		nodes[i] = &Node{Matrix: m}
	}
	if l.group != nil { // check with two elements that have all fields; the real ones are checked later
		nodes = nil
		for i, id := range []string{"a", "b"} {
			e := &Element{ID: id, Values: map[string]string{}}
			for _, name := range fieldsOf(l.group) {
				e.Values[name] = id
			}
			nodes = append(nodes, &Node{Element: e, Number: i + 1})
		}
	}
	for _, n := range nodes {
		if err := l.put.addOutput(s, n.Values()); err != nil {
			return err
		}
	}
	return nil
}

// checkPasses does the same for the list of a group, and checks that no other step writes there.
func (l *lint) checkPasses(s *Step) error {
	switch {
	case s.Each == "" && s.Passes != "":
		return errors.New("passes: it is for a group, of which each names a list")
	case s.Each == "" && s.Recheck:
		return errors.New("recheck: it is for a group, of which each names a list")
	case s.Passes == "":
		return nil
	}
	s.Passes = strings.TrimPrefix(strings.TrimPrefix(s.Passes, "${{ sandbox }}/"), "outputs/")
	if err := l.put.addOutput(s.asPassed(), nil); err != nil {
		return fmt.Errorf("passes: %w", err)
	}
	return nil
}

// asPassed returns a step whose output is the group's list.
func (s *Step) asPassed() *Step { return &Step{ID: s.ID, Output: s.Passes} }

// outputs are the output paths of steps, with the step of each.
type outputs map[string]string

// addOutput adds one time of a step.
func (o outputs) addOutput(s *Step, values map[Word]string) error {
	if s.Output == "" {
		return nil
	}
	out, err := outputOf(s, values)
	if err != nil {
		return fmt.Errorf("output: %w", err)
	}
	for other, of := range o {
		if out == other || strings.HasPrefix(out, other+"/") || strings.HasPrefix(other, out+"/") {
			return fmt.Errorf("output: %s is in the way of %s, which the step %s puts out", out, other, of)
		}
	}
	o[out] = s.ID
	return nil
}

// outputOf returns the output path of one time of a step, below outputs/.
func outputOf(s *Step, values map[Word]string) (string, error) {
	out, err := Expand(s.Output, func(w Word) (string, error) {
		value, varies := values[w]
		if !varies {
			return "", fmt.Errorf("only what varies in the matrix or the group of the step may stand in it, not %s", w)
		}
		return value, nil
	})
	if err != nil {
		return "", err
	}
	if !filepath.IsLocal(out) || path.Clean(out) != out || strings.Count(out, "/") > 8 {
		return "", fmt.Errorf("%q is not a path below outputs/", out)
	}
	for name := range strings.SplitSeq(out, "/") {
		if !IsFileName(name) {
			return "", fmt.Errorf("%q: letters, digits, . - and _ may stand in it", out)
		}
	}
	return out, nil
}
