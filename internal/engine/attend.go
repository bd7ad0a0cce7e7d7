package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// AttendArgv0 is the name under which the binary runs as the attendant, which makes a running
// sandbox's automatic checkpoints. Its arguments are the state directory, the sandbox's ID and the
// limit of the state directory's size. Like the CLI it runs outside the keeper's namespaces:
// workspaces contain files that the keeper cannot read.
const AttendArgv0 = "bothy-attend"

// attendLockFD is the file descriptor of the attendant's lock, which it holds as long as it lives.
const attendLockFD = 3

// attend starts the attendant if the sandbox is to have automatic checkpoints and no attendant
// runs. If that fails, attend tells the user; the sandbox runs without it.
func (e *Engine) attend(sb *spec.Sandbox) {
	if sb.Checkpoint == "" {
		return
	}
	if err := e.startAttendant(sb); err != nil {
		e.say("sandbox %s has no checkpoints made by themselves: %v", sb.Name, err)
	}
}

func (e *Engine) startAttendant(sb *spec.Sandbox) error {
	d := e.Store.Sandbox(sb.ID)
	lock, err := store.TryLock(d.AttendLock())
	if errors.Is(err, store.ErrLocked) {
		return nil
	}
	if err != nil {
		return err
	}
	defer lock.Unlock() // the child holds it, too
	said, err := os.OpenFile(d.Log(attendLog), os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer said.Close()
	cmd := &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{AttendArgv0, e.Store.Path(), sb.ID, strconv.FormatInt(e.StoreLimit, 10)}, Env: []string{}, Dir: "/", Stderr: said,
		ExtraFiles:  []*os.File{attendLockFD - 3: lock.File()},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", AttendArgv0, err)
	}
	return cmd.Process.Release()
}

// attendLog is the log in which the attendant reports errors.
const attendLog = "checkpoints.log"

// CheckpointWhen sets when automatic checkpoints of a sandbox are made, also of one that runs.
func (e *Engine) CheckpointWhen(ctx context.Context, sb *spec.Sandbox, when spec.Occasions) error {
	lock, err := e.Store.PolicyLock() // every change of a spec takes it
	if err != nil {
		return err
	}
	defer lock.Unlock()
	changed, err := e.Store.Load(sb.ID)
	if err != nil {
		return err
	}
	changed.Checkpoint = when.String()
	write := func() error { return store.WriteJSON(e.Store.Sandbox(sb.ID).Spec(), changed) }
	err = e.tell(ctx, sb, func(ctx context.Context, c *unixconn.Conn) error {
		if err := write(); err != nil {
			c.Close()
			return err
		}
		err := orderKept(ctx, sb, c, wire.Ask{Op: wire.OpChanged})
		if errors.Is(err, spec.ErrUsage) { // its keeper is of an older Bothy that does not know this request
			e.say("sandbox %s does so from its next start on", sb.Name)
			return nil
		}
		if err == nil {
			e.attend(changed)
		}
		return err
	}, write)
	if err != nil {
		return &spec.Error{Op: "change when checkpoints of " + sb.Name + " are made", Err: err}
	}
	return nil
}
