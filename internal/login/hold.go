package login

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Held is a login nobody else renews: no other process of Bothy, and not its
// program, if that has a lock.
type Held struct {
	*Document
	f    File
	file *os.File // carries the lock
	dir  *dirLock
}

// poll is how often a lock is tried that others hold.
const poll = 50 * time.Millisecond

// Hold takes the locks and reads the file under them.
func (f File) Hold(ctx context.Context) (*Held, error) {
	for {
		h, err := f.try()
		if err == nil && h != nil && f.How.Lock {
			if h.dir, err = lockDirectory(ctx, filepath.Dir(f.Path)); err == nil {
				err = h.read() // its program may have written until now
			}
			if err != nil {
				h.Release()
				err = &spec.Error{Op: "lock the login " + f.Path, Err: err, Hint: spec.Hint(err)}
			}
		}
		if err != nil {
			return nil, err
		}
		if h != nil {
			return h, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("lock the login %s: somebody else holds it: %w", f.Path, context.Cause(ctx))
		case <-time.After(poll):
		}
	}
}

// try takes the lock of the file, if it can be had: neither error nor Held is for
// later. The lock lies on the file itself, which is replaced by who holds it, so
// what was opened must still be what has the name.
func (f File) try() (*Held, error) {
	_, file, err := f.open(f.Path)
	if err != nil {
		return nil, err
	}
	h := &Held{f: f, file: file}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil && f.names(file) {
		f.recover(file)
		if err = h.read(); err == nil {
			if f.names(file) {
				return h, nil
			}
			h.Release() // what was recovered has the name now
			return nil, nil
		}
	}
	h.Release()
	if err == nil || errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
		return nil, nil
	}
	return nil, err
}

// names tells whether the path leads to an open file.
func (f File) names(file *os.File) bool {
	mine, err := file.Stat()
	if err != nil {
		return false
	}
	now, err := os.Lstat(f.Path)
	return err == nil && os.SameFile(mine, now)
}

func (h *Held) read() (err error) {
	h.Document, err = h.f.Read()
	return err
}

// Release gives the locks back.
func (h *Held) Release() {
	if h.dir != nil {
		h.dir.release()
	}
	_ = h.file.Close()
}

// Grant is what a server gave.
type Grant struct {
	Access, Refresh, Identity string // the latter two may be empty: the old ones stay
	Lifetime                  time.Duration
}

// hour is how long a token is taken to last of which nobody says it.
const hour = time.Hour

// Put writes new tokens into the file, of which the old refresh token was given
// away, and reads it again. If its program has meanwhile written other tokens,
// those stay. When it returns without an error the tokens are on the disk.
func (h *Held) Put(g Grant, now time.Time) error {
	if !isToken(g.Access) || g.Refresh != "" && !isToken(g.Refresh) || g.Identity != "" && !isToken(g.Identity) {
		return fmt.Errorf("renew the login %s: what the server gave is no token", h.f.Path)
	}
	used := h.Refresh
	if err := h.read(); err != nil || h.Refresh != used {
		return err
	}
	h.set(g, now)
	data, err := encode(h.all, h.indent)
	if err == nil {
		err = h.f.replace(data, h.mode)
	}
	if err != nil {
		return &spec.Error{Op: "write the login " + h.f.Path, Err: err}
	}
	return h.read()
}

func (h *Held) set(g Grant, now time.Time) {
	how := h.how
	put(h.all, how.Access, g.Access)
	if g.Refresh != "" {
		put(h.all, how.Refresh, g.Refresh)
	}
	if g.Identity != "" && how.Identity != "" {
		put(h.all, how.Identity, g.Identity)
	}
	if how.Expires != "" {
		if g.Lifetime <= 0 {
			g.Lifetime = hour
		}
		put(h.all, how.Expires, json.Number(fmt.Sprint(now.Add(g.Lifetime).UnixMilli())))
	}
	if how.Renewed != "" {
		put(h.all, how.Renewed, now.UTC().Format(time.RFC3339Nano))
	}
}

// written is the file that replaces the login. It lies beside it, under one name:
// who holds the lock finds there what a process that was killed had not renamed.
func (f File) written() string { return f.Path + ".bothy" }

// Ready sees to it that new tokens can be written, before the old ones are given
// away.
func (h *Held) Ready() error {
	data, err := encode(h.all, h.indent)
	if err == nil {
		err = h.f.write(data, h.mode)
	}
	if err == nil {
		err = os.Remove(h.f.written())
	}
	if err != nil {
		return (&spec.Error{Op: "prepare to write the login " + h.f.Path, Err: err}).WithHint("its directory must be writable")
	}
	return nil
}

// replace writes the file anew, with its mode. If only the name is missing in the
// end, what was written stays for who comes next.
func (f File) replace(data []byte, mode fs.FileMode) error {
	err := f.write(data, mode)
	if err == nil {
		err = os.Rename(f.written(), f.Path)
	}
	if err != nil {
		return err
	}
	return store.SyncDir(filepath.Dir(f.Path))
}

func (f File) write(data []byte, mode fs.FileMode) error {
	if err := os.Remove(f.written()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(f.written(), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if _, err = file.Write(data); err == nil {
		err = file.Chmod(mode)
	}
	if err == nil {
		err = file.Sync()
	}
	if cerr := file.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		_ = os.Remove(f.written())
	}
	return err
}

// recover finishes what a process did not that was killed while it replaced the
// file: the server has forgotten the old tokens by then. What was not written to
// its end, or is older than the file, is removed.
func (f File) recover(file *os.File) {
	info, err := file.Stat()
	if err != nil {
		return
	}
	left, err := os.Lstat(f.written())
	if err != nil {
		return
	}
	if _, other, err := f.open(f.written()); err == nil {
		_ = other.Close()
		if !left.ModTime().Before(info.ModTime()) && os.Rename(f.written(), f.Path) == nil {
			return
		}
	}
	_ = os.Remove(f.written())
}

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
