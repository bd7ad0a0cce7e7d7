// Package setup makes a sandbox ready for work: it looks for the Docker daemon that the sandbox wants, and
// runs the commands of the sandbox's devcontainer.json, each when it is due.
package setup

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"slices"
	"time"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/keeperclient"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// Viewer is the person or the program that watches a set-up.
type Viewer struct {
	// Note receives the title of each command, and findings.
	Note func(format string, args ...any)
	// Output receives the output of the commands: in each call one line behind a bar, without control
	// characters.
	Output io.Writer
	// Ask asks a person a question. Nil: no person can be asked.
	Ask func(question string) bool
}

// record records which parts of its set-up a sandbox has run. The record is on the host: a program inside
// must not say which commands were run.
type record struct {
	Version int `json:"version"`
	// Done has the end of each successful command that is run once, in their order.
	Done []time.Time `json:"done"`
	// Started is the start of the sandbox for which the start commands were run.
	Started time.Time `json:"started,omitzero"`
	// Docker says that the sandbox was searched for a Docker daemon.
	Docker bool `json:"docker,omitempty"`
}

// sequence is the set-up of one sandbox.
type sequence struct {
	engine  *engine.Engine
	sandbox *spec.Sandbox
	dir     store.Sandbox
	viewer  Viewer
	had     record
	do      func(context.Context, spec.SetUp) error // runs a command inside
}

// IsNeeded reports whether a sandbox has anything to set up, now or later.
func IsNeeded(sb *spec.Sandbox) bool { return sb.Docker || hasCommands(sb) }

func hasCommands(sb *spec.Sandbox) bool {
	return sb.Devcontainer != nil && len(sb.Devcontainer.Commands) > 0
}

// Run looks once for the Docker daemon of a sandbox that has one, and then runs the due commands of its
// devcontainer.json, one after the other. It starts the sandbox if it is stopped. It stops at the first
// command that fails, and begins with that one the next time. A command that is run once counts as done
// when its changes are on the disk. Of several concurrent callers one runs the commands, and the others
// wait. The commands for an attachment run only if attaches is set.
func Run(ctx context.Context, e *engine.Engine, sb *spec.Sandbox, attaches bool, v Viewer) error {
	if !IsNeeded(sb) {
		return nil
	}
	s := &sequence{engine: e, sandbox: sb, dir: e.Store.Sandbox(sb.ID), viewer: v}
	s.do = s.runCommand
	var err error
	if s.had, err = readRecord(s.dir); err == nil && s.isOver(attaches) {
		return nil // so that commands do not wait for each other
	}
	lock, err := s.lockSetUp(ctx)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	if s.had, err = readRecord(s.dir); err != nil {
		return &spec.Error{Op: "set up sandbox " + sb.Name, Err: err}
	}
	return s.runDue(ctx, attaches)
}

// isOver reports whether nothing is due, as the record says, and nothing can become due.
func (s *sequence) isOver(attaches bool) bool {
	if s.sandbox.Docker && !s.had.Docker {
		return false
	}
	if !hasCommands(s.sandbox) {
		return true
	}
	once := 0
	for _, c := range s.sandbox.Devcontainer.Commands {
		switch {
		case c.Once():
			once++
		case c.When == spec.PostStart, attaches && c.When == spec.PostAttach:
			return false
		}
	}
	return once <= len(s.had.Done)
}

// runDue runs all that is due.
func (s *sequence) runDue(ctx context.Context, attaches bool) error {
	if err := s.provideDocker(ctx); err != nil || !hasCommands(s.sandbox) {
		return err
	}
	if err := s.runOnce(ctx); err != nil {
		return err
	}
	if err := s.runStart(ctx); err != nil || !attaches {
		return err
	}
	return s.runEach(ctx, spec.PostAttach)
}

// lockSetUp waits until no other command sets the sandbox up.
func (s *sequence) lockSetUp(ctx context.Context) (*store.Lock, error) {
	defer s.engine.Keepers().Patiently("another command sets sandbox %s up; waiting for it (bothy exec --no-setup does not wait)", s.sandbox.Name)()
	for {
		lock, err := store.TryLock(s.dir.SetUpLock())
		if !errors.Is(err, store.ErrLocked) {
			return lock, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(setUpPoll):
		}
	}
}

// setUpPoll is how often lockSetUp checks whether the other command is done.
const setUpPoll = 50 * time.Millisecond

func readRecord(d store.Sandbox) (record, error) {
	had := record{}
	err := store.ReadJSON(d.SetUp(), &had)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	had.Version = spec.Version
	return had, err
}

// runOnce runs those commands that are run once and are not done yet.
func (s *sequence) runOnce(ctx context.Context) error {
	n := 0
	for _, c := range s.sandbox.Devcontainer.Commands {
		if !c.Once() {
			continue
		}
		if n++; n <= len(s.had.Done) {
			continue
		}
		if err := s.do(ctx, c); err != nil {
			return err
		}
		ended := time.Now().UTC()
		if s.sandbox.Remove { // it is not used again
			continue
		}
		s.had.Done = append(s.had.Done, ended)
		if err := s.keepChanges(ctx); err != nil {
			return (&spec.Error{Op: "keep what " + c.Title() + " did in " + s.sandbox.Name, Err: err}).WithHint("it will be run again")
		}
	}
	return nil
}

// keepChanges brings a command's changes to the disk, and then records the command.
func (s *sequence) keepChanges(ctx context.Context) error {
	err := s.engine.Keepers().TellWithin(ctx, s.sandbox, func(ctx context.Context, c *unixconn.Conn) error {
		defer c.Close()
		defer context.AfterFunc(ctx, func() { c.Close() })()
		return keeperclient.AskToSave(c)
	}, func() error { return spec.Errorf(spec.ErrSandbox, "sandbox %s ended", s.sandbox.Name) })
	if err != nil {
		return err
	}
	if err := store.SyncFS(s.dir.Dir); err != nil {
		return err
	}
	return s.writeRecord()
}

func (s *sequence) writeRecord() error { return store.WriteJSON(s.dir.SetUp(), s.had) }

// runStart runs the commands of a start, once for each start.
func (s *sequence) runStart(ctx context.Context) error {
	if !slices.ContainsFunc(s.sandbox.Devcontainer.Commands, func(c spec.SetUp) bool { return c.When == spec.PostStart }) {
		return nil
	}
	if err := s.ensureRunning(ctx); err != nil {
		return err
	}
	st, err := s.engine.Keepers().Inside(ctx, s.sandbox)
	if err != nil || st.Status.StartedAt == nil || st.Status.StartedAt.Equal(s.had.Started) {
		return err
	}
	if err := s.runEach(ctx, spec.PostStart); err != nil {
		return err
	}
	s.had.Started = *st.Status.StartedAt
	return s.writeRecord()
}

// ensureRunning makes sure that the sandbox runs.
func (s *sequence) ensureRunning(ctx context.Context) error {
	c, err := s.engine.Connect(ctx, s.sandbox)
	if err != nil {
		return err
	}
	return c.Close()
}

func (s *sequence) runEach(ctx context.Context, when string) error {
	for _, c := range s.sandbox.Devcontainer.Commands {
		if c.When != when {
			continue
		}
		if err := s.do(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// RecordAt returns the record of a sandbox as of a given time, for files that are restored to that
// time: they have no trace of later commands.
func RecordAt(d store.Sandbox, at time.Time) ([]byte, error) {
	had, err := readRecord(d)
	if err != nil {
		return nil, err
	}
	then := record{Version: had.Version, Done: []time.Time{}}
	for _, t := range had.Done {
		if t.After(at) {
			break
		}
		then.Done = append(then.Done, t)
	}
	return json.Marshal(then)
}
