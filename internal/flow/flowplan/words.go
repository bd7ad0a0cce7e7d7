package flowplan

import (
	"fmt"
	"strings"

	"github.com/bothy-dev/bothy/internal/strictyaml"
)

// MaxMissing bounds the text about one flaw, in bytes.
const MaxMissing = 2 << 10

// Expand replaces ${{ word }} by values. A value is data: words in it are not expanded. An unknown word
// is an error.
func Expand(text string, value func(Word) (string, error)) (string, error) {
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
		w, err := parseWord(strings.TrimSpace(name))
		if err != nil {
			return "", err
		}
		v, err := value(w)
		if err != nil {
			return "", err
		}
		b.WriteString(v)
		rest = behind
	}
}

// Word is a name of ${{ }}, split into its parts. Kind is one of WordInput and the others.
type Word struct{ Kind, Name string }

// Kinds of words.
const (
	WordInput   = "inputs" // inputs.NAME
	WordOutput  = "steps"  // steps.ID.output
	WordBegan   = "began"  // steps.ID.began: when work on it began
	WordMatrix  = "matrix" // matrix.NAME
	WordEach    = "each"   // each.NAME, a field of an element
	WordSandbox = "sandbox"
)

// String returns the word as it is written between the braces.
func (w Word) String() string {
	switch w.Kind {
	case WordSandbox:
		return w.Kind
	case WordOutput:
		return "steps." + w.Name + ".output"
	case WordBegan:
		return "steps." + w.Name + ".began"
	}
	return w.Kind + "." + w.Name
}

func parseWord(name string) (Word, error) {
	if name == WordSandbox {
		return Word{Kind: WordSandbox}, nil
	}
	kind, rest, _ := strings.Cut(name, ".")
	switch {
	case kind == WordInput || kind == WordMatrix || kind == WordEach:
		if strictyaml.IsName(rest) {
			return Word{kind, rest}, nil
		}
	case kind == WordOutput:
		if id, ok := strings.CutSuffix(rest, ".output"); ok && strictyaml.IsName(id) {
			return Word{kind, id}, nil
		}
		if id, ok := strings.CutSuffix(rest, ".began"); ok && strictyaml.IsName(id) {
			return Word{WordBegan, id}, nil
		}
	}
	return Word{}, fmt.Errorf("${{ %s }} means nothing: there are inputs.NAME, steps.ID.output, steps.ID.began, matrix.NAME, each.NAME and sandbox", name)
}
