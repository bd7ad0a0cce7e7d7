package oauthfile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/spec"
)

// Held is a login that no other process renews: neither another process of Bothy nor its
// program, if the program uses a lock.
type Held struct {
	*Document
	f    File
	file *os.File // carries the lock
	dir  *dirLock
}

const poll = 50 * time.Millisecond

// Hold takes the locks and reads the file under them.
func (f File) Hold(ctx context.Context) (*Held, error) {
	for {
		h, err := f.tryHold()
		if err == nil && h != nil {
			h, err = h.settle(ctx)
		}
		if err != nil || h != nil {
			return h, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("lock the login %s: another process holds it: %w", f.Path, context.Cause(ctx))
		case <-time.After(poll):
		}
	}
}

// tryHold takes the lock of the file if it is free. It returns neither an error nor Held if the
// caller should retry. The lock is on the file itself, which its holder replaces. So the
// opened file must still be the one with that name.
func (f File) tryHold() (*Held, error) {
	_, file, err := f.open(f.Path)
	if err != nil {
		return nil, err
	}
	h := &Held{f: f, file: file}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil && f.namesFile(file) {
		return h, nil
	}
	h.Release()
	if err == nil || errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
		return nil, nil
	}
	return nil, err
}

// settle also takes the lock of the program, if that uses one, and reads the file under
// both. It returns neither an error nor Held if the caller should retry, because the path
// names another file now: its program wrote it, or it was recovered.
func (h *Held) settle(ctx context.Context) (*Held, error) {
	var err error
	if h.f.How.Lock {
		if h.dir, err = lockDirectory(ctx, filepath.Dir(h.f.Path)); err != nil {
			h.Release()
			return nil, &spec.Error{Op: "lock the login " + h.f.Path, Err: err, Hint: spec.Hint(err)}
		}
	}
	h.f.recover(h.file)
	if err = h.read(); err == nil && h.f.namesFile(h.file) {
		return h, nil
	}
	h.Release()
	return nil, err
}

func (f File) namesFile(file *os.File) bool {
	mine, err := file.Stat()
	if err != nil {
		return false
	}
	now, err := os.Lstat(f.Path)
	return err == nil && os.SameFile(mine, now)
}

// read reads the file again. If that fails, the last document stays.
func (h *Held) read() error {
	d, err := h.f.Read()
	if err == nil {
		h.Document = d
	}
	return err
}

// Release releases the locks.
func (h *Held) Release() {
	if h.dir != nil {
		h.dir.release()
	}
	_ = h.file.Close()
}
