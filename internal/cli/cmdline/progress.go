package cmdline

import (
	"fmt"
	"strings"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/agentprogram"
	"github.com/bothy-dev/bothy/internal/builder"
	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/setup"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/spec"
)

// Watcher shows the progress of making a sandbox or an image. It implements [provision.Watcher].
type Watcher struct {
	app   *App
	quiet bool
}

// Watcher returns a watcher. A quiet one shows the steps of a build only if one fails.
func (a *App) Watcher(quiet bool) Watcher { return Watcher{a, quiet} }

// Note prints a finding.
func (w Watcher) Note(format string, args ...any) { w.app.Note(format, args...) }

// Installing shows the progress of an installation.
func (w Watcher) Installing() (agentprogram.Progress, func()) {
	line := progressLine{app: w.app}
	return func(title string, ev agent.Event) {
		line.showStep(strings.TrimSpace("installing "+title+" "+ev.Version), string(ev.Phase), ev.Bytes, ev.Total)
	}, line.clearLine
}

// Fetching shows the progress of an image.
func (w Watcher) Fetching() (func(image.Event), func()) {
	line := progressLine{app: w.app}
	return func(ev image.Event) { line.showStep("image", string(ev.Phase), max(ev.Bytes, 0), ev.Total) }, line.clearLine
}

// SettingUp shows the set-up of a sandbox, and asks its questions if a person can be asked.
func (w Watcher) SettingUp() setup.Viewer {
	v := setup.Viewer{Note: w.app.Note, Output: w.app.Err}
	if w.app.CanAsk() {
		v.Ask = func(question string) bool { return w.app.Ask("bothy: %s", question) }
	}
	return v
}

// Building shows the progress of a build.
func (w Watcher) Building() func(builder.Event) {
	return (&buildProgress{app: w.app, quiet: w.quiet}).showEvent
}

// progressLine shows how far something is: on a terminal in one line that is rewritten, and cleared at the
// end; elsewhere in a line for each phase.
type progressLine struct {
	app  *App
	last string
}

func (l *progressLine) showStep(title, phase string, bytes, total int64) {
	live, text := term.IsTerminal(l.app.Err), phase
	if live && total > 0 {
		text += fmt.Sprintf(" %3d%% of %s", bytes*100/total, spec.FormatSize(total))
	}
	if live {
		text = title + ": " + text
	}
	switch {
	case text == l.last:
		return
	case live:
		fmt.Fprintf(l.app.Err, "\r\x1b[Kbothy: %s", text)
	default:
		l.app.Note("%s: %s", title, phase)
	}
	l.last = text
}

func (l *progressLine) clearLine() {
	if l.last != "" && term.IsTerminal(l.app.Err) {
		fmt.Fprint(l.app.Err, "\r\x1b[K")
	}
}

// buildProgress prints a build's steps and the output of their commands.
type buildProgress struct {
	app   *App
	quiet bool
	lines []string // last lines of the current step, kept in a quiet build in case it fails
}

// keptLines is how many lines of a failed step a quiet build prints.
const keptLines = 20

func (p *buildProgress) showEvent(ev builder.Event) {
	step := "the build"
	if ev.Step > 0 {
		step = fmt.Sprintf("[%d/%d]", ev.Step, ev.Steps)
	}
	switch ev.State {
	case builder.Output:
		if p.quiet {
			p.lines = append(p.lines, ev.Text)
			p.lines = p.lines[max(0, len(p.lines)-keptLines):]
			return
		}
		fmt.Fprintf(p.app.Err, "  | %s\n", ev.Text)
	case builder.Failed:
		for _, line := range p.lines {
			fmt.Fprintf(p.app.Err, "  | %s\n", line)
		}
		p.app.Note("%s failed after %.1fs", step, ev.Seconds)
	case builder.Started:
		p.lines = nil
		p.noteStep("%s %s", step, term.Sanitize(ev.Name))
	case builder.Cached:
		p.noteStep("%s %s: as before", step, term.Sanitize(ev.Name))
	case builder.Waiting:
		p.noteStep("%s waits for %s", step, term.Sanitize(ev.Text))
	case builder.Done:
		p.noteStep("%s done in %.1fs", step, ev.Seconds)
	case builder.Warning:
		p.noteStep("Dockerfile: %s", term.Sanitize(ev.Text))
	case builder.Making:
		p.noteStep("making the image")
	}
}

func (p *buildProgress) noteStep(format string, args ...any) {
	if !p.quiet {
		p.app.Note(format, args...)
	}
}
