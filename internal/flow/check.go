package flow

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/gate"
)

// Check refuses a flow that could not be carried on, and writes paths in one way.
func (f *Flow) Check() error {
	if strings.TrimSpace(f.Name) == "" || len(f.Name) > 100 {
		return errors.New("name: a short name is missing")
	}
	if len(f.Steps) == 0 || len(f.Steps) > maxSteps {
		return fmt.Errorf("steps: there are %d, of 1 to %d", len(f.Steps), maxSteps)
	}
	if err := f.checkInputs(); err != nil {
		return err
	}
	l := &lint{flow: f, before: map[string]*Step{}, above: map[string]map[string]bool{}, of: map[string]*Step{}, put: outputs{}}
	for i := range f.Steps {
		s := &f.Steps[i]
		if err := l.step(s); err != nil {
			return fmt.Errorf("step %s: %w", cmp.Or(s.ID, fmt.Sprint(i+1)), err)
		}
	}
	return l.whole()
}

func (f *Flow) checkInputs() error {
	if len(f.Inputs) > maxInputs {
		return fmt.Errorf("inputs: more than %d", maxInputs)
	}
	names, files := map[string]bool{}, map[string]bool{}
	for _, in := range f.Inputs {
		switch {
		case !isName(in.Name):
			return fmt.Errorf("inputs: %q is no name", in.Name)
		case names[in.Name] || in.File != "" && files[in.File]:
			return fmt.Errorf("inputs: %s stands there twice", in.Name)
		case in.File != "" && !IsFileName(in.File):
			return fmt.Errorf("inputs: %s: %q is no plain file name", in.Name, in.File)
		case in.File != "" && in.Default != nil:
			return fmt.Errorf("inputs: %s: a file has no default", in.Name)
		case in.Default != nil && len(*in.Default) > MaxValue:
			return fmt.Errorf("inputs: %s: the default is too long", in.Name)
		}
		names[in.Name], files[in.File] = true, true
	}
	return nil
}

// IsFileName admits a name of one file, that means the same everywhere.
func IsFileName(s string) bool {
	if s == "" || len(s) > 100 || s[0] == '.' || s[0] == '-' {
		return false
	}
	for _, c := range []byte(s) {
		if !isName("x"+string(c)) && c != '.' {
			return false
		}
	}
	return true
}

// input finds one by its name.
func (f *Flow) input(name string) *Input {
	i := slices.IndexFunc(f.Inputs, func(in Input) bool { return in.Name == name })
	if i < 0 {
		return nil
	}
	return &f.Inputs[i]
}

// file finds one by its file.
func (f *Flow) file(name string) *Input {
	i := slices.IndexFunc(f.Inputs, func(in Input) bool { return in.File == name })
	if i < 0 || name == "" {
		return nil
	}
	return &f.Inputs[i]
}

// lint looks at the steps in their order.
type lint struct {
	flow   *Flow
	before map[string]*Step
	above  map[string]map[string]bool // what a step needs, and what that needs
	final  string
	nodes  int
	put    outputs
	group  *Step            // the one whose steps are looked at
	of     map[string]*Step // the group of a step that is in one
}

func (l *lint) step(s *Step) error {
	switch {
	case !isName(s.ID):
		return fmt.Errorf("%q is no name: a letter, then letters, digits, - and _", s.ID)
	case l.before[s.ID] != nil:
		return errors.New("the name is used twice")
	}
	if err := l.kind(s); err != nil {
		return err
	}
	if err := l.needs(s); err != nil {
		return err
	}
	for _, check := range []func(*Step) error{l.copies, l.back, l.matrix, l.condition, l.words, l.inputs, l.output} {
		if err := check(s); err != nil {
			return err
		}
	}
	l.before[s.ID] = s
	if l.group != nil {
		l.of[s.ID] = l.group
	}
	if s.Each != "" {
		return l.steps(s)
	}
	return nil
}

// steps looks at those of a group. What needs the group needs them.
func (l *lint) steps(g *Step) error {
	l.group = g
	for i := range g.Steps {
		s := &g.Steps[i]
		if err := l.step(s); err != nil {
			return fmt.Errorf("step %s: %w", cmp.Or(s.ID, fmt.Sprint(i+1)), err)
		}
	}
	l.group = nil
	for i := range g.Steps {
		l.above[g.ID][g.Steps[i].ID] = true
	}
	return nil
}

// copies judges who works in copies, and who judges them.
func (l *lint) copies(s *Step) error {
	of := l.before[s.Of]
	switch {
	case s.Copy && (s.Prompt == "" || s.Matrix == nil || l.group != nil):
		return errors.New("copy: it is for a prompt with a matrix, in no group")
	case s.Of == "":
		return nil
	case of == nil || !of.Copy:
		return fmt.Errorf("of: %s is no step before it that works in copies", s.Of)
	case s.Command == "" || s.Matrix != nil || s.Inputs != nil || l.group != nil:
		return errors.New("of: it is for a command without matrix and inputs, in no group")
	}
	return nil
}

// back wants a place to go back to from which the step is reached again.
func (l *lint) back(s *Step) error {
	if s.Back == nil {
		return nil
	}
	to := l.before[s.Back.To]
	switch {
	case to == nil || !l.above[s.ID][to.ID]:
		return fmt.Errorf("back: %s is not among what it needs", s.Back.To)
	case l.of[to.ID] != l.group:
		return fmt.Errorf("back: %s is not in the same group", to.ID)
	case to.Prompt == "":
		return fmt.Errorf("back: %s is no prompt: nobody there could be told what was wrong", to.ID)
	case to.Matrix != nil || s.Matrix != nil:
		return errors.New("back: it does not go with a matrix")
	case s.Back.times() < 1 || s.Back.times() > maxBack:
		return fmt.Errorf("back: times: %d is not from 1 to %d", s.Back.times(), maxBack)
	}
	return nil
}

// kind wants one thing to do, and what fits it.
func (l *lint) kind(s *Step) error {
	n := 0
	for _, given := range []bool{s.Prompt != "", s.Command != "", s.Approval != nil, s.Question != nil, s.Each != "" || s.Steps != nil} {
		if given {
			n++
		}
	}
	switch {
	case n != 1:
		return errors.New("it needs one of prompt, command, approval, question, and each with steps")
	case s.Each != "" || s.Steps != nil:
		return l.kindOfGroup(s)
	case l.group != nil && (s.Matrix != nil || s.Final):
		return errors.New("in a group there is no matrix, and nothing final")
	case s.Approval != nil && (s.Output != "" || s.Final):
		return errors.New("an approval has needs, if and a message, and nothing else")
	case s.Question != nil && s.Output == "":
		return errors.New("question: the output is missing, a file for what is answered")
	case s.Question != nil && s.Back != nil:
		return errors.New("question: it does not fail, so that nothing goes back")
	case s.forPerson() && (s.Agent+s.Model != "" || s.Env != nil || s.Inputs != nil || s.Retry != nil || s.Timeout != 0 || s.Matrix != nil):
		return errors.New("what a person is asked has needs, if and a message, a question an output too, and nothing else")
	case s.forPerson() && strings.TrimSpace(s.asks()) == "":
		return errors.New("the message is missing")
	case s.Command != "" && s.Agent+s.Model != "":
		return errors.New("a command has no agent, and no model")
	case strings.Contains(s.Command, "${{"):
		return errors.New("command: ${{ }} is not put into the text of a command: name it in env, and write \"$NAME\"")
	case s.Retry != nil && (*s.Retry < 0 || *s.Retry > maxRetry):
		return fmt.Errorf("retry: %d is not from 0 to %d", *s.Retry, maxRetry)
	case s.Timeout < 0:
		return errors.New("timeout: it is negative")
	case s.Validate != nil && s.Output == "":
		return errors.New("validate: there is no output to validate")
	case s.Final && s.Output == "":
		return errors.New("final: there is no output")
	}
	if s.Validate != nil {
		if err := s.Validate.Valid(); err != nil {
			return fmt.Errorf("validate: %w", err)
		}
	}
	for name := range s.Env {
		if !isVariable(name) {
			return fmt.Errorf("env: %q is no name of a variable", name)
		}
	}
	return nil
}

// kindOfGroup wants a list that is given, steps, and nothing else.
func (l *lint) kindOfGroup(g *Step) error {
	in := l.flow.input(g.Each)
	switch only := (Step{ID: g.ID, Needs: g.Needs, Each: g.Each, Steps: g.Steps}); {
	case l.group != nil:
		return errors.New("a group is in no other group")
	case g.Each == "" || len(g.Steps) == 0 || len(g.Steps) > maxSteps:
		return fmt.Errorf("a group has each, and 1 to %d steps", maxSteps)
	case in == nil || in.File == "" || !in.Required:
		return fmt.Errorf("each: %s is no input that is a file, and required", g.Each)
	case !reflect.DeepEqual(*g, only):
		return errors.New("a group has id, needs, each and steps, and nothing else")
	}
	return nil
}

func isVariable(name string) bool {
	return isName(name) && !strings.Contains(name, "-") && !strings.HasPrefix(name, "BOTHY_")
}

func (l *lint) needs(s *Step) error {
	above := map[string]bool{}
	for _, id := range s.needs() {
		if l.before[id] == nil || l.group != nil && l.group.ID == id {
			among := l.flow.Steps
			if l.group != nil {
				among = l.group.Steps
			}
			if slices.ContainsFunc(among, func(o Step) bool { return o.ID == id }) {
				return fmt.Errorf("needs: %s does not stand before it", id)
			}
			return fmt.Errorf("needs: there is no step %s", id)
		}
		if l.of[id] != l.group {
			return fmt.Errorf("needs: %s is not in the same group: groups need groups, and steps without one", id)
		}
		above[id] = true
		maps.Copy(above, l.above[id])
	}
	if l.group != nil {
		maps.Copy(above, l.above[l.group.ID])
	}
	l.above[s.ID] = above
	return nil
}

func (l *lint) matrix(s *Step) error {
	times := 1
	for name, values := range l.flow.matrix(s) {
		if !isName(name) {
			return fmt.Errorf("matrix: %q is no name", name)
		}
		if len(values) == 0 {
			return fmt.Errorf("matrix: %s has no values", name)
		}
		if times *= len(values); times > maxMatrix {
			return fmt.Errorf("matrix: it would be done more than %d times", maxMatrix)
		}
	}
	if l.nodes += times; l.nodes > maxNodes {
		return fmt.Errorf("the flow has more than %d steps, with those of a matrix", maxNodes)
	}
	return nil
}

// known judges a word that stands in a step.
func (l *lint) known(s *Step, w word) error {
	switch w.kind {
	case wordInput:
		in := l.flow.input(w.name)
		if in == nil {
			return fmt.Errorf("there is no input %s", w.name)
		}
		if s.Of != "" && in.File != "" {
			return fmt.Errorf("who judges a copy gets no files, as %s is one", w.name)
		}
	case wordMatrix:
		if l.flow.matrix(s)[w.name] == nil {
			return fmt.Errorf("there is no matrix.%s", w.name)
		}
	case wordEach:
		if l.group == nil {
			return fmt.Errorf("there is no each.%s outside of a group", w.name)
		}
	case wordSandbox:
		if s.Of != "" {
			return errors.New("who judges a copy gets no files")
		}
	case wordOutput:
		if s.Of != "" {
			return fmt.Errorf("who judges a copy gets no files, as what %s puts out", w.name)
		}
		if !l.above[s.ID][w.name] {
			return fmt.Errorf("steps.%s is not among what it needs", w.name)
		}
		if l.before[w.name].Output == "" {
			return fmt.Errorf("the step %s has no output", w.name)
		}
	}
	return nil
}

func (l *lint) condition(s *Step) error {
	c, err := parseCond(s.If)
	if err != nil {
		return fmt.Errorf("if: %w", err)
	}
	c.walk(func(part *cond) {
		if part.op != "name" || err != nil {
			return
		}
		id, ok := strings.CutPrefix(part.text, "steps.")
		if id, status := strings.CutSuffix(id, ".status"); ok && status {
			if !l.above[s.ID][id] {
				err = fmt.Errorf("if: steps.%s is not among what it needs", id)
			}
			return
		}
		w, werr := parseWord(part.text)
		if werr == nil && w.kind != wordInput && w.kind != wordMatrix && w.kind != wordEach {
			werr = fmt.Errorf("%s cannot be compared", part.text)
		}
		if werr == nil {
			werr = l.known(s, w)
		}
		if werr != nil {
			err = fmt.Errorf("if: %w", werr)
		}
	})
	return err
}

// words judges what stands in ${{ }}.
func (l *lint) words(s *Step) error {
	texts := map[string]string{"prompt": s.Prompt}
	if s.forPerson() {
		texts["message"] = s.asks()
	}
	for where, text := range map[string]string{"agent": s.Agent, "model": s.Model} {
		_, err := expand(text, func(name string) (string, error) {
			w, err := parseWord(name)
			if err == nil && w.kind != wordMatrix && w.kind != wordEach {
				err = fmt.Errorf("only what varies in the matrix or the group of the step may stand in it, not %s", name)
			}
			if err == nil {
				err = l.known(s, w)
			}
			return "", err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
	}
	for name, value := range s.Env {
		texts["env: "+name] = string(value)
	}
	for _, where := range slices.Sorted(maps.Keys(texts)) {
		_, err := expand(texts[where], func(name string) (string, error) {
			w, err := parseWord(name)
			if err == nil {
				err = l.known(s, w)
			}
			if err == nil && s.forPerson() && w.kind == wordSandbox {
				err = errors.New("a person has no sandbox")
			}
			return "", err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
	}
	return nil
}

// inputs judges which files it gets.
func (l *lint) inputs(s *Step) error {
	if s.Inputs == nil {
		return nil
	}
	for _, in := range *s.Inputs {
		if _, err := l.flow.source(s, in, func(id string) error { return l.known(s, word{wordOutput, id}) }); err != nil {
			return fmt.Errorf("inputs: %w", err)
		}
	}
	return nil
}

// source reads an entry of inputs: the name of a file of inputs/, or a step.
type source struct{ file, step string }

func (f *Flow) source(s *Step, in string, step func(id string) error) (source, error) {
	text := strings.TrimPrefix(strings.TrimSpace(in), "${{ sandbox }}/")
	if inner, ok := strings.CutPrefix(text, "${{"); ok {
		w, err := parseWord(strings.TrimSpace(strings.TrimSuffix(inner, "}}")))
		if err == nil && w.kind == wordInput {
			i := f.input(w.name)
			if i == nil || i.File == "" {
				return source{}, fmt.Errorf("there is no file among the inputs that is called %s", w.name)
			}
			return source{file: i.File}, nil
		}
		if err == nil && w.kind != wordOutput {
			err = fmt.Errorf("%s is no file", in)
		}
		if err == nil {
			err = step(w.name)
		}
		return source{step: w.name}, err
	}
	if name, ok := strings.CutPrefix(text, "inputs/"); ok {
		if f.file(name) == nil {
			return source{}, fmt.Errorf("%s is not among the inputs of the flow", text)
		}
		return source{file: name}, nil
	}
	if name, ok := strings.CutPrefix(text, "outputs/"); ok {
		for i := range f.Steps {
			if of := &f.Steps[i]; of.Output == name && of.ID != s.ID {
				return source{step: of.ID}, step(of.ID)
			}
		}
	}
	return source{}, fmt.Errorf("%s is neither inputs/NAME nor ${{ steps.ID.output }}", in)
}

// output writes the path in one way: without outputs/.
func (l *lint) output(s *Step) error {
	if s.Output == "" {
		return nil
	}
	s.Output = strings.TrimPrefix(strings.TrimPrefix(s.Output, "${{ sandbox }}/"), "outputs/")
	times := l.flow.times(s)
	nodes := make([]*Node, len(times))
	for i, m := range times {
		nodes[i] = &Node{Matrix: m}
	}
	if l.group != nil { // two elements that have all there is; the true ones are seen later
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
		if err := l.put.add(s, n.values()); err != nil {
			return err
		}
	}
	return nil
}

// outputs are the paths that steps put out, and whose they are.
type outputs map[string]string

// add adds one time of a step.
func (o outputs) add(s *Step, values map[word]string) error {
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

// outputOf is the path of one time of a step, below outputs/.
func outputOf(s *Step, values map[word]string) (string, error) {
	out, err := expand(s.Output, func(name string) (string, error) {
		w, err := parseWord(name)
		value, varies := values[w]
		if err == nil && !varies {
			err = fmt.Errorf("only what varies in the matrix or the group of the step may stand in it, not %s", name)
		}
		return value, err
	})
	if err != nil {
		return "", err
	}
	if !filepath.IsLocal(out) || path.Clean(out) != out || strings.Count(out, "/") > 8 {
		return "", fmt.Errorf("%q is no path below outputs/", out)
	}
	for name := range strings.SplitSeq(out, "/") {
		if !IsFileName(name) {
			return "", fmt.Errorf("%q: letters, digits, . - and _ may stand in it", out)
		}
	}
	return out, nil
}

// whole judges the steps together.
func (l *lint) whole() error {
	for i := range l.flow.Steps {
		s := &l.flow.Steps[i]
		if !s.Final {
			continue
		}
		if l.final != "" {
			return fmt.Errorf("steps %s and %s are both final", l.final, s.ID)
		}
		l.final = s.ID
	}
	return nil
}

// checks are those of the step's output.
func (s *Step) checks() *gate.Checks {
	if s.Validate == nil {
		return &gate.Checks{}
	}
	return s.Validate
}
