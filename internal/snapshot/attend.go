package snapshot

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/program"
	"github.com/bothy-dev/bothy/internal/store"
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
func (s *Snapshots) attend(sb *spec.Sandbox) {
	if sb.Checkpoint == "" {
		return
	}
	if err := s.startAttendant(sb); err != nil {
		s.say("sandbox %s has no checkpoints made by themselves: %v", sb.Name, err)
	}
}

func (s *Snapshots) startAttendant(sb *spec.Sandbox) error {
	d := s.directory(sb)
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
	self, err := program.Self()
	if err != nil {
		return err
	}
	cmd := &exec.Cmd{
		Path: self, Args: []string{AttendArgv0, s.engine.Store.Path(), sb.ID, strconv.FormatInt(s.engine.StoreLimit, 10)}, Env: []string{}, Dir: "/", Stderr: said,
		ExtraFiles:  []*os.File{attendLockFD - 3: lock.File()},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", AttendArgv0, err)
	}
	go func() { _ = cmd.Wait() }() // a caller that lives long keeps no zombie
	return nil
}

// attendLog is the log in which the attendant reports errors.
const attendLog = "checkpoints.log"
