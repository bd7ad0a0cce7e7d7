package taskqueue

import (
	"fmt"
	"strings"

	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/task"
)

// MaxText bounds the text of a task in a prompt, in bytes.
const MaxText = 24 << 10

// Text returns the text of a task without its title.
func Text(t *task.Task) string {
	var b strings.Builder
	for _, part := range []struct{ heading, text string }{
		{"", t.Description}, {"Design", t.Design}, {"Accepted if", t.AcceptanceCriteria}, {"Notes", t.Notes},
	} {
		text := strings.TrimSpace(run.Plain(part.text))
		if text == "" {
			continue
		}
		if part.heading != "" {
			fmt.Fprintf(&b, "%s:\n\n", part.heading)
		}
		b.WriteString(text + "\n\n")
	}
	return run.Beginning(b.String(), MaxText)
}
