package term

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// resets undoes the most common leftovers of a program that died. None of them has an effect on a
// terminal that does not need it. So leaving the alternate screen is not among them: Modes does that.
const resets = "\x1b[?1l\x1b>" + // cursor keys and keypad as usual
	"\x1b[?25h" + // show the cursor
	"\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l" + // no mouse reports
	"\x1b[?1004l" + // no focus reports
	"\x1b[?2004l" + // no bracketed paste
	"\x1b[m" // plain text

// hangTime bounds the wait for a terminal that takes no more output. Restore runs while the process is
// ending and must not keep it alive.
const hangTime = 500 * time.Millisecond

// Raw is a terminal in raw mode.
type Raw struct {
	// Modes undoes at Restore the effects of the output that was written to it. To use it, send the
	// program's output through io.MultiWriter(&raw.Modes, os.Stdout).
	Modes Modes
	// Silent makes Restore write nothing: a program reads the output, and not a person's terminal.
	Silent bool

	mu    sync.Mutex
	fd    int // our own duplicate: closing the caller's file must not stop Restore; -1 when restored
	saved unix.Termios
	dumb  bool
	title bool // a title must be restored
}

// MakeRaw puts the terminal f into raw mode: every key arrives at once and unchanged, and output is not
// changed. The caller must call Restore on every way out: deferred, and from its handlers of SIGTERM and
// SIGHUP.
func MakeRaw(f *os.File) (*Raw, error) {
	r := &Raw{dumb: os.Getenv("TERM") == "dumb"}
	err := control(f, func(fd int) (err error) {
		r.fd, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open terminal: %w", err)
	}
	if err := r.enterRaw(); err != nil {
		unix.Close(r.fd)
		return nil, err
	}
	return r, nil
}

func (r *Raw) enterRaw() error {
	saved, err := unix.IoctlGetTermios(r.fd, unix.TCGETS)
	if err != nil {
		return fmt.Errorf("read terminal settings: %w", err)
	}
	r.saved = *saved
	raw := rawSettings(*saved)
	if err := unix.IoctlSetTermios(r.fd, unix.TCSETS, &raw); err != nil {
		return fmt.Errorf("make terminal raw: %w", err)
	}
	return nil
}

// rawSettings is cfmakeraw of termios(3).
func rawSettings(t unix.Termios) unix.Termios {
	t.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	t.Oflag &^= unix.OPOST
	t.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	t.Cflag &^= unix.CSIZE | unix.PARENB
	t.Cflag |= unix.CS8
	t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 1, 0
	return t
}

// Title returns the sequence that shows a text in the title of the terminal's window. Restore restores
// the earlier title on terminals that keep it, like xterm and most others. The text must be plain.
func (r *Raw) Title(text string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dumb {
		return ""
	}
	r.title = true
	return pushTitle + "\x1b]2;" + text + "\a"
}

const (
	pushTitle = "\x1b[22;2t"
	popTitle  = "\x1b[23;2t"
)

// Restore restores the settings from before MakeRaw and undoes what a program left behind. It may be
// called repeatedly, from any goroutine, and works even if the file given to MakeRaw is closed by then.
// It returns within a second even if the terminal hangs.
//
// In the background it does nothing: the terminal then belongs to the shell, which has already applied
// its own settings. A later call in the foreground does the work.
func (r *Raw) Restore() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fd < 0 || r.inBackground() {
		return nil
	}
	// TCSETS, not TCSETSW: waiting for output to drain could last for ever.
	if err := unix.IoctlSetTermios(r.fd, unix.TCSETS, &r.saved); err != nil {
		return fmt.Errorf("restore terminal settings: %w", err)
	}
	fd := r.fd
	r.fd = -1
	if err := writeTerminal(fd, r.undoSequence()); err != nil {
		return fmt.Errorf("reset terminal modes: %w", err)
	}
	return nil
}

// undoSequence returns the sequences to write to the terminal. A dumb terminal would show the resets as garbage.
// The program itself wrote the sequences that Modes saw.
func (r *Raw) undoSequence() []byte {
	if r.Silent {
		return nil
	}
	undo := r.Modes.Undo()
	if r.dumb {
		return undo
	}
	undo = append(undo, resets...)
	if r.title {
		undo = append(undo, popTitle...)
	}
	return undo
}

// inBackground reports whether another job owns the terminal. Using it then would stop this process
// (SIGTTOU), perhaps while it is ending.
func (r *Raw) inBackground() bool {
	owner, err := unix.IoctlGetInt(r.fd, unix.TIOCGPGRP)
	return err == nil && owner != 0 && owner != unix.Getpgrp()
}

// writeTerminal writes p if the terminal takes it in time. The descriptor is closed when the write
// has ended.
func writeTerminal(fd int, p []byte) error {
	done := make(chan error, 1)
	go func() {
		defer unix.Close(fd)
		done <- writeAll(fd, p)
	}()
	select {
	case err := <-done:
		return err
	case <-time.After(hangTime): // the goroutine ends with the process, or when the terminal wakes up
		return os.ErrDeadlineExceeded
	}
}

func writeAll(fd int, p []byte) error {
	for len(p) > 0 {
		n, err := unix.Write(fd, p)
		switch {
		case err == nil:
			p = p[n:]
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN): // another process made the terminal non-blocking
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, -1)
		case errors.Is(err, unix.EBADF):
			return writeReopened(fd, p)
		default:
			return err
		}
	}
	return nil
}

// writeReopened is for a terminal that was opened only for reading, as in "bothy run </dev/tty".
func writeReopened(fd int, p []byte) error {
	f, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", fd), os.O_WRONLY|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.Write(p)
	return err
}
