// Package setup runs the commands of a sandbox's devcontainer.json, each when it is due.
package setup

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"time"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/keeperclient"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// record records which commands of its devcontainer.json a sandbox has run. The record is on the
// host: a program inside must not say which commands were run.
type record struct {
	Version int `json:"version"`
	// Done has the end of each successful command that is run once, in their order.
	Done []time.Time `json:"done"`
	// Started is the start of the sandbox for which the start commands were run.
	Started time.Time `json:"started,omitzero"`
}

// Run runs the due commands of a sandbox's devcontainer.json, one after the other. It stops at
// the first that fails, and begins with that one the next time. A command that is run once counts
// as done when its changes are on the disk. Of several concurrent callers one runs the commands,
// and the others wait.
func Run(ctx context.Context, e *engine.Engine, sb *spec.Sandbox, attaches bool, do func(context.Context, spec.SetUp) error) error {
	if sb.Devcontainer == nil || len(sb.Devcontainer.Commands) == 0 {
		return nil
	}
	d := e.Store.Sandbox(sb.ID)
	lock, err := lockSetUp(ctx, e, sb, d)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	had, err := readRecord(d)
	if err != nil {
		return &spec.Error{Op: "set up sandbox " + sb.Name, Err: err}
	}
	if err := setUpOnce(ctx, e, sb, &had, do); err != nil {
		return err
	}
	if err := ensureRunning(ctx, e, sb); err != nil {
		return err
	}
	if err := setUpStart(ctx, e, sb, had, do); err != nil || !attaches {
		return err
	}
	return runEach(ctx, sb, spec.PostAttach, do)
}

// lockSetUp waits until no other command sets the sandbox up.
func lockSetUp(ctx context.Context, e *engine.Engine, sb *spec.Sandbox, d store.Sandbox) (*store.Lock, error) {
	defer e.Keepers().Patiently("another command sets sandbox %s up; waiting for it", sb.Name)()
	for {
		lock, err := store.TryLock(d.SetUpLock())
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

// setUpOnce runs those commands that are run once and are not done yet.
func setUpOnce(ctx context.Context, e *engine.Engine, sb *spec.Sandbox, had *record, do func(context.Context, spec.SetUp) error) error {
	n := 0
	for _, c := range sb.Devcontainer.Commands {
		if !c.Once() {
			continue
		}
		if n++; n <= len(had.Done) {
			continue
		}
		if err := do(ctx, c); err != nil {
			return err
		}
		ended := time.Now().UTC()
		if sb.Remove { // it is not used again
			continue
		}
		had.Done = append(had.Done, ended)
		if err := keepSetUp(ctx, e, sb, had); err != nil {
			return (&spec.Error{Op: "keep what " + c.Title() + " did in " + sb.Name, Err: err}).WithHint("it will be run again")
		}
	}
	return nil
}

// keepSetUp brings a command's changes to the disk, and then records the command.
func keepSetUp(ctx context.Context, e *engine.Engine, sb *spec.Sandbox, had *record) error {
	err := e.Keepers().TellWithin(ctx, sb, func(ctx context.Context, c *unixconn.Conn) error {
		defer c.Close()
		defer context.AfterFunc(ctx, func() { c.Close() })()
		return keeperclient.AskToSave(c)
	}, func() error { return spec.Errorf(spec.ErrSandbox, "sandbox %s ended", sb.Name) })
	if err != nil {
		return err
	}
	d := e.Store.Sandbox(sb.ID)
	if err := store.SyncFS(d.Dir); err != nil {
		return err
	}
	return store.WriteJSON(d.SetUp(), had)
}

// ensureRunning makes sure that a sandbox runs.
func ensureRunning(ctx context.Context, e *engine.Engine, sb *spec.Sandbox) error {
	c, err := e.Connect(ctx, sb)
	if err != nil {
		return err
	}
	return c.Close()
}

// setUpStart runs the commands of a start, once for each start.
func setUpStart(ctx context.Context, e *engine.Engine, sb *spec.Sandbox, had record, do func(context.Context, spec.SetUp) error) error {
	st, err := e.Keepers().Inside(ctx, sb)
	if err != nil || st.Status.StartedAt == nil || st.Status.StartedAt.Equal(had.Started) {
		return err
	}
	if err := runEach(ctx, sb, spec.PostStart, do); err != nil {
		return err
	}
	had.Started = *st.Status.StartedAt
	return store.WriteJSON(e.Store.Sandbox(sb.ID).SetUp(), had)
}

func runEach(ctx context.Context, sb *spec.Sandbox, when string, do func(context.Context, spec.SetUp) error) error {
	for _, c := range sb.Devcontainer.Commands {
		if c.When != when {
			continue
		}
		if err := do(ctx, c); err != nil {
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
