package loop

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/loop/taskqueue"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/task"
)

// Bounds of a prompt, in bytes. Linux takes less than 128 KiB as an argument, which is how many
// agents take their prompt.
const (
	maxPrompt  = 120 << 10
	maxGates   = 24 << 10 // the gates' output
	maxContext = 40 << 10 // people's hints: one message fits, see run.MaxHint
	leastRoom  = 8 << 10  // for either, however long the task is
)

// Prompt returns the agent's prompt for an iteration, and the number of hints in it. Hints that do not
// fit are for the next iteration. Values in the template are data: words in them are not replaced, and
// they contain no zero byte and no terminal control.
func Prompt(p *loopplan.Plan, s *State, iteration int) (text string, told int) {
	words := []string{
		"{{iteration}}", strconv.Itoa(iteration),
		"{{max_iterations}}", strconv.Itoa(p.Limits.MaxIterations),
		"{{min_iterations}}", strconv.Itoa(p.Limits.MinIterations),
		"{{prompt}}", p.Prompt,
		"{{completion_promise}}", p.Promise,
		"{{abort_promise}}", p.Abort,
		"{{checks}}", p.ChecksText(),
		"{{abort}}", p.AbortText(),
		"{{memory}}", memoryOf(sessionOf(p, s, iteration)),
		"{{task}}", taskOf(s.Task),
		"{{tasks}}", taskOf(s.Task),
		"{{task_promise}}", p.Promise,
	}
	if s.Task == nil {
		words = append(words, "{{task_id}}", "", "{{task_title}}", "")
	} else {
		words = append(words, "{{task_id}}", s.Task.ID, "{{task_title}}", s.Task.Title)
	}
	fixed := strings.NewReplacer(append(words, "{{context}}", "", "{{gates}}", "")...).Replace(p.Template)
	room := max(maxPrompt-len(fixed), 2*leastRoom)
	hints, told := contextOf(s.Hints, shareRoom(p, "{{context}}", min(maxContext, room-leastRoom)))
	room -= len(hints) * strings.Count(p.Template, "{{context}}")
	red := redGatesText(findings(p, s), shareRoom(p, "{{gates}}", min(maxGates, max(room, leastRoom))))
	return unpromising(p, strings.NewReplacer(append(words, "{{context}}", hints, "{{gates}}", red)...).Replace(p.Template)), told
}

// unpromising appends a line to a prompt that ends with a promise, from the template, the task or a
// hint: an agent that only repeats the prompt has promised nothing.
func unpromising(p *loopplan.Plan, text string) string {
	if !promised(text, p.Promise) && !promised(text, p.Abort) {
		return text
	}
	return strings.TrimRight(text, "\n") + "\n\nThis is the end of what you are told.\n"
}

// FixedSize returns the size of the part that all prompts share, in bytes.
func FixedSize(p *loopplan.Plan) int {
	text, _ := Prompt(p, &State{}, p.Limits.MaxIterations)
	if p.Tasks == nil {
		return len(text)
	}
	return len(text) + (strings.Count(p.Template, "{{task}}")+strings.Count(p.Template, "{{tasks}}"))*(taskqueue.MaxText+4*task.MaxTitle)
}

// taskOf describes the current task.
func taskOf(t *Taken) string {
	if t == nil {
		return ""
	}
	return "# " + t.ID + ": " + t.Title + "\n\n" + t.Text
}

// shareRoom returns the room for a variable that may occur in the template more than once.
func shareRoom(p *loopplan.Plan, word string, room int) int {
	return room / max(strings.Count(p.Template, word), 1)
}

// contextOf formats as many hints as fit, and the first in any case.
func contextOf(hints []string, room int) (text string, told int) {
	if len(hints) == 0 {
		return "", 0
	}
	b := "# What people have to say\n\n"
	for _, h := range hints {
		h = run.Plain(h) + "\n\n"
		if told > 0 && len(b)+len(h) > room {
			break
		}
		b += run.Beginning(h, room-len(b))
		told++
	}
	return b, told
}

// redGatesText describes the red gates, with the end of their output. Every gate has the same room, so a long
// output hides no other gate.
func redGatesText(red []Gate, room int) string {
	if len(red) == 0 {
		return ""
	}
	const heading = "# What the last check found\n\n"
	var b strings.Builder
	b.WriteString(heading)
	each := (room - len(heading) - 1) / len(red)
	for _, g := range red {
		b.WriteString(gateOf(g, each))
	}
	b.WriteString("\n")
	return b.String()
}

// reviewFailed begins the text about a reviewer that failed.
const reviewFailed = "the reviewer failed"

// toldWhy returns the text for the agent about why a gate is red. It omits the failure of a reviewer,
// which may contain all of the reviewer's instructions, because many programs print those.
func (g Gate) toldWhy() string {
	if g.Review && strings.HasPrefix(g.Why, reviewFailed) {
		return reviewFailed
	}
	return g.Why
}

// gateOf returns the last lines of a gate's output.
func gateOf(g Gate, room int) string {
	first := run.Beginning(fmt.Sprintf("- %s: %s", run.Plain(g.Name), run.Plain(g.toldWhy())), room-1) + "\n"
	room -= len(first)
	var lines []string
	for line := range strings.Lines(run.Plain(g.Output)) {
		lines = append(lines, "  | "+strings.TrimRight(line, "\n")+"\n")
	}
	n := len(lines)
	for n > 0 && len(lines[n-1]) <= room {
		n--
		room -= len(lines[n])
	}
	if cut := "  | [...] "; n > 0 && n == len(lines) && room > 2*len(cut) { // one line without an end
		last := lines[n-1]
		return first + cut + strings.ToValidUTF8(last[len(last)-room+len(cut):], "")
	}
	return first + strings.Join(lines[n:], "")
}

// MaxTask bounds the fixed part of a prompt, so that the rest has room: the user's prompt with the
// template around it, in bytes. It applies to agents that take their prompt as an argument.
const MaxTask = maxPrompt - 2*leastRoom
