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

// AttendArgv0 is the name under which the binary makes a running sandbox's checkpoints
// that nobody asks for. Its arguments are the state directory, the sandbox's ID and what
// the former may take of the disk. It works as the command line does, outside of the keeper's namespaces: there are files
// in workspaces that the keeper cannot read.
const AttendArgv0 = "bothy-attend"

// attendLockFD is where it finds its lock, which it holds as long as it lives.
const attendLockFD = 3

// attend has somebody make the checkpoints that nobody asks for, if there are to be
// any, unless somebody does. That it cannot be done is said; the sandbox runs all the
// same.
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
	defer lock.Unlock() // the child has it, too
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

// attendLog is where it says what went wrong.
const attendLog = "checkpoints.log"

// CheckpointWhen decides when checkpoints of a sandbox are made by themselves, also of
// one that runs.
func (e *Engine) CheckpointWhen(ctx context.Context, sb *spec.Sandbox, when spec.Occasions) error {
	lock, err := e.Store.PolicyLock() // which all have who change a spec
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
		if errors.Is(err, spec.ErrUsage) { // it was started by a Bothy that knew of none
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
