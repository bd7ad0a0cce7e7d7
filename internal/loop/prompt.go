package loop

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/bothy-dev/bothy/spec"
)

// DefaultTemplate is what an agent is told. Its last line is no promise: who only
// repeats it has promised nothing.
const DefaultTemplate = `This is iteration {{iteration}} of at most {{max_iterations}}. You begin with a fresh memory: what
earlier iterations did is in the files.

# Task

{{prompt}}

{{context}}{{gates}}# When it is done

Your work is checked on a copy of the files that you cannot reach, by:

{{checks}}
When all of the task is truly done, and these would succeed, end your last message
with the line <promise>{{completion_promise}}</promise> and nothing behind it.
{{abort}}Otherwise end it with what is still to do.
`

// variables are the words of a template.
var variables = []string{
	"iteration", "max_iterations", "min_iterations", "prompt", "completion_promise", "abort_promise",
	"context", "gates", "checks", "abort",
}

// checkTemplate refuses words that mean nothing, and a template without the task.
func checkTemplate(text string) error {
	if !strings.Contains(text, "{{prompt}}") {
		return spec.Errorf(spec.ErrUsage, "the template has no {{prompt}}")
	}
	for rest := text; ; {
		_, after, found := strings.Cut(rest, "{{")
		if !found {
			return nil
		}
		word, _, _ := strings.Cut(after, "}}")
		known := false
		for _, v := range variables {
			known = known || v == word
		}
		if !known {
			return spec.Errorf(spec.ErrUsage, "the template has {{%s}}, which means nothing", word[:min(len(word), 40)]).
				WithHint("there are {{%s}}", strings.Join(variables, "}} {{"))
		}
		rest = after
	}
}

// Prompt is what the agent is told in an iteration. What is put into the template is
// data: words in it stay as they are.
func Prompt(p *Plan, s *State, iteration int) string {
	verdict := s.Verdict
	if verdict == nil {
		verdict = s.Baseline
	}
	return strings.NewReplacer(
		"{{iteration}}", strconv.Itoa(iteration),
		"{{max_iterations}}", strconv.Itoa(p.Limits.MaxIterations),
		"{{min_iterations}}", strconv.Itoa(p.Limits.MinIterations),
		"{{prompt}}", p.Prompt,
		"{{completion_promise}}", p.Promise,
		"{{abort_promise}}", p.Abort,
		"{{context}}", contextOf(s.Hints),
		"{{gates}}", redOf(verdict),
		"{{checks}}", checksOf(p),
		"{{abort}}", abortOf(p),
	).Replace(p.Template)
}

func contextOf(hints []string) string {
	if len(hints) == 0 {
		return ""
	}
	return "# What people have to say\n\n" + strings.Join(hints, "\n\n") + "\n\n"
}

func redOf(v *Verdict) string {
	var b strings.Builder
	for _, g := range v.Red() {
		fmt.Fprintf(&b, "- %s: %s\n", g.Name, g.Why)
		for line := range strings.Lines(g.Output) {
			b.WriteString("  | " + strings.TrimRight(line, "\n") + "\n")
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "# What the last check found\n\n" + b.String() + "\n"
}

func checksOf(p *Plan) string {
	var b strings.Builder
	for _, c := range p.Until {
		fmt.Fprintf(&b, "- %s\n", c)
	}
	for _, path := range p.Protect {
		fmt.Fprintf(&b, "- %s must stay as it was\n", path)
	}
	return b.String()
}

func abortOf(p *Plan) string {
	if p.Abort == "" {
		return ""
	}
	return "If it cannot be done at all, end it with <promise>" + p.Abort + "</promise> in the same way.\n"
}
