package credential

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/term"
)

const commandTimeout = 30 * time.Second

// errLate is the cause for ending a command that took longer.
var errLate = fmt.Errorf("it did not end within %s", commandTimeout)

// runSource runs the command of a secret in its own process group, and returns the command's output. If
// the command fails, is late, or ctx ends, runSource kills the group; only a daemon survives. The
// command's standard input is empty. If this process is Bothy's own and in the foreground of a terminal,
// the command gets the terminal meanwhile: a password manager may ask the user at /dev/tty. In another
// process the command has no terminal, and fails if it asks. The error of a command that fails has the last
// line of its standard error.
func (v *Values) runSource(ctx context.Context, paths *hostpath.Guard, args []string) (out []byte, err error) {
	group := &unix.SysProcAttr{Setpgid: true}
	var t *terminal
	if v.OwnProcess {
		t = borrowTerminal()
		defer t.release()
	} else {
		group = &unix.SysProcAttr{Setsid: true} // a group in the background would be stopped when it asks
	}
	ctx, cancel := context.WithTimeoutCause(ctx, commandTimeout, errLate)
	defer cancel()
	cmd, err := paths.Command(ctx, args[0], args[1:]...)
	if err != nil {
		return nil, err
	}
	var printed, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &printed, &said
	cmd.SysProcAttr = group
	killAll := func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	cmd.Cancel = killAll
	cmd.WaitDelay = time.Second // a child of it may hold our pipe
	if err = cmd.Start(); err == nil {
		t.lendTo(cmd.Process.Pid)
		if err = cmd.Wait(); err != nil {
			_ = killAll()
		}
		t.takeBack(err)
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("its command was ended: %w", context.Cause(ctx))
	}
	if err != nil {
		text := strings.TrimSpace(said.String())
		return nil, &commandError{err, strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])}
	}
	return printed.Bytes(), nil
}

// commandError is the error of a command that printed no value.
type commandError struct {
	err  error
	line string // the last of its standard error
}

func (e *commandError) Error() string { return "its command failed: " + e.err.Error() + e.lastWords() }

func (e *commandError) Unwrap() error { return e.err }

// lastWords returns the end of the error, in the command's own words.
func (e *commandError) lastWords() string {
	if e.line == "" {
		return ""
	}
	return ": " + e.line
}

// untilSignal returns a context that ends when a signal comes that would end this process: the process
// groups of commands must end first. The caller calls settle when they have ended; it raises the signal
// again. In a process that is not Bothy's own the signals are left alone.
func (v *Values) untilSignal(ctx context.Context) (_ context.Context, settle func()) {
	if !v.OwnProcess {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var ends []os.Signal
	for _, s := range []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT} {
		if !signal.Ignored(s) {
			ends = append(ends, s)
		}
	}
	sigs := make(chan os.Signal, 1)
	came := make(chan os.Signal, 1)
	signal.Notify(sigs, ends...)
	go func() {
		defer close(came)
		if s, ok := <-sigs; ok {
			cancel()
			came <- s
		}
	}()
	return ctx, func() {
		signal.Stop(sigs) // a signal that was sent by now has arrived
		close(sigs)
		if s, ok := <-came; ok {
			term.Raise(s.(unix.Signal))
		}
		cancel()
	}
}
