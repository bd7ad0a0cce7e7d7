package runs

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/flow"
	"github.com/bothy-dev/bothy/internal/flow/flowplan"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/spec"
)

// cells returns the row of a flow in a list.
func (l *flowRun) cells() []string {
	return []string{l.run.ID, string(l.standing().Status), stepsDone(l.state), term.Sanitize(l.plan.File)}
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

func flowShowCommand(a *app) *cobra.Command {
	return a.JSONFlag(&cobra.Command{
		Use: "show FILE", Short: "Check a flow, and show what it would do", Args: cmdline.Exactly(1, "a file"),
		RunE: func(_ *cobra.Command, args []string) error {
			f, err := a.readFlowFile(args[0])
			if err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(f)
			}
			w := a.Table()
			fmt.Fprintln(w, "STEP\tBY\tNEEDS\tOUTPUT")
			for i := range f.Steps {
				s := &f.Steps[i]
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", s.ID, stepBy(f, s), cmdline.Dash(strings.Join(s.Needs, ",")), cmdline.Dash(s.Output))
				for k := range s.Steps {
					in := &s.Steps[k]
					fmt.Fprintf(w, "  %s\t%s\t%s\t%s\n", in.ID, stepBy(f, in), cmdline.Dash(strings.Join(in.Needs, ",")), cmdline.Dash(in.Output))
				}
			}
			return w.Flush()
		},
	})
}

// stepBy names the agent or person for a step, as far as the flow tells.
func stepBy(f *flowplan.Flow, s *flowplan.Step) string {
	switch who := cmp.Or(s.Agent, (&flowplan.Plan{Flow: f}).AgentOf(&flowplan.Node{Step: s})); {
	case s.Each != "":
		return "for each of " + s.Each
	case s.Approval != nil || s.Question != nil:
		return "you"
	case who == flowplan.Shell:
		return "a command"
	case who == "":
		return "--agent"
	default:
		return term.Sanitize(who)
	}
}

func flowSchemaCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of a flow", Args: cmdline.Exactly(0, "no argument"),
		RunE: func(*cobra.Command, []string) error {
			_, err := a.Out.WriteString(flowplan.Schema())
			return err
		},
	}
}

// printUsage prints the models' usage for each step that used some.
func (l *flowRun) printUsage(a *app) error {
	s := l.state
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

// rows describes the state of a flow for people.
func (l *flowRun) rows() [][2]string {
	s := l.state
	rows := [][2]string{
		{"run", l.run.ID},
		{"status", statusText(l.standing())},
		{"flow", term.Sanitize(l.plan.File)},
		{"directory", term.Sanitize(l.run.Dir())},
		{"began", l.since.Local().Format(time.DateTime)},
		{"took", roundly(s.Took(s.Status, time.Now()))},
	}
	rows = append(rows, limitRow(l.plan.Limits.Time, l.plan.Limits.Tokens, l.plan.Limits.USD, l.raised)...)
	rows = append(rows, cmdline.MeteredRows(s.Tokens, s.USD, &s.Metered)...)
	if n := l.atWork(); n > 0 && l.plan.Most() > 1 {
		rows = append(rows, [2]string{"at work", fmt.Sprintf("%d, of %d side by side", n, l.plan.Most())})
	}
	if d, waits := s.Waits(); waits {
		rows = append(rows, [2]string{"waits until", delayText(d)})
	}
	rows = append(rows, refusalRow(l.denied())...)
	for _, room := range l.plan.Copies() {
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
	return append(rows, leftRow(l.run, l.left())...)
}

// atWork counts the steps that run now.
func (l *flowRun) atWork() (count int) {
	for _, st := range l.state.Steps {
		if st.Status == run.Running && l.hosted {
			count++
		}
	}
	return count
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

func flowLogCommand(a *app) *cobra.Command {
	c := runLogCommand(a, flows)
	c.Long = "Shows the events of a flow, in their order. With --json it is every event, a line\neach. What each try said is in logs/ of the run's directory."
	return c
}

// narrator describes the events of a flow.
func (l *flowRun) narrator() (func(run.Event) (string, error), error) {
	s, err := flow.Fold(&l.plan, nil)
	return func(ev run.Event) (string, error) {
		if err := s.Add(ev); err != nil {
			return "", err
		}
		return flowLine(ev, s), nil
	}, err
}

// flowLine describes an event and the state after it.
func flowLine(ev run.Event, s *flow.State) string {
	if ev.Type == run.Ended {
		return strings.TrimSuffix(fmt.Sprintf("%s (%s): %s", s.Status, s.Reason, s.Detail), ": ")
	}
	if ev.Type == run.Raised {
		return raisedText(ev)
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
