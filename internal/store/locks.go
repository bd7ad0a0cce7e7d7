package store

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

var ErrLocked = errors.New("locked by another process")

type Lock struct{ f *os.File }

func TryLock(path string) (*Lock, error) { return lock(path, os.O_CREATE, unix.LOCK_EX|unix.LOCK_NB) }

func TryShareLock(path string) (*Lock, error) {
	return lock(path, os.O_CREATE, unix.LOCK_SH|unix.LOCK_NB)
}

func TryLockThere(path string) (*Lock, error) {
	l, err := lock(path, 0, unix.LOCK_EX|unix.LOCK_NB)
	if err != nil {
		return nil, err
	}
	if _, err := os.Lstat(path); err != nil {
		l.Unlock()
		return nil, err
	}
	return l, nil
}

func IsLocked(path string) bool {
	l, err := lock(path, 0, unix.LOCK_SH|unix.LOCK_NB)
	if err == nil {
		l.Unlock()
	}
	return errors.Is(err, ErrLocked)
}

func WaitLock(path string) (*Lock, error) { return lock(path, os.O_CREATE, unix.LOCK_EX) }

func AwaitLock(ctx context.Context, path string) (*Lock, error) {
	f, err := openLock(path, os.O_CREATE, unix.LOCK_EX)
	if err != nil {
		return nil, err
	}
	l, err := take(f, unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return l, nil
	}
	if !errors.Is(err, ErrLocked) {
		f.Close()
		return nil, err
	}
	taken := make(chan error)
	go func() {
		_, err := take(f, unix.LOCK_EX)
		select {
		case taken <- err:
		case <-ctx.Done(): // AwaitLock gave up
			f.Close()
		}
	}()
	select {
	case err := <-taken:
		if err != nil {
			f.Close()
			return nil, err
		}
		return &Lock{f}, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func ShareLock(path string) (*Lock, error) { return lock(path, os.O_CREATE, unix.LOCK_SH) }

func lock(path string, open, how int) (*Lock, error) {
	f, err := openLock(path, open, how)
	if err != nil {
		return nil, err
	}
	l, err := take(f, how)
	if err != nil {
		f.Close()
	}
	return l, err
}

func openLock(path string, open, how int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|open, 0o600)
	if errors.Is(err, unix.EROFS) && how&unix.LOCK_SH != 0 { // to look is no change
		f, err = os.OpenFile(path, os.O_RDONLY, 0)
	}
	if err != nil {
		return nil, unopened("lock "+path, err)
	}
	return f, nil
}

func take(f *os.File, how int) (*Lock, error) {
	for {
		switch err := unix.Flock(int(f.Fd()), how); err {
		case nil:
			return &Lock{f}, nil
		case unix.EINTR:
		case unix.EWOULDBLOCK:
			return nil, ErrLocked
		default:
			return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
		}
	}
}

func (l *Lock) File() *os.File { return l.f }

func (l *Lock) Unlock() { l.f.Close() }
