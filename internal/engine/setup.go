package engine

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"time"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// setUps tells which commands of its devcontainer.json a sandbox has behind it. It lies
// on the host: what is inside does not say what was run.
type setUps struct {
	Version int `json:"version"`
	// Done is when each of those that are run once had ended well, in their order.
	Done []time.Time `json:"done"`
	// Started is the start of the sandbox for which the commands of a start were run.
	Started time.Time `json:"started,omitzero"`
}

// SetUp has those commands of a sandbox's devcontainer.json be run that are due, one
// after the other. The first that fails ends it; the next time it is the first. One that
// is run once counts when what it changed is on the disk. Of several callers at once one
// does it, and the others wait.
func (e *Engine) SetUp(ctx context.Context, sb *spec.Sandbox, attaches bool, do func(context.Context, spec.SetUp) error) error {
	if sb.Devcontainer == nil || len(sb.Devcontainer.Commands) == 0 {
		return nil
	}
	d := e.Store.Sandbox(sb.ID)
	lock, err := e.lockSetUp(ctx, sb, d)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	had, err := readSetUps(d)
	if err != nil {
		return &spec.Error{Op: "set up sandbox " + sb.Name, Err: err}
	}
	if err := e.setUpOnce(ctx, sb, &had, do); err != nil {
		return err
	}
	if err := e.begun(ctx, sb); err != nil {
		return err
	}
	if err := e.setUpStart(ctx, sb, had, do); err != nil || !attaches {
		return err
	}
	return each(ctx, sb, spec.PostAttach, do)
}

// lockSetUp waits until nobody else sets a sandbox up.
func (e *Engine) lockSetUp(ctx context.Context, sb *spec.Sandbox, d store.Sandbox) (*store.Lock, error) {
	defer e.patiently("another command sets sandbox %s up; waiting for it", sb.Name)()
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

// setUpPoll is how often it is looked whether somebody else has set a sandbox up.
const setUpPoll = 50 * time.Millisecond

func readSetUps(d store.Sandbox) (setUps, error) {
	had := setUps{}
	err := store.ReadJSON(d.SetUp(), &had)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	had.Version = spec.Version
	return had, err
}

// setUpOnce has the commands be run that are run once, as far as they were not.
func (e *Engine) setUpOnce(ctx context.Context, sb *spec.Sandbox, had *setUps, do func(context.Context, spec.SetUp) error) error {
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
		if sb.Remove { // nobody comes back to it
			continue
		}
		had.Done = append(had.Done, ended)
		if err := e.keepSetUp(ctx, sb, had); err != nil {
			return (&spec.Error{Op: "keep what " + c.Title() + " did in " + sb.Name, Err: err}).WithHint("it will be run again")
		}
	}
	return nil
}

// keepSetUp brings to the disk what a command has changed, and then that it has.
func (e *Engine) keepSetUp(ctx context.Context, sb *spec.Sandbox, had *setUps) error {
	err := e.tellWithin(ctx, sb, func(ctx context.Context, c *unixconn.Conn) error {
		defer c.Close()
		defer context.AfterFunc(ctx, func() { c.Close() })()
		return askToSave(c)
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

// begun sees that a sandbox runs.
func (e *Engine) begun(ctx context.Context, sb *spec.Sandbox) error {
	c, err := e.Connect(ctx, sb)
	if err != nil {
		return err
	}
	return c.Close()
}

// setUpStart has the commands of a start be run, once for each.
func (e *Engine) setUpStart(ctx context.Context, sb *spec.Sandbox, had setUps, do func(context.Context, spec.SetUp) error) error {
	st, err := e.Inside(ctx, sb)
	if err != nil || st.Status.StartedAt == nil || st.Status.StartedAt.Equal(had.Started) {
		return err
	}
	if err := each(ctx, sb, spec.PostStart, do); err != nil {
		return err
	}
	had.Started = *st.Status.StartedAt
	return store.WriteJSON(e.Store.Sandbox(sb.ID).SetUp(), had)
}

func each(ctx context.Context, sb *spec.Sandbox, when string, do func(context.Context, spec.SetUp) error) error {
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

// setUpsAt is what a sandbox had behind it at some time, when its files are what they
// were then: what was run later has never been.
func setUpsAt(d store.Sandbox, at time.Time) ([]byte, error) {
	had, err := readSetUps(d)
	if err != nil {
		return nil, err
	}
	then := setUps{Version: had.Version, Done: []time.Time{}}
	for _, t := range had.Done {
		if t.After(at) {
			break
		}
		then.Done = append(then.Done, t)
	}
	return json.Marshal(then)
}

// writeSetUps writes what setUpsAt gives for another sandbox, or the same.
func writeSetUps(from store.Sandbox, at time.Time, to store.Sandbox) error {
	text, err := setUpsAt(from, at)
	if err != nil {
		return err
	}
	return store.WriteFile(to.SetUp(), text)
}
