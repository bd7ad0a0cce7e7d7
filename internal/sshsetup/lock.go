package sshsetup

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/spec"
)

// Bounds of the wait for another setup.
const (
	lockTime  = 10 * time.Second
	lockPause = 50 * time.Millisecond
)

// lockHome makes setups of one home directory take turns, whatever their state directories: they edit one file. It
// locks the directory itself, which leaves no file there. Some network file systems lock no directory:
// there setups of one state directory still take turns, and each replaces the file as a whole.
func (s *Setup) lockHome() (unlock func(), err error) {
	f, err := os.Open(s.home)
	if err != nil {
		return nil, &spec.Error{Op: "lock your home directory", Err: err}
	}
	for end := time.Now().Add(lockTime); ; time.Sleep(lockPause) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil, errors.Is(err, unix.EBADF), errors.Is(err, unix.ENOLCK), errors.Is(err, unix.EOPNOTSUPP):
			return func() { f.Close() }, nil
		case errors.Is(err, unix.EWOULDBLOCK) && time.Now().Before(end), errors.Is(err, unix.EINTR):
			continue
		}
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, spec.Errorf(spec.ErrConflict, "another program has locked %s for more than %s", s.home, lockTime).
				WithHint("if no other bothy setup ssh runs, end the program that holds the lock: lsof +d %s", s.home)
		}
		return nil, &spec.Error{Op: "lock " + s.home, Err: err}
	}
}

// takeLocks makes setups of this home, and those of this state directory, take turns.
func (s *Setup) takeLocks() (unlock func(), err error) {
	home, err := s.lockHome()
	if err != nil {
		return nil, err
	}
	own, err := s.store.SSHLock()
	if err != nil {
		home()
		return nil, err
	}
	return func() { own.Unlock(); home() }, nil
}
