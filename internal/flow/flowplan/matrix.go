package flowplan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/strictyaml"
	"github.com/bothy-dev/bothy/spec"
)

// Values are the values of a name in a matrix. The flow contains them, or they come from a text input.
// Their number is known when the flow begins, and never changes.
type Values struct {
	Texts []Text
	From  string // FromList, FromCount or FromTurn; empty for Texts
	Input string // the name of that input
}

// Ways in which values come from an input.
const (
	FromList  = "list"  // the comma-separated words: the step runs for each of them
	FromCount = "count" // the numbers from 1 to the input, likewise
	FromTurn  = "turn"  // the words, too, but they take turns over the times that other names make
)

// maxListed is how many values one input may have.
const maxListed = 16

// UnmarshalJSON reads a list, or an object that says how the values come from an input.
func (v *Values) UnmarshalJSON(b []byte) error {
	*v = Values{}
	if !bytes.HasPrefix(bytes.TrimSpace(b), []byte("{")) {
		return json.Unmarshal(b, &v.Texts)
	}
	var from map[string]string
	if err := json.Unmarshal(b, &from); err != nil || len(from) != 1 {
		return errors.New("values are a list, or one of list, count and turn with an input")
	}
	for v.From, v.Input = range from {
	}
	if v.From != FromList && v.From != FromCount && v.From != FromTurn {
		return fmt.Errorf("%q is unknown: write list, count or turn", v.From)
	}
	inner, ok := strings.CutPrefix(strings.TrimSpace(v.Input), "${{")
	inner, closed := strings.CutSuffix(inner, "}}")
	name, input := strings.CutPrefix(strings.TrimSpace(inner), WordInput+".")
	if !ok || !closed || !input || !strictyaml.IsName(name) {
		return fmt.Errorf("%s: %q is not ${{ inputs.NAME }}", v.From, run.Head(v.Input, maxElementID))
	}
	v.Input = name
	return nil
}

// MarshalJSON writes the form that UnmarshalJSON reads.
func (v Values) MarshalJSON() ([]byte, error) {
	if v.From == "" {
		return json.Marshal(v.Texts)
	}
	return json.Marshal(map[string]string{v.From: "${{ " + WordInput + "." + v.Input + " }}"})
}

// standIns returns values in place of an input that is not given yet.
func (v Values) standIns() []string {
	switch v.From {
	case FromCount:
		return []string{"1", "2"}
	case FromTurn:
		return []string{"a"}
	}
	return []string{"a", "b"}
}

// valuesOf returns the values of a name.
func (p *Plan) valuesOf(v Values) (list []string) {
	given, ok := p.Values[v.Input]
	switch {
	case v.From == "":
		for _, text := range v.Texts {
			list = append(list, string(text))
		}
	case !ok:
		return v.standIns()
	case v.From == FromCount:
		n, _ := strconv.Atoi(strings.TrimSpace(given)) // it was checked
		for i := 1; i <= min(n, maxListed); i++ {
			list = append(list, strconv.Itoa(i))
		}
	default:
		for _, word := range strings.FieldsFunc(given, func(r rune) bool { return r == ',' || r == '\n' }) {
			if word = strings.TrimSpace(word); word != "" {
				list = append(list, word)
			}
		}
	}
	return list
}

// matrixTimes returns the values of the matrix for each time; one empty time without a matrix.
func (p *Plan) matrixTimes(s *Step) []map[string]string {
	list := []map[string]string{nil}
	matrix := p.Flow.matrix(s)
	for _, name := range slices.Sorted(maps.Keys(matrix)) {
		if matrix[name].From == FromTurn {
			continue
		}
		var next []map[string]string
		for _, m := range list {
			for _, value := range p.valuesOf(matrix[name]) {
				with := maps.Clone(m)
				if with == nil {
					with = map[string]string{}
				}
				with[name] = value
				next = append(next, with)
			}
		}
		list = next
	}
	for name, v := range matrix {
		if values := p.valuesOf(v); v.From == FromTurn {
			for t, m := range list {
				m[name] = ""
				if len(values) > 0 {
					m[name] = values[t%len(values)]
				}
			}
		}
	}
	return list
}

// checkMatrix checks a step's matrix, as far as the flow alone allows.
func (l *lint) checkMatrix(s *Step) error {
	times, makes := 1, false
	for name, v := range l.flow.matrix(s) {
		in := l.flow.Input(v.Input)
		switch {
		case !strictyaml.IsName(name):
			return fmt.Errorf("matrix: %q is not a name", name)
		case v.From == "" && len(v.Texts) == 0:
			return fmt.Errorf("matrix: %s has no values", name)
		case v.From != "" && (in == nil || in.File != ""):
			return fmt.Errorf("matrix: %s: no text input is called %s", name, v.Input)
		}
		makes = makes || v.From != FromTurn
		if times *= max(1, len(v.Texts)); times > maxMatrix {
			return fmt.Errorf("matrix: it would be done more than %d times", maxMatrix)
		}
	}
	if len(s.Matrix) > 0 && !makes {
		return errors.New("matrix: nothing in it makes times that could take turns: values, a list or a count")
	}
	if l.nodes += times; l.nodes > maxNodes {
		return fmt.Errorf("the flow has more than %d steps, with those of a matrix", maxNodes)
	}
	return nil
}

// checkMatrix checks the matrices that come from inputs.
func (p *Plan) checkMatrix() error {
	for i := range p.Flow.Steps {
		s := &p.Flow.Steps[i]
		times := 1
		for _, name := range slices.Sorted(maps.Keys(s.Matrix)) {
			v := s.Matrix[name]
			if err := p.checkValues(v); err != nil {
				return err
			}
			if v.From != FromTurn {
				times *= len(p.valuesOf(v))
			}
			if times > maxMatrix {
				return spec.Errorf(spec.ErrUsage, "the step %s would be done more than %d times", s.ID, maxMatrix)
			}
		}
		for name, v := range s.Matrix {
			if count := len(p.valuesOf(v)); v.From == FromTurn && count > times {
				return spec.Errorf(spec.ErrUsage, "the step %s is done %d times, and the %d values of %s take turns: not all would have one", s.ID, times, count, name).
					WithHint("give fewer of the input %s, or have it be done more often", v.Input)
			}
		}
	}
	return nil
}

// checkValues checks the values of an input.
func (p *Plan) checkValues(v Values) error {
	if v.From == "" {
		return nil
	}
	given := p.Values[v.Input]
	if v.From == FromCount {
		if n, err := strconv.Atoi(strings.TrimSpace(given)); err != nil || n < 1 || n > maxListed {
			return spec.Errorf(spec.ErrUsage, "the input %s is %q, and not a number from 1 to %d", v.Input, run.Head(given, maxElementID), maxListed)
		}
		return nil
	}
	list := p.valuesOf(v)
	if n := len(list); n > maxListed || n == 0 && v.From == FromList {
		return spec.Errorf(spec.ErrUsage, "the input %s has %d values, and not up to %d", v.Input, n, maxListed).WithHint("they stand between commas")
	}
	for i, value := range list {
		if v.From == FromList && slices.Contains(list[:i], value) {
			return spec.Errorf(spec.ErrUsage, "the input %s has %q twice", v.Input, run.Head(value, maxElementID))
		}
	}
	return nil
}
