// Package loopserver lets a process inside a sandbox ask for the state of the loop that works there, and
// leave a hint for its next iteration. Its options are those of the command ralph.
//
// The caller may be hostile: usually it is the agent itself. It sees only facts about this loop that the
// agent is told anyway. The next iteration gets the hint marked as of unknown origin: the hint does not
// keep the loop from being done, answers no question, and is bounded in size.
package loopserver

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/spec"
)

// Server serves one sandbox of one loop.
type Server struct {
	Runs    string // directory of all runs
	Loop    string // ID of this loop
	Sandbox string // name of the calling sandbox

	mu   sync.Mutex // held while a command runs
	next time.Time  // earliest time of the next command: the log of a long loop takes long to read
}

// Bounds of hints from inside.
const (
	maxHint  = 4 << 10 // of one text, in bytes
	maxHints = 8       // hints that no iteration has received yet
	pace     = 200 * time.Millisecond
)

// Command runs a command, and returns its stdout, its stderr and its exit code.
func (s *Server) Command(args []string) (out, complaint string, code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	time.Sleep(time.Until(s.next)) // only the caller's own sandbox waits
	defer func() { s.next = time.Now().Add(pace) }()
	out, err := s.handleCall(args)
	if err == nil {
		return out, "", spec.ExitOK
	}
	complaint = "ralph: " + term.Line(err.Error()) + "\n"
	if hint := spec.Hint(err); hint != "" {
		complaint += "ralph: hint: " + term.Line(hint) + "\n"
	}
	return "", complaint, spec.ExitCode(err)
}

const usage = `ralph --status [--tasks]     how the loop stands that works in this sandbox
ralph --add-context TEXT     tell its next iteration something
`

func (s *Server) handleCall(args []string) (string, error) {
	switch {
	case len(args) == 1 && (args[0] == "--help" || args[0] == "-h"):
		return usage, nil
	case len(args) == 1 && args[0] == "--status":
		return s.status(false)
	case len(args) == 2 && slices.Contains(args, "--status") && slices.Contains(args, "--tasks"):
		return s.status(true)
	case len(args) == 2 && args[0] == "--add-context":
		return s.leaveHint(args[1])
	case len(args) == 1 && strings.HasPrefix(args[0], "--add-context="):
		return s.leaveHint(strings.TrimPrefix(args[0], "--add-context="))
	}
	return "", spec.Errorf(spec.ErrUsage, "inside a sandbox there are --status, --status --tasks and --add-context TEXT").
		WithHint("loops are begun, paused and ended outside")
}

// stands reads the state of the loop, with the hints that wait.
func (s *Server) stands() (*run.Run, *loopplan.Plan, *loop.State, error) {
	r, err := run.Find(s.Runs, s.Loop)
	if err != nil {
		return nil, nil, nil, spec.Errorf(spec.ErrNotFound, "no loop works in this sandbox any more")
	}
	var p loopplan.Plan
	if _, err := r.Plan(&p); err != nil {
		return nil, nil, nil, err
	}
	events, err := r.Events()
	if err != nil {
		return nil, nil, nil, err
	}
	if raised, err := run.Raises(events); err != nil {
		return nil, nil, nil, err
	} else if raised != nil && raised.Iterations != nil {
		p.Limits.MaxIterations = *raised.Iterations
	}
	state, err := loop.Fold(events)
	if err != nil {
		return nil, nil, nil, err
	}
	mail, err := r.Mail()
	if err != nil {
		return nil, nil, nil, err
	}
	state.Expect(mail)
	return r, &p, state, nil
}

func (s *Server) status(tasks bool) (string, error) {
	r, p, state, err := s.stands()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-10s %s\n", name, term.Line(fmt.Sprintf(format, args...)))
	}
	status, reason := string(state.Status), state.Reason
	d, waits := state.Waits()
	switch {
	case waits:
		status, reason = string(run.Waiting), d.For
	case state.Status == run.Running && !r.Hosted():
		status, reason = string(run.Interrupted), ""
	}
	if reason != "" {
		status += ", " + reason
	}
	row("run", "%s", r.ID)
	row("status", "%s", status)
	row("iteration", "%d/%d", state.Iteration, p.Limits.MaxIterations)
	row("agent", "%s", p.Agent)
	if waits {
		row("until", "%s", d.Until.UTC().Format(time.RFC3339))
	}
	if state.Question != "" {
		row("question", "%s", state.Question)
	}
	if v := state.LastVerdict(); v != nil {
		for _, g := range v.Gates {
			row("gate", "%s  %s", map[bool]string{true: "green", false: "red  "}[g.Green], g.Name)
		}
	}
	for _, h := range state.Hints {
		row("hint", "%s", term.Opening(h))
	}
	if tasks {
		s.listTasks(p, state, row)
	}
	return b.String(), nil
}

// listTasks lists the tasks that the loop has worked on. A sandbox sees other tasks only if they are shared
// with it.
func (s *Server) listTasks(p *loopplan.Plan, state *loop.State, row func(string, string, ...any)) {
	if p.Tasks == nil {
		row("tasks", "the loop takes none: it works at its prompt")
		return
	}
	for _, f := range state.Closed {
		row("closed", "%s", f.Task)
	}
	for _, l := range state.Left {
		row("put back", "%s %s", l.Task, term.Opening(l.Why))
	}
	for _, w := range append([]*loop.State{state}, state.Workers...) {
		if w.Task != nil {
			row("in hand", "%s %s", w.Task.ID, term.Opening(w.Task.Title))
		}
	}
	row("to come", "bd ready lists that, in a sandbox that the tasks are shared with")
}

// leaveHint leaves a hint for the next iteration.
func (s *Server) leaveHint(text string) (string, error) {
	switch text = strings.TrimSpace(text); {
	case text == "":
		return "", spec.Errorf(spec.ErrUsage, "--add-context: there is nothing to tell")
	case len(text) > maxHint:
		return "", spec.Errorf(spec.ErrUsage, "--add-context: a text has at most %d KiB", maxHint>>10)
	}
	r, _, state, err := s.stands()
	if err != nil {
		return "", err
	}
	if state.Final() || state.Status == run.Completed {
		return "", spec.Errorf(spec.ErrConflict, "the loop %s has ended: %s", r.ID, state.Status)
	}
	if loop.FromInside(state.Hints) >= maxHints {
		return "", spec.Errorf(spec.ErrConflict, "%d texts wait already for the next iteration", maxHints)
	}
	if err := r.Leave(run.Message{Kind: run.Hint, Text: loop.Inside(text), Actor: "inside:" + s.Sandbox}); err != nil {
		return "", err
	}
	return "for the next iteration of " + r.ID + "\n", nil
}
