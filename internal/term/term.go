// Package term is the interface to the user's terminal.
//
// It puts the terminal into raw mode and always restores it (Raw), remembers the effects of a program on
// it so that they can be undone (Modes), takes the detach keys out of the user's input (Filter), and
// makes untrusted text safe to show (Sanitize, SanitizingWriter). It draws nothing and decides nothing.
package term

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// IsTerminal reports whether f is a terminal.
func IsTerminal(f *os.File) bool {
	err := control(f, func(fd int) error {
		_, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		return err
	})
	return err == nil
}

// Size returns the size of the terminal f in characters.
func Size(f *os.File) (rows, cols uint16, err error) {
	ws, err := Winsize(f)
	return ws.Row, ws.Col, err
}

// Winsize returns the size of the terminal f in characters and in pixels, which are zero on most
// terminals.
func Winsize(f *os.File) (ws unix.Winsize, err error) {
	err = control(f, func(fd int) error {
		got, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
		if err == nil {
			ws = *got
		}
		return err
	})
	if err != nil {
		return ws, fmt.Errorf("read terminal size: %w", err)
	}
	return ws, nil
}

// control runs fn with the descriptor of f. Unlike f.Fd it leaves f's blocking
// mode alone, so that deadlines on it keep working.
func control(f *os.File, fn func(fd int) error) error {
	if f == nil {
		return os.ErrInvalid
	}
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := conn.Control(func(fd uintptr) { inner = fn(int(fd)) }); err != nil {
		return err
	}
	return inner
}
