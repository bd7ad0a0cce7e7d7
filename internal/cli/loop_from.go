package cli

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/cli/command"
	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/task"
	"github.com/bothy-dev/bothy/spec"
)

// Files of open-ralph's directory, .ralph.
const (
	ralphStateName   = "ralph-loop.state.json"
	ralphContextName = "ralph-context.md"
	ralphTasksName   = "ralph-tasks.md"
)

// takeOver takes over what a loop of open-ralph was to do. What the command line says
// counts for more.
func (f *loopFlags) takeOver(a *app, cmd *command.Command) error {
	if f.from == "" {
		return nil
	}
	name := filepath.Join(f.from, ralphStateName)
	text, err := readPrompt(name)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return spec.Errorf(spec.ErrNotFound, "%s is not there", name).WithHint("--from takes the directory that open-ralph keeps, .ralph")
		}
		return err
	}
	r, err := loop.ReadRalph([]byte(text))
	if err != nil {
		return &spec.Error{Op: "take over " + name, Err: err}
	}
	a.notePassed(name, r.Passed)
	f.settle(a, cmd, r)
	if err := f.takeContext(); err != nil {
		return err
	}
	if !f.takeTasks && len(f.labels) == 0 {
		return nil
	}
	return f.takeBoxes(a)
}

// settle fills in what the command line does not say.
func (f *loopFlags) settle(a *app, cmd *command.Command, r *loop.Ralph) {
	given := func(names ...string) bool {
		for _, n := range names {
			if cmd.Flags().Changed(n) {
				return true
			}
		}
		return false
	}
	p := &f.plan
	p.Prompt = r.Prompt // of which read knows better
	if r.Promise != "" && !given("promise", "completion-promise") {
		p.Promise = r.Promise
	}
	if !given("abort-promise") {
		p.Abort = r.Abort
	}
	switch {
	case given("max-iterations"):
	case r.MaxIterations > 0:
		p.Limits.MaxIterations = r.MaxIterations
	default:
		a.note("the loop of %s has no end: this one has %d iterations, see --max-iterations", printable(f.from), p.Limits.MaxIterations)
	}
	f.takeTasks = f.takeTasks || r.Tasks
	if !given("min-iterations") && r.MinIterations > 0 && !f.takeTasks {
		p.Limits.MinIterations = r.MinIterations
	}
	if !given("agent", "rotation") {
		p.Agent = r.Agent
		if !given("model") {
			p.Models = r.Models
		}
	}
}

// takeContext has the first iteration told what waited for the next one there.
func (f *loopFlags) takeContext() error {
	text, err := readPrompt(filepath.Join(f.from, ralphContextName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if text = strings.TrimSpace(text); err == nil && text != "" {
		f.hints = append(f.hints, text)
	}
	return err
}

// takeBoxes reads the tasks that are kept there.
func (f *loopFlags) takeBoxes(a *app) error {
	name := filepath.Join(f.from, ralphTasksName)
	data, at, err := readDated(name, maxPrompt)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return readError(name, err)
	}
	boxes, err := task.ReadBoxes(data, at)
	if err != nil {
		return &spec.Error{Op: "take over " + name, Err: err}
	}
	f.boxes = boxes.Tasks
	a.notePassed(name, boxes.Passed)
	return nil
}

// addBoxes makes them tasks of the project. Those that are there already stay as they
// are, unless the file was changed since.
func (f *loopFlags) addBoxes(ctx context.Context, s task.Store) error {
	if len(f.boxes) == 0 {
		return nil
	}
	return s.Change(ctx, func(g *task.Graph) error {
		_, err := g.Import(f.boxes, false, time.Now().UTC())
		return err
	})
}

// leaveHints leaves what the first iteration is to be told besides the prompt.
func (f *loopFlags) leaveHints(r *run.Run) error {
	for _, text := range f.hints {
		if err := r.Leave(run.Message{Kind: run.Hint, Text: text, Actor: actor()}); err != nil {
			return err
		}
	}
	return nil
}
