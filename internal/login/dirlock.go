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
// touches it now and then; one that nobody touches was left behind. So after a long
// sleep of the host it may be somebody else's, which has the same name.
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
			if l.mine, err = os.Lstat(l.path); err != nil {
				return nil, err
			}
			go l.keep()
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

// keep touches the lock until it is given back or lost.
func (l *dirLock) keep() {
	defer close(l.done)
	t := time.NewTicker(lockTouched)
	defer t.Stop()
	for {
		select {
		case <-l.stop:
			return
		case now := <-t.C:
			l.touch(now)
		}
	}
}

// held tells whether the lock is what was made here, untouched by others. An inode
// alone may be used again.
func (l *dirLock) held() bool {
	now, err := os.Lstat(l.path)
	return err == nil && l.mine != nil && os.SameFile(now, l.mine) && now.ModTime().Equal(l.mine.ModTime())
}

func (l *dirLock) touch(now time.Time) {
	if !l.held() || os.Chtimes(l.path, now, now) != nil {
		return
	}
	l.mine, _ = os.Lstat(l.path) // its file system may round times; nil is lost
}

func (l *dirLock) release() {
	close(l.stop)
	<-l.done
	if l.held() {
		_ = os.Remove(l.path)
	}
}
