package oauthfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// dirLock is the kind of lock for which programs make a directory. The owner touches it
// regularly; a lock that is not touched is stale. After the host has slept for long,
// another process may own a lock of the same name.
type dirLock struct {
	path string
	mine fs.FileInfo // as it was made or touched last
	stop chan struct{}
	done chan struct{}
}

const (
	lockTouched = 3 * time.Second
	lockStale   = 10 * time.Second
)

func lockDirectory(ctx context.Context, dir string) (*dirLock, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	l := &dirLock{path: dir + ".lock", stop: make(chan struct{}), done: make(chan struct{})}
	for {
		err := os.Mkdir(l.path, 0o755)
		if err == nil {
			if l.mine, err = os.Lstat(l.path); err != nil {
				return nil, err
			}
			go l.keepFresh()
			return l, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		if info, err := os.Lstat(l.path); err == nil && time.Since(info.ModTime()) > lockStale {
			if err := os.Remove(l.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
			continue
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%s exists: another process renews the login: %w", l.path, context.Cause(ctx))
		case <-time.After(poll):
		}
	}
}

// keepFresh touches the lock until it is released or lost.
func (l *dirLock) keepFresh() {
	defer close(l.done)
	t := time.NewTicker(lockTouched)
	defer t.Stop()
	for {
		select {
		case <-l.stop:
			return
		case now := <-t.C:
			l.touchLock(now)
		}
	}
}

// isHeld reports whether the lock is still our own, untouched by others. Comparing only the
// inode is not enough, because the file system may reuse it.
func (l *dirLock) isHeld() bool {
	now, err := os.Lstat(l.path)
	return err == nil && l.mine != nil && os.SameFile(now, l.mine) && now.ModTime().Equal(l.mine.ModTime())
}

func (l *dirLock) touchLock(now time.Time) {
	if !l.isHeld() || os.Chtimes(l.path, now, now) != nil {
		return
	}
	l.mine, _ = os.Lstat(l.path) // the file system may round times; nil means lost
}

func (l *dirLock) release() {
	close(l.stop)
	<-l.done
	if l.isHeld() {
		_ = os.Remove(l.path)
	}
}
