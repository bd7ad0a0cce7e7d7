package credential

import (
	"errors"
	"os/exec"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// terminal is this process's, to be lent to a process group. Nil is none.
type terminal struct {
	fd       int
	settings *unix.Termios
}

// oneTerminal is held by who has borrowed the terminal: two questions at once
// could not be told apart.
var oneTerminal sync.Mutex

// borrowTerminal gives the terminal if we are in its foreground, as soon as
// nobody else has it.
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

// close gives the terminal to who else waits for it.
func (t *terminal) close() {
	if t != nil {
		_ = unix.Close(t.fd)
		oneTerminal.Unlock()
	}
}

// lend puts a process group into the foreground. If it wanted to read before, it
// was stopped.
func (t *terminal) lend(group int) {
	if t != nil && t.foreground(group) == nil {
		_ = unix.Kill(-group, unix.SIGCONT)
	}
}

// takeBack puts us into the foreground again. What ended otherwise than well may
// have left the terminal without echo, and an interrupt from the keyboard was
// meant for us, too: it went to the foreground only.
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

// foreground sets the terminal's foreground process group. Who is not in it
// itself would be stopped for that by SIGTTOU, unless it blocks that signal.
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
