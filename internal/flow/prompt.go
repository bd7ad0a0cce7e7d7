package flow

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/flow/flowplan"
	"github.com/bothy-dev/bothy/internal/run"
)

// place is the path of a try's files inside.
type place string

func (p place) inputPath(name string) string  { return string(p) + "/inputs/" + name }
func (p place) outputPath(name string) string { return string(p) + "/outputs/" + name }

// expandWords replaces words by values, for a node with its files at a place.
func (s *State) expandWords(n *flowplan.Node, text string, at place) (string, error) {
	return flowplan.Expand(text, func(w flowplan.Word) (string, error) {
		switch w.Kind {
		case flowplan.WordSandbox:
			return string(at), nil
		case flowplan.WordMatrix, flowplan.WordEach:
			return n.Values()[w], nil
		case flowplan.WordOutput:
			return strings.Join(s.outputsOf(n, w.Name, at), "\n"), nil
		case flowplan.WordBegan:
			return strings.Join(s.begins(n, w.Name), "\n"), nil
		}
		if in := s.plan.Flow.Input(w.Name); in != nil && in.File != "" {
			return at.inputPath(in.File), nil
		}
		return s.plan.Values[w.Name], nil
	})
}

// prompt returns the prompt of an agent. It contains the flaws of the last try.
func (s *State) prompt(n *flowplan.Node, at place, files []string) (string, error) {
	var b strings.Builder
	text, err := s.expandWords(n, n.Step.Prompt, at)
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
		fmt.Fprintf(&b, "\n# The result\n\nWrite the result to the file %s and end then. It is checked, out of your reach, that:\n\n", at.outputPath(n.Output))
		for _, line := range n.Step.Checks().Describe() {
			b.WriteString("- " + line + "\n")
		}
	}
	if st := s.byID[n.ID]; len(st.Missing) > 0 {
		b.WriteString("\n# What the last try lacked\n\n")
		for _, line := range st.Missing {
			b.WriteString("- " + run.Tail(line, flowplan.MaxMissing) + "\n")
		}
	}
	return b.String(), nil
}
