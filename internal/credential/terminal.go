package credential

import (
	"errors"
	"os/exec"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// terminal is the terminal of this process, for a process group to use. A nil terminal does nothing.
type terminal struct {
	fd       int
	settings *unix.Termios
}

// oneTerminal is locked while a command has the terminal: a user could not tell the questions of two
// commands apart.
var oneTerminal sync.Mutex

// borrowTerminal waits until no command has the terminal, and returns it. It returns nil if this process
// is not in the terminal's foreground.
func borrowTerminal() *terminal {
	oneTerminal.Lock()
	if t := openTerminal(); t != nil {
		return t
	}
	oneTerminal.Unlock()
	return nil
}

func openTerminal() *terminal {
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	t := &terminal{fd: fd}
	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	if err == nil && group == unix.Getpgrp() {
		t.settings, err = unix.IoctlGetTermios(fd, unix.TCGETS)
	}
	if err != nil || t.settings == nil {
		_ = unix.Close(fd)
		return nil
	}
	return t
}

// release lets the next command have the terminal.
func (t *terminal) release() {
	if t != nil {
		_ = unix.Close(t.fd)
		oneTerminal.Unlock()
	}
}

// lendTo puts a process group into the foreground, and continues it: a group that tried to read before
// was stopped.
func (t *terminal) lendTo(group int) {
	if t != nil && t.foreground(group) == nil {
		_ = unix.Kill(-group, unix.SIGCONT)
	}
}

// takeBack puts this process into the foreground again. A command that failed may have left the terminal
// without echo, so takeBack restores the settings. An interrupt from the keyboard went only to the
// command, so takeBack passes it on.
func (t *terminal) takeBack(err error) {
	if t == nil {
		return
	}
	_ = t.foreground(unix.Getpgrp())
	if err == nil {
		return
	}
	_ = unix.IoctlSetTermios(t.fd, unix.TCSETS, t.settings)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		if s, ok := exit.Sys().(syscall.WaitStatus); ok && s.Signaled() && (s.Signal() == unix.SIGINT || s.Signal() == unix.SIGQUIT) {
			_ = unix.Kill(0, s.Signal())
		}
	}
}

// foreground sets the terminal's foreground process group. SIGTTOU would stop a caller outside of the
// present one, so foreground blocks that signal.
func (t *terminal) foreground(group int) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var block, old unix.Sigset_t
	block.Val[0] = 1 << (unix.SIGTTOU - 1)
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &block, &old); err != nil {
		return err
	}
	defer func() { _ = unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil) }()
	return unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, group)
}
