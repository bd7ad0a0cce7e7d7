package flow

import (
	"fmt"
	"strings"

	"github.com/bothy-dev/bothy/internal/strictyaml"
)

// expand replaces ${{ name }} by values. A value is data: words in it are not expanded.
func expand(text string, value func(name string) (string, error)) (string, error) {
	var b strings.Builder
	for rest := text; ; {
		before, after, found := strings.Cut(rest, "${{")
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		name, behind, closed := strings.Cut(after, "}}")
		if !closed {
			return "", fmt.Errorf("${{ without }}")
		}
		v, err := value(strings.TrimSpace(name))
		if err != nil {
			return "", err
		}
		b.WriteString(v)
		rest = behind
	}
}

// word is a name of ${{ }}, split into its parts.
type word struct{ kind, name string }

// Kinds of words.
const (
	wordInput   = "inputs" // inputs.NAME
	wordOutput  = "steps"  // steps.ID.output
	wordBegan   = "began"  // steps.ID.began: when work on it began
	wordMatrix  = "matrix" // matrix.NAME
	wordEach    = "each"   // each.NAME, a field of an element
	wordSandbox = "sandbox"
)

func parseWord(name string) (word, error) {
	if name == wordSandbox {
		return word{kind: wordSandbox}, nil
	}
	kind, rest, _ := strings.Cut(name, ".")
	switch {
	case kind == wordInput || kind == wordMatrix || kind == wordEach:
		if strictyaml.IsName(rest) {
			return word{kind, rest}, nil
		}
	case kind == wordOutput:
		if id, ok := strings.CutSuffix(rest, ".output"); ok && strictyaml.IsName(id) {
			return word{kind, id}, nil
		}
		if id, ok := strings.CutSuffix(rest, ".began"); ok && strictyaml.IsName(id) {
			return word{wordBegan, id}, nil
		}
	}
	return word{}, fmt.Errorf("${{ %s }} means nothing: there are inputs.NAME, steps.ID.output, steps.ID.began, matrix.NAME, each.NAME and sandbox", name)
}
