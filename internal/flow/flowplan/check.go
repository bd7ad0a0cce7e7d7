package flowplan

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/gate"
	"github.com/bothy-dev/bothy/internal/strictyaml"
)

// Check refuses a flow that could not be carried on, and normalizes paths.
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
		if err := l.checkStep(s); err != nil {
			return fmt.Errorf("step %s: %w", cmp.Or(s.ID, fmt.Sprint(i+1)), err)
		}
	}
	if err := l.checkFinal(); err != nil {
		return err
	}
	return l.parallel()
}

func (f *Flow) checkInputs() error {
	if len(f.Inputs) > maxInputs {
		return fmt.Errorf("inputs: more than %d", maxInputs)
	}
	names, files := map[string]bool{}, map[string]bool{}
	for _, in := range f.Inputs {
		switch {
		case !strictyaml.IsName(in.Name):
			return fmt.Errorf("inputs: %q is not a name", in.Name)
		case names[in.Name] || in.File != "" && files[in.File]:
			return fmt.Errorf("inputs: %s is listed twice", in.Name)
		case in.File != "" && !IsFileName(in.File):
			return fmt.Errorf("inputs: %s: %q is not a plain file name", in.Name, in.File)
		case in.File != "" && in.Default != nil:
			return fmt.Errorf("inputs: %s: a file has no default", in.Name)
		case in.Default != nil && len(*in.Default) > MaxValue:
			return fmt.Errorf("inputs: %s: the default is too long", in.Name)
		}
		names[in.Name], files[in.File] = true, true
	}
	return nil
}

// IsFileName accepts a name of one file that means the same everywhere.
func IsFileName(s string) bool {
	if s == "" || len(s) > 100 || s[0] == '.' || s[0] == '-' {
		return false
	}
	for _, c := range []byte(s) {
		if !strictyaml.IsName("x"+string(c)) && c != '.' {
			return false
		}
	}
	return true
}

// Input finds an input by its name.
func (f *Flow) Input(name string) *Input {
	i := slices.IndexFunc(f.Inputs, func(in Input) bool { return in.Name == name })
	if i < 0 {
		return nil
	}
	return &f.Inputs[i]
}

// fileInput finds an input by its file.
func (f *Flow) fileInput(name string) *Input {
	i := slices.IndexFunc(f.Inputs, func(in Input) bool { return in.File == name })
	if i < 0 || name == "" {
		return nil
	}
	return &f.Inputs[i]
}

// lint checks the steps in their order.
type lint struct {
	flow   *Flow
	before map[string]*Step
	above  map[string]map[string]bool // the steps that a step needs, directly or not
	final  string
	nodes  int
	put    outputs
	group  *Step            // the group that is being checked
	of     map[string]*Step // the group of a step that is in one
}

func (l *lint) checkStep(s *Step) error {
	switch {
	case !strictyaml.IsName(s.ID):
		return fmt.Errorf("%q is not a name: a letter, then letters, digits, - and _", s.ID)
	case l.before[s.ID] != nil:
		return errors.New("the name is used twice")
	}
	if err := errors.Join(sharedLog(s, l.before[queries+s.ID]), sharedLog(l.before[strings.TrimPrefix(s.ID, queries)], s)); err != nil {
		return err
	}
	if err := l.checkKind(s); err != nil {
		return err
	}
	if err := l.checkNeeds(s); err != nil {
		return err
	}
	for _, check := range []func(*Step) error{l.checkCopies, l.checkBack, l.checkMatrix, l.checkCondition, l.checkWords, l.checkInputs, l.checkOutput, l.checkPasses} {
		if err := check(s); err != nil {
			return err
		}
	}
	l.before[s.ID] = s
	if l.group != nil {
		l.of[s.ID] = l.group
	}
	if s.Each != "" {
		return l.checkSteps(s)
	}
	return nil
}

// sharedLog refuses an agent's step STEP together with a command's step query-STEP: their logs
// would have the same name.
func sharedLog(of, other *Step) error {
	if of == nil || other == nil || of.Prompt == "" || other.Prompt != "" {
		return nil
	}
	return fmt.Errorf("%s and %s cannot be in one flow: what agents say in a step STEP is kept as %sSTEP", of.ID, other.ID, queries)
}

// checkKind checks that a step does exactly one thing, and that its other fields fit that.
func (l *lint) checkKind(s *Step) error {
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
		return errors.New("a step of a group has no matrix, and is not final")
	case s.Approval != nil && (s.Output != "" || s.Final):
		return errors.New("an approval has needs, if and a message, and nothing else")
	case s.Question != nil && s.Output == "":
		return errors.New("question: the output is missing, a file for the answer")
	case s.Question != nil && s.Back != nil:
		return errors.New("question: it does not fail, so that nothing goes back")
	case s.ForPerson() && (s.Agent+s.Model != "" || s.Env != nil || s.Inputs != nil || s.Retry != nil || s.Timeout != nil || s.Matrix != nil):
		return errors.New("what a person is asked has needs, if and a message, a question an output too, and nothing else")
	case s.ForPerson() && strings.TrimSpace(s.QuestionText()) == "":
		return errors.New("the message is missing")
	case s.Fresh && (s.Command == "" || s.Of != ""):
		return errors.New("fresh: it is for a command, and who judges a copy is that already")
	case s.Command != "" && s.Agent+s.Model != "":
		return errors.New("a command has no agent, and no model")
	case strings.Contains(s.Command, "${{"):
		return errors.New("command: ${{ }} is not put into the text of a command: name it in env, and write \"$NAME\"")
	case s.Retry != nil && (*s.Retry < 0 || *s.Retry > maxRetry):
		return fmt.Errorf("retry: %d is not from 0 to %d", *s.Retry, maxRetry)
	case s.Timeout != nil && *s.Timeout <= 0:
		return fmt.Errorf("timeout: %s is not a positive time: leave it out for the default", time.Duration(*s.Timeout))
	case s.Validate != nil && s.Output == "":
		return errors.New("validate: the step has no output")
	case s.Final && s.Output == "":
		return errors.New("final: the step has no output")
	}
	if s.Validate != nil {
		if err := s.Validate.Valid(); err != nil {
			return fmt.Errorf("validate: %w", err)
		}
	}
	for name := range s.Env {
		if !isVariable(name) {
			return fmt.Errorf("env: %q is not the name of a variable", name)
		}
	}
	return nil
}

func isVariable(name string) bool {
	return strictyaml.IsName(name) && !strings.Contains(name, "-") && !strings.HasPrefix(name, "BOTHY_")
}

func (l *lint) checkNeeds(s *Step) error {
	above := map[string]bool{}
	for _, id := range s.allNeeds() {
		if l.before[id] == nil || l.group != nil && l.group.ID == id {
			among := l.flow.Steps
			if l.group != nil {
				among = l.group.Steps
			}
			if slices.ContainsFunc(among, func(o Step) bool { return o.ID == id }) {
				return fmt.Errorf("needs: %s does not stand before it", id)
			}
			return fmt.Errorf("needs: no step is called %s", id)
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

// checkWord checks a ${{ }} word of a step.
func (l *lint) checkWord(s *Step, w Word) error {
	switch w.Kind {
	case WordInput:
		in := l.flow.Input(w.Name)
		if in == nil {
			return fmt.Errorf("no input is called %s", w.Name)
		}
		if s.Of != "" && in.File != "" {
			return fmt.Errorf("who judges a copy gets no files, as %s is one", w.Name)
		}
	case WordMatrix:
		if _, ok := l.flow.matrix(s)[w.Name]; !ok {
			return fmt.Errorf("the step has no matrix.%s", w.Name)
		}
	case WordEach:
		if l.group == nil {
			return fmt.Errorf("each.%s has no meaning outside of a group", w.Name)
		}
	case WordSandbox:
		if s.Of != "" {
			return errors.New("who judges a copy gets no files")
		}
	case WordBegan:
		if !l.above[s.ID][w.Name] {
			return fmt.Errorf("steps.%s is not a step that it needs", w.Name)
		}
		if of := l.before[w.Name]; of.Prompt == "" && of.Command == "" {
			return fmt.Errorf("the step %s is neither a prompt nor a command", w.Name)
		}
	case WordOutput:
		if s.Of != "" {
			return fmt.Errorf("who judges a copy gets no files, as what %s puts out", w.Name)
		}
		if !l.above[s.ID][w.Name] {
			return fmt.Errorf("steps.%s is not a step that it needs", w.Name)
		}
		if l.before[w.Name].Output == "" {
			return fmt.Errorf("the step %s has no output", w.Name)
		}
	}
	return nil
}

func (l *lint) checkCondition(s *Step) error {
	c, err := parseCond(s.If)
	if err != nil {
		return fmt.Errorf("if: %w", err)
	}
	c.eachPart(func(part *cond) {
		if part.op != "name" || err != nil {
			return
		}
		id, ok := strings.CutPrefix(part.text, "steps.")
		if id, status := strings.CutSuffix(id, ".status"); ok && status {
			if !l.above[s.ID][id] {
				err = fmt.Errorf("if: steps.%s is not a step that it needs", id)
			}
			return
		}
		w, werr := parseWord(part.text)
		if werr == nil && w.Kind != WordInput && w.Kind != WordMatrix && w.Kind != WordEach {
			werr = fmt.Errorf("%s cannot be compared", part.text)
		}
		if werr == nil {
			werr = l.checkWord(s, w)
		}
		if werr != nil {
			err = fmt.Errorf("if: %w", werr)
		}
	})
	return err
}

// checkWords checks the text in ${{ }}.
func (l *lint) checkWords(s *Step) error {
	texts := map[string]string{"prompt": s.Prompt}
	if s.ForPerson() {
		texts["message"] = s.QuestionText()
	}
	for where, text := range map[string]string{"agent": s.Agent, "model": s.Model} {
		_, err := Expand(text, func(w Word) (string, error) {
			if w.Kind != WordMatrix && w.Kind != WordEach && w.Kind != WordInput {
				return "", fmt.Errorf("only an input, and what varies in the matrix or the group of the step, may stand in it, not %s", w)
			}
			err := l.checkWord(s, w)
			if err == nil && w.Kind == WordInput && l.flow.Input(w.Name).File != "" {
				err = fmt.Errorf("the input %s is a file", w.Name)
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
		_, err := Expand(texts[where], func(w Word) (string, error) {
			err := l.checkWord(s, w)
			switch {
			case err != nil:
			case !s.ForPerson():
				err = l.checkGiven(s, w)
			case w.Kind == WordSandbox:
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

// checkGiven refuses the path of a file that would be missing where the step runs. A person can find all
// files.
func (l *lint) checkGiven(s *Step, w Word) error {
	given := slices.Clone(s.allNeeds())
	if l.group != nil {
		given = append(given, l.group.allNeeds()...)
	}
	if s.Inputs != nil {
		given = nil
		for _, in := range *s.Inputs {
			src, _ := l.flow.source(s, in, func(string) error { return nil }) // inputs reports its flaws
			given = append(given, src.step, InputsDir+"/"+src.file)
		}
	}
	from := w.Name
	if of := l.of[w.Name]; of != nil && of != l.group { // a step that needs a group gets all the group's outputs
		from = of.ID
	}
	switch {
	case w.Kind == WordOutput && !slices.Contains(given, w.Name) && !slices.Contains(given, from):
		return fmt.Errorf("what %s puts out is not among the files that the step gets: name it in needs, or in inputs if there are any", w.Name)
	case w.Kind == WordInput && s.Inputs != nil:
		if file := l.flow.Input(w.Name).File; file != "" && !slices.Contains(given, InputsDir+"/"+file) {
			return fmt.Errorf("the file %s is not among inputs, the files that the step gets", w.Name)
		}
	}
	return nil
}

// checkInputs checks which files the step gets.
func (l *lint) checkInputs(s *Step) error {
	if s.Inputs == nil {
		return nil
	}
	for _, in := range *s.Inputs {
		if _, err := l.flow.source(s, in, func(id string) error { return l.checkWord(s, Word{WordOutput, id}) }); err != nil {
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
		if err == nil && w.Kind == WordInput {
			i := f.Input(w.Name)
			if i == nil || i.File == "" {
				return source{}, fmt.Errorf("no file of the inputs is called %s", w.Name)
			}
			return source{file: i.File}, nil
		}
		if err == nil && w.Kind != WordOutput {
			err = fmt.Errorf("%s is not a file", in)
		}
		if err == nil {
			err = step(w.Name)
		}
		return source{step: w.Name}, err
	}
	if name, ok := strings.CutPrefix(text, "inputs/"); ok {
		if f.fileInput(name) == nil {
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

// checkFinal checks the steps together.
func (l *lint) checkFinal() error {
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

// Checks returns the checks for the step's output.
func (s *Step) Checks() *gate.Checks {
	if s.Validate == nil {
		return &gate.Checks{}
	}
	return s.Validate
}
