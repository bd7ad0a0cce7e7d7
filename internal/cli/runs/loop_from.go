package runs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/cli/tasks"
	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/review/quote"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/task"
	"github.com/bothy-dev/bothy/spec"
)

// Files of open-ralph's directory, .ralph.
const (
	ralphStateName   = "ralph-loop.state.json"
	ralphContextName = "ralph-context.md"
	ralphTasksName   = "ralph-tasks.md"
)

// takeOver takes over the settings of an open-ralph loop. The command line overrides them.
func (f *loopFlags) takeOver(a *app, cmd *cobra.Command) error {
	if f.from == "" {
		return nil
	}
	name := filepath.Join(f.from, ralphStateName)
	text, _, err := a.readKept(f.from, ralphStateName)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return spec.Errorf(spec.ErrNotFound, "%s is not there", name).WithHint("--from takes the directory that open-ralph keeps, .ralph")
		}
		return tasks.ReadError(name, err)
	}
	r, err := loopplan.ReadRalph(text)
	if err != nil {
		return &spec.Error{Op: "take over " + name, Err: err}
	}
	tasks.NotePassed(a.Console, name, r.Passed)
	others, err := a.othersKept(f.from, ralphStateName, ralphContextName, ralphTasksName)
	if err != nil {
		return tasks.ReadError(f.from, err)
	}
	tasks.NotePassed(a.Console, f.from, others)
	f.settle(a, cmd, r)
	if err := f.takeContext(a); err != nil {
		return err
	}
	a.Note("taken over from %s: %s works, at most %d times; a prompt of %d bytes, and %s", console.Printable(f.from), console.Printable(f.plan.Agent), f.plan.Limits.MaxIterations, len(f.plan.Prompt), cmdline.Counted(len(f.hints), "hint"))
	if !f.takeTasks && len(f.labels) == 0 {
		f.noteBoxes(a)
		return nil
	}
	return f.takeBoxes(a)
}

// noteBoxes notes a task file there that is ignored, since the loop takes no tasks.
func (f *loopFlags) noteBoxes(a *app) {
	name := filepath.Join(f.from, ralphTasksName)
	if _, err := os.Lstat(name); err == nil {
		a.Note("%s: not taken over, for the loop there did not work through tasks: --tasks has this one do so, bothy task import makes them tasks", console.Printable(name))
	}
}

// settle fills in settings that the command line does not give.
func (f *loopFlags) settle(a *app, cmd *cobra.Command, r *loopplan.Ralph) {
	given := func(names ...string) bool {
		for _, n := range names {
			if cmd.Flags().Changed(n) {
				return true
			}
		}
		return false
	}
	p := &f.plan
	p.Prompt = r.Prompt // read decides whether it is used
	if r.Promise != "" && !given("promise", "completion-promise") {
		p.Promise = r.Promise
	}
	if !given("abort-promise") {
		p.Abort = r.Abort
	}
	switch {
	case given("max-iterations"):
	case r.MaxIterations > p.Limits.MaxIterations: // an agent may have written it
		a.Note("the loop of %s has %d iterations: this one has %d, see --max-iterations", console.Printable(f.from), r.MaxIterations, p.Limits.MaxIterations)
	case r.MaxIterations > 0:
		p.Limits.MaxIterations = r.MaxIterations
	default:
		a.Note("the loop of %s has no end: this one has %d iterations, see --max-iterations", console.Printable(f.from), p.Limits.MaxIterations)
	}
	f.takeTasks = f.takeTasks || r.Tasks
	switch {
	case given("min-iterations") || r.MinIterations <= 0:
	case !f.takeTasks:
		p.Limits.MinIterations = r.MinIterations
	case r.MinIterations > 1:
		a.Note("%s: not taken over: at least %d iterations, for a task has no least number of them", console.Printable(f.from), r.MinIterations)
	}
	if !given("agent", "rotation") {
		p.Agent = r.Agent
		switch {
		case given("model"):
		case len(r.Turns) > 0:
			p.Rotate(r.Turns)
		default:
			p.Models = r.Models
		}
	}
}

// takeContext gives the first iteration the context that waited for the next one there.
func (f *loopFlags) takeContext(a *app) error {
	text, _, err := a.readKept(f.from, ralphContextName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return tasks.ReadError(filepath.Join(f.from, ralphContextName), err)
	}
	if hint := strings.TrimSpace(string(text)); hint != "" {
		f.hints = append(f.hints, hint)
	}
	return nil
}

// readKept reads a file in a directory that agents write to, and returns its time of change. It
// follows no link: a link could make the host read a file that the agents may not.
func (a *app) readKept(dir, name string) ([]byte, time.Time, error) {
	fd, err := a.openKept(dir, unix.O_PATH)
	if err != nil {
		return nil, time.Time{}, err
	}
	defer func() { _ = unix.Close(fd) }()
	file, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, time.Time{}, &fs.PathError{Op: "open without following links", Path: filepath.Join(dir, name), Err: err}
	}
	f := os.NewFile(uintptr(file), filepath.Join(dir, name))
	defer f.Close()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
	}
	if err != nil {
		return nil, time.Time{}, err
	}
	data, err := store.ReadAll(f, maxPrompt)
	return data, info.ModTime().UTC(), err
}

// openKept opens such a directory.
func (a *app) openKept(dir string, flags uint64) (int, error) {
	how := unix.OpenHow{Flags: flags | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}
	path := dir
	if filepath.IsAbs(dir) { // its parent may be reached through the user's own links
		paths, err := a.Paths()
		if err != nil {
			return 0, err
		}
		above, err := paths.Real(filepath.Dir(dir))
		if err != nil {
			return 0, err
		}
		path = filepath.Join(above, filepath.Base(dir))
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &how)
	if err != nil {
		return 0, &fs.PathError{Op: "open without following links", Path: dir, Err: err}
	}
	return fd, nil
}

// maxOthers is how many unused files are listed.
const maxOthers = 20

// othersKept lists the other files in such a directory.
func (a *app) othersKept(dir string, but ...string) ([]string, error) {
	fd, err := a.openKept(dir, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	d := os.NewFile(uintptr(fd), dir)
	defer d.Close()
	names, err := d.Readdirnames(maxOthers)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(but, name) })
	slices.Sort(names)
	for i, name := range names {
		names[i] = quote.Path(name)
	}
	return names, err
}

// takeBoxes reads the tasks in the directory.
func (f *loopFlags) takeBoxes(a *app) error {
	name := filepath.Join(f.from, ralphTasksName)
	data, at, err := a.readKept(f.from, ralphTasksName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return tasks.ReadError(name, err)
	}
	boxes, err := task.ReadBoxes(data, at)
	if err != nil {
		return &spec.Error{Op: "take over " + name, Err: err}
	}
	f.boxes = boxes.Tasks
	tasks.NotePassed(a.Console, name, boxes.Passed)
	return nil
}
