package login

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// dirLock is the lock of programs that make a directory for one. Who made it
// touches it now and then; one that nobody touches was left behind.
type dirLock struct {
	path string
	stop chan struct{}
	done chan struct{}
}

const (
	lockTouched = 3 * time.Second
	lockStale   = 10 * time.Second
)

// lockDirectory takes the lock of a directory.
func lockDirectory(ctx context.Context, dir string) (*dirLock, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	l := &dirLock{path: dir + ".lock", stop: make(chan struct{}), done: make(chan struct{})}
	for {
		err := os.Mkdir(l.path, 0o755)
		if err == nil {
			go l.touch()
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
			return nil, fmt.Errorf("%s is there: somebody renews just now: %w", l.path, context.Cause(ctx))
		case <-time.After(poll):
		}
	}
}

func (l *dirLock) touch() {
	defer close(l.done)
	t := time.NewTicker(lockTouched)
	defer t.Stop()
	for {
		select {
		case <-l.stop:
			return
		case now := <-t.C:
			_ = os.Chtimes(l.path, now, now)
		}
	}
}

func (l *dirLock) release() {
	close(l.stop)
	<-l.done
	_ = os.Remove(l.path)
}
