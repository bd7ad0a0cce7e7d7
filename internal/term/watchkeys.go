package term

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// keyPoll is how often WatchKeys looks whether it shall stop, in milliseconds.
const keyPoll = 100

// WatchKeys calls pressed, in a goroutine, for each byte that a person types in the terminal f, at once and
// without an echo. Signals such as that of Ctrl-C stay as they are. In the background it reads nothing,
// because the terminal then belongs to another job. The caller must call stop on every way out: it ends the
// goroutine and restores the settings.
func WatchKeys(f *os.File, pressed func(byte)) (stop func(), err error) {
	var saved *unix.Termios
	err = control(f, func(fd int) (err error) {
		if !ownsTerminal(fd) {
			return nil
		}
		if saved, err = unix.IoctlGetTermios(fd, unix.TCGETS); err != nil {
			return err
		}
		keys := *saved
		keys.Lflag &^= unix.ICANON | unix.ECHO
		keys.Cc[unix.VMIN], keys.Cc[unix.VTIME] = 1, 0
		return unix.IoctlSetTermios(fd, unix.TCSETS, &keys)
	})
	if err != nil {
		return nil, fmt.Errorf("read keys from the terminal: %w", err)
	}
	var stopped atomic.Bool
	var reading sync.WaitGroup
	reading.Go(func() {
		for !stopped.Load() && control(f, func(fd int) error { return readKeys(fd, pressed) }) == nil {
		}
	})
	return func() {
		if stopped.Swap(true) {
			return
		}
		reading.Wait()
		_ = control(f, func(fd int) error {
			if saved == nil || !ownsTerminal(fd) {
				return nil
			}
			return unix.IoctlSetTermios(fd, unix.TCSETS, saved)
		})
	}, nil
}

// ownsTerminal reports whether this process is in the foreground of a terminal. In the background, to use
// the terminal would stop the process.
func ownsTerminal(fd int) bool {
	owner, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	return err != nil || owner == 0 || owner == unix.Getpgrp()
}

// readKeys waits a moment for keys, and reads them. The error ends the reading.
func readKeys(fd int, pressed func(byte)) error {
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}} //nolint:gosec // a descriptor is small
	if !ownsTerminal(fd) {
		poll[0].Events = 0 // only wait
	}
	_, err := unix.Poll(poll, keyPoll)
	switch {
	case errors.Is(err, unix.EINTR):
		return nil
	case err != nil:
		return err
	case poll[0].Revents&unix.POLLIN == 0:
		if poll[0].Revents != 0 { // it was hung up
			return os.ErrClosed
		}
		return nil
	}
	var typed [16]byte
	n, err := unix.Read(fd, typed[:])
	if errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) {
		return nil
	}
	if err != nil || n == 0 {
		return os.ErrClosed
	}
	for _, b := range typed[:n] {
		pressed(b)
	}
	return nil
}
