package runview

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/flow"
	"github.com/bothy-dev/bothy/internal/flow/flowplan"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/runstate"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/spec"
)

// listCells returns the row of a flow in a list.
func (l shownFlow) listCells() []string {
	return []string{l.Run.ID, string(l.Standing().Status), stepsDone(l.State), term.Sanitize(l.Plan.File)}
}

// stepsDone formats how many steps need nothing more.
func stepsDone(s *flow.State) string {
	n := 0
	for _, st := range s.Steps {
		if st.Status == run.Completed || st.Status == flow.Passed {
			n++
		}
	}
	return fmt.Sprintf("%d/%d", n, len(s.Steps))
}

// printUsage prints the models' usage for each step that used some.
func (l shownFlow) printUsage(a *Viewer) error {
	s := l.State
	var each []spec.Metered
	w := a.Table()
	row := func(name string, tries string, m *spec.Metered) {
		if len(each) == 0 {
			fmt.Fprintln(w, "\nSTEP\tTRIES\t"+strings.Join(cmdline.MeterTitles[:], "\t"))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", term.Sanitize(name), tries, cmdline.CellsOf(m))
		each = append(each, *m)
	}
	for _, st := range s.Steps {
		if st.Metered != (spec.Metered{}) {
			row(st.ID, strconv.Itoa(st.Attempts), &st.Metered)
		}
	}
	for _, e := range s.Elements() {
		if e.Metered != (spec.Metered{}) {
			row(e.Group+" "+e.ID, "", &e.Metered)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	a.ExplainMetered(&s.Metered, each...)
	return nil
}

// statusRows describes the state of a flow for people.
func (l shownFlow) statusRows() [][2]string {
	s := l.State
	rows := [][2]string{
		{"run", l.Run.ID},
		{"status", statusText(l.Standing())},
		{"flow", term.Sanitize(l.Plan.File)},
		{"directory", term.Sanitize(l.Run.Dir())},
		{"began", l.Since.Local().Format(time.DateTime)},
		{"took", Rounded(s.Took(s.Status, time.Now()))},
	}
	rows = append(rows, limitRow(l.Plan.Limits.Time, l.Plan.Limits.Tokens, l.Plan.Limits.USD, l.Raised)...)
	rows = append(rows, cmdline.MeteredRows(s.Tokens, s.USD, &s.Metered)...)
	if n := l.AtWork(); n > 0 && l.Plan.Most() > 1 {
		rows = append(rows, [2]string{"at work", fmt.Sprintf("%d, of %d side by side", n, l.Plan.Most())})
	}
	if d, waits := s.Waits(); waits {
		rows = append(rows, [2]string{"waits until", delayText(d)})
	}
	rows = append(rows, refusalRow(runstate.Denied(l))...)
	for _, room := range l.Plan.Copies() {
		rows = append(rows, [2]string{"copy", room + "  bothy diff " + s.Sandboxes[room]})
	}
	for _, e := range s.Elements() {
		rows = append(rows, [2]string{e.Group, elementText(e)})
	}
	for _, st := range s.Steps {
		rows = append(rows, [2]string{"step", fmt.Sprintf("%-9s %s", st.Status, st.ID) + timeText(st) + stepText(st)})
	}
	for _, st := range s.Questions() {
		rows = append(rows, [2]string{"question", st.ID + ": " + term.Opening(st.Message)})
	}
	return append(rows, leftRow(l.Run, l.LeftBehind())...)
}

// elementText describes an element of a list.
func elementText(e flow.ElementState) string {
	text := fmt.Sprintf("%-9s %d %s %s", e.Status, e.Number, e.ID, term.Opening(e.Title))
	if e.Why != "" {
		text += "  " + term.Opening(e.Why)
	}
	return text
}

// How many characters are shown of one value of a matrix, and of all of them.
const (
	maxValue  = 24
	maxMatrix = 60
)

// timeText lists the matrix values that a step is done for. They may have any length.
func timeText(st *flow.StepState) string {
	var values []string
	for _, name := range slices.Sorted(maps.Keys(st.Matrix)) {
		if st.Matrix[name] == "" { // values that take turns, of an input without values
			continue
		}
		values = append(values, name+"="+Shortened(term.Sanitize(st.Matrix[name]), maxValue))
	}
	if values == nil {
		return ""
	}
	return " (" + Shortened(strings.Join(values, ", "), maxMatrix) + ")"
}

// Shortened cuts a text to at most so many characters.
func Shortened(text string, most int) string {
	if r := []rune(text); len(r) > most {
		return string(r[:most-3]) + "..."
	}
	return text
}

// stepText adds the output or the detail of a step.
func stepText(st *flow.StepState) string {
	switch {
	case st.Output != nil:
		return fmt.Sprintf("  %s, %d bytes", filepath.Join(flowplan.OutputsDir, st.Output.Path), st.Output.Size)
	case st.Detail != "":
		return "  " + term.Opening(st.Detail)
	}
	return ""
}

func statusText(r run.Result) string {
	text := string(r.Status)
	if r.Reason != "" {
		text += ", " + r.Reason
	}
	if r.Detail != "" {
		text += ": " + r.Detail
	}
	return text
}

// narrator describes the events of a flow.
func (l shownFlow) narrator() (func(run.Event) (string, error), error) {
	s, err := flow.Fold(&l.Plan, nil)
	return func(ev run.Event) (string, error) {
		if err := s.Add(ev); err != nil {
			return "", err
		}
		return FlowLine(ev, s), nil
	}, err
}

// FlowLine describes an event and the state after it.
func FlowLine(ev run.Event, s *flow.State) string {
	if ev.Type == run.Ended {
		return strings.TrimSuffix(fmt.Sprintf("%s (%s): %s", s.Status, s.Reason, s.Detail), ": ")
	}
	if ev.Type == run.Raised {
		return RaisedText(ev)
	}
	st := s.Told(ev)
	if st == nil {
		return ""
	}
	at := "step " + st.ID + ": "
	if back := s.Back(); back != nil {
		return at + fmt.Sprintf("failed: %s; back to %s, %d of %d", term.Opening(strings.Join(back.Why, "; ")), back.To, back.Round, back.Most)
	}
	switch ev.Type {
	case flow.Started:
		about := ""
		if st.Element != "" {
			about = " (" + st.Element + ")"
		}
		if st.Attempts > 1 {
			return at + fmt.Sprintf("try %d", st.Attempts) + about
		}
		return at + "begins" + about
	case flow.Cut:
		return at + "cut short"
	case flow.Skipped:
		return at + "passed over: " + st.Detail
	case flow.Recheck:
		return at + "once more, now that the others are done"
	case flow.Asked:
		return at + "waits for you: " + term.Opening(st.Message)
	case flow.Answered:
		return at + st.Detail
	case flow.Worked:
		return at + workedText(st, s)
	}
	return ""
}

func workedText(st *flow.StepState, s *flow.State) string {
	switch {
	case st.Detail == flow.Exhausted, st.Detail == flow.Crowded:
		return deniedText("its", st.Detail == flow.Crowded, s.Known(), s.Until)
	case st.Status == run.Completed && st.Output != nil:
		return "validated " + filepath.Join(flowplan.OutputsDir, st.Output.Path)
	case st.Status == run.Completed:
		return "done"
	case st.Status == run.Failed:
		return "failed: " + term.Opening(strings.Join(st.Missing, "; "))
	}
	return "sent back: " + term.Opening(strings.Join(st.Missing, "; "))
}
