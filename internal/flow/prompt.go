package flow

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/run"
)

// place is the path of a try's files inside.
type place string

func (p place) input(name string) string  { return string(p) + "/inputs/" + name }
func (p place) output(name string) string { return string(p) + "/outputs/" + name }

// put replaces words by values, for a node with its files at a place.
func (s *State) put(n *Node, text string, at place) (string, error) {
	return Expand(text, func(w Word) (string, error) {
		switch w.Kind {
		case WordSandbox:
			return string(at), nil
		case WordMatrix, WordEach:
			return n.values()[w], nil
		case WordOutput:
			return strings.Join(s.outputsOf(n, w.Name, at), "\n"), nil
		case WordBegan:
			return strings.Join(s.begins(n, w.Name), "\n"), nil
		}
		if in := s.plan.Flow.input(w.Name); in != nil && in.File != "" {
			return at.input(in.File), nil
		}
		return s.plan.Values[w.Name], nil
	})
}

// outputsOf returns the paths of a step's outputs, as another node sees it: one for each of its times
// that has an output.
func (s *State) outputsOf(by *Node, step string, at place) (list []string) {
	for _, n := range s.nodes {
		if n.Step.ID == step && by.sees(n) && s.byID[n.ID].Output != nil {
			list = append(list, at.output(n.Output))
		}
	}
	return list
}

// begins returns when work on a step began, as another node sees it, in seconds since 1970: its first
// try, including tries that were sent back.
func (s *State) begins(by *Node, step string) (list []string) {
	for _, n := range s.nodes {
		if since := s.byID[n.ID].since; n.Step.ID == step && by.sees(n) && !since.IsZero() {
			list = append(list, fmt.Sprintf("%d.%09d", since.Unix(), since.Nanosecond()))
		}
	}
	return list
}

// prompt returns the prompt of an agent. It contains the flaws of the last try.
func (s *State) prompt(n *Node, at place, files []string) (string, error) {
	var b strings.Builder
	text, err := s.put(n, n.Step.Prompt, at)
	if err != nil {
		return "", err
	}
	b.WriteString(strings.TrimSpace(text) + "\n")
	if len(files) > 0 {
		b.WriteString("\n# Files for this\n\n")
		for _, path := range slices.Sorted(slices.Values(files)) {
			fmt.Fprintf(&b, "- %s/%s\n", at, path)
		}
	}
	if n.Output != "" {
		fmt.Fprintf(&b, "\n# What is wanted\n\nWrite the result to the file %s and end then. It is checked, out of your reach, that:\n\n", at.output(n.Output))
		for _, line := range n.Step.checks().Describe() {
			b.WriteString("- " + line + "\n")
		}
	}
	if st := s.byID[n.ID]; len(st.Missing) > 0 {
		b.WriteString("\n# What was missing the last time\n\n")
		for _, line := range st.Missing {
			b.WriteString("- " + run.Tail(line, maxMissing) + "\n")
		}
	}
	return b.String(), nil
}
