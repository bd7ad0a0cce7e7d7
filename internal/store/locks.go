package store

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// ErrLocked says that another process holds a lock.
var ErrLocked = errors.New("locked by another process")

// Lock is a held flock.
type Lock struct{ f *os.File }

// TryLock takes a lock, or returns ErrLocked at once.
func TryLock(path string) (*Lock, error) {
	return lockFile(path, os.O_CREATE, unix.LOCK_EX|unix.LOCK_NB)
}

// TryShareLock is ShareLock that does not wait: it returns ErrLocked for an exclusive lock.
func TryShareLock(path string) (*Lock, error) {
	return lockFile(path, os.O_CREATE, unix.LOCK_SH|unix.LOCK_NB)
}

// TryLockThere is TryLock for a lock that only counts while its file exists. If the file is missing, or
// the last holder removed it, the error is fs.ErrNotExist.
func TryLockThere(path string) (*Lock, error) {
	l, err := lockFile(path, 0, unix.LOCK_EX|unix.LOCK_NB)
	if err != nil {
		return nil, err
	}
	if _, err := os.Lstat(path); err != nil {
		l.Unlock()
		return nil, err
	}
	return l, nil
}

// IsLocked reports whether another process holds a lock exclusively. Any number of callers may ask at once.
func IsLocked(path string) bool {
	l, err := lockFile(path, 0, unix.LOCK_SH|unix.LOCK_NB)
	if err == nil {
		l.Unlock()
	}
	return errors.Is(err, ErrLocked)
}

// WaitLock takes a lock, waiting for it.
func WaitLock(path string) (*Lock, error) { return lockFile(path, os.O_CREATE, unix.LOCK_EX) }

// AwaitLock is WaitLock that gives up when ctx ends, and returns its cause. It opens the file before it
// waits: once it gave up, it creates nothing at the path any more.
func AwaitLock(ctx context.Context, path string) (*Lock, error) {
	f, err := openLock(path, os.O_CREATE, unix.LOCK_EX)
	if err != nil {
		return nil, err
	}
	l, err := takeLock(f, unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return l, nil
	}
	if !errors.Is(err, ErrLocked) {
		f.Close()
		return nil, err
	}
	taken := make(chan error)
	go func() {
		_, err := takeLock(f, unix.LOCK_EX)
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

// ShareLock takes a shared lock. It waits while another process holds the lock exclusively.
func ShareLock(path string) (*Lock, error) { return lockFile(path, os.O_CREATE, unix.LOCK_SH) }

func lockFile(path string, open, how int) (*Lock, error) {
	f, err := openLock(path, open, how)
	if err != nil {
		return nil, err
	}
	l, err := takeLock(f, how)
	if err != nil {
		f.Close()
	}
	return l, err
}

func openLock(path string, open, how int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|open, 0o600)
	if errors.Is(err, unix.EROFS) && how&unix.LOCK_SH != 0 { // a read-only file system can be read
		f, err = os.OpenFile(path, os.O_RDONLY, 0)
	}
	if err != nil {
		return nil, unopened("lock "+path, err)
	}
	return f, nil
}

// takeLock locks an open file. After an error the caller closes the file.
func takeLock(f *os.File, how int) (*Lock, error) {
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

// File returns the open lock file, to hand the lock to a child.
func (l *Lock) File() *os.File { return l.f }

// Unlock releases the lock. Copies of the file in other processes keep it.
func (l *Lock) Unlock() { l.f.Close() }
