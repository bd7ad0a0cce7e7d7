package term

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// maxSecret bounds a line that is read without showing it, in bytes. The terminal's own limit is lower.
const maxSecret = 64 << 10

// ReadSecret asks for a line from the terminal f, and reads it without showing it. Earlier input is
// discarded. An answer that follows ask at once is read. A signal that would end the process first
// restores the terminal.
func ReadSecret(f *os.File, ask func()) ([]byte, error) {
	var saved *unix.Termios
	err := control(f, func(fd int) (err error) {
		if saved, err = unix.IoctlGetTermios(fd, unix.TCGETS); err != nil {
			return err
		}
		quiet := *saved
		quiet.Lflag &^= unix.ECHO
		quiet.Lflag |= unix.ICANON | unix.ISIG | unix.ECHONL
		quiet.Iflag |= unix.ICRNL
		return unix.IoctlSetTermios(fd, unix.TCSETSF, &quiet)
	})
	if err != nil {
		return nil, fmt.Errorf("turn the echo off: %w", err)
	}
	restore := func() error {
		return control(f, func(fd int) error { return unix.IoctlSetTermios(fd, unix.TCSETS, saved) })
	}
	sigs := make(chan os.Signal, 1)
	signal.Notify(sigs, unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT)
	defer signal.Stop(sigs)
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-done:
		case s := <-sigs:
			_ = restore()
			signal.Reset(s)
			_ = unix.Kill(os.Getpid(), s.(unix.Signal))
		}
	}()
	ask()
	line, err := bufio.NewReader(io.LimitReader(f, maxSecret)).ReadBytes('\n')
	if errors.Is(err, io.EOF) && len(line) > 0 {
		err = nil
	}
	return line, errors.Join(err, restore())
}
