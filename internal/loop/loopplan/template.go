package loopplan

import (
	"fmt"
	"strings"

	"github.com/bothy-dev/bothy/spec"
)

// DefaultTemplate is the default prompt of an agent. Its last line is not a promise, so an agent that
// only repeats it has promised nothing.
const DefaultTemplate = `This is iteration {{iteration}} of at most {{max_iterations}}. {{memory}}

# Task

{{prompt}}

{{task}}{{context}}{{gates}}# When it is done

Your work is checked on a copy of the files that you cannot reach, by:

{{checks}}
When all of the task is truly done, and these would succeed, end your last message
with the line <promise>{{completion_promise}}</promise> and nothing behind it.
{{abort}}Otherwise end it with the work that remains.
`

// variables are the variables of a template.
var variables = []string{
	"iteration", "max_iterations", "min_iterations", "prompt", "completion_promise", "abort_promise",
	"context", "gates", "checks", "abort", "memory", "task", "task_id", "task_title",
	"tasks", "task_promise", // open-ralph's
}

// checkTemplate refuses unknown variables, and a template without the task.
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

// ChecksText describes the checks to the agent, a line each.
func (p *Plan) ChecksText() string {
	var b strings.Builder
	for _, c := range p.Until {
		fmt.Fprintf(&b, "- %s\n", c)
	}
	for _, path := range p.Protect {
		fmt.Fprintf(&b, "- %s must stay as it was: changes there are undone\n", path)
	}
	for _, c := range p.Gates {
		fmt.Fprintf(&b, "- %s: %s\n", c.ID, c.describe())
	}
	return b.String()
}

// AbortText tells the agent how to give up; empty if it must not.
func (p *Plan) AbortText() string {
	if p.Abort == "" {
		return ""
	}
	return "If it cannot be done at all, end it with <promise>" + p.Abort + "</promise> in the same way.\n"
}
