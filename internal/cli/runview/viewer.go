// Package runview shows loops and flows to a person: their state, their events, and a page that is drawn anew
// while they work. The two kinds share everything but their adapters, [shownLoop] and [shownFlow].
package runview

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/runstate"
	"github.com/bothy-dev/bothy/internal/term"
)

// Viewer shows runs on the streams of a command.
type Viewer struct{ *cmdline.App }

// shown is how a kind of runs is shown.
type shown interface {
	listCells() []string                                             // its row in a list of its kind
	statusRows() [][2]string                                         // its state for people
	printUsage(a *Viewer) error                                      // its usage by parts
	narrator() (func(run.Event) (string, error), error)              // describes its events, one after the other
	openPages() (func(context.Context) (watchedPage, error), func()) // its pages, and what to call at the end
}

// shownLoop and shownFlow show a loop and a flow.
type (
	shownLoop struct{ *runstate.Loop }
	shownFlow struct{ *runstate.Flow }
)

// shownOf returns how a run is shown.
func shownOf(l runstate.Run) shown {
	if f, ok := l.(*runstate.Flow); ok {
		return shownFlow{f}
	}
	return shownLoop{l.(*runstate.Loop)}
}

// PrintList prints a table of runs.
func (a *Viewer) PrintList(titles string, list []runstate.Run) error {
	w := a.Table()
	fmt.Fprintln(w, titles)
	for _, l := range list {
		fmt.Fprintln(w, strings.Join(shownOf(l).listCells(), "\t"))
	}
	return w.Flush()
}

// PrintStatus prints the state of a run and its usage for people.
func (a *Viewer) PrintStatus(l runstate.Run) error {
	w, s := a.Table(), shownOf(l)
	for _, row := range s.statusRows() {
		fmt.Fprintf(w, "%s\t%s\n", row[0], term.Line(row[1]))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return s.printUsage(a)
}

// PrintLog prints the events of a run.
func (a *Viewer) PrintLog(l runstate.Run) error {
	describe, err := shownOf(l).narrator()
	for _, ev := range l.Recorded().Events {
		var text string
		if err == nil {
			text, err = describe(ev)
		}
		if err == nil {
			err = a.printEvent(ev, text)
		}
	}
	return err
}

// printEvent prints an event as a line of JSON, or its text for people, if any.
func (a *Viewer) printEvent(ev run.Event, text string) error {
	if a.JSON {
		line, err := ev.Line()
		if err == nil {
			_, err = a.Out.Write(term.EscapeJSON(line))
		}
		return err
	}
	if text == "" {
		return nil
	}
	_, err := fmt.Fprintf(a.Out, "%s  %s\n", ev.Time.Local().Format(time.DateTime), term.Line(text))
	return err
}

// NoteEvent prints the text of a new event. The text may hold foreign lines that look like ours,
// so it is made one line.
func (a *Viewer) NoteEvent(text string) {
	if text != "" {
		a.Note("%s", term.Line(text))
	}
}

// leftRow lists the sandboxes that a run left behind, and the command that removes them.
func leftRow(r *run.Run, names []string) [][2]string {
	if len(names) == 0 {
		return nil
	}
	if r.Gone() {
		return [][2]string{{"left", fmt.Sprintf("%s: bothy %s rm %s removes that", strings.Join(names, ", "), r.Kind, r.ID)}}
	}
	return [][2]string{{"left", fmt.Sprintf("%s, which it was to remove: bothy %s resume %s does it, bothy %s rm %s removes the run, too", strings.Join(names, ", "), r.Kind, r.ID, r.Kind, r.ID)}}
}
