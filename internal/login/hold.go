package login

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
		if err == nil && h != nil {
			h, err = h.settle(ctx)
		}
		if err != nil || h != nil {
			return h, err
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
		return h, nil
	}
	h.Release()
	if err == nil || errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
		return nil, nil
	}
	return nil, err
}

// settle takes the lock of its program as well, if that has one, and reads the file
// under both. Neither error nor Held is for later: another file has the name now,
// which its program wrote or which was recovered.
func (h *Held) settle(ctx context.Context) (*Held, error) {
	var err error
	if h.f.How.Lock {
		if h.dir, err = lockDirectory(ctx, filepath.Dir(h.f.Path)); err != nil {
			h.Release()
			return nil, &spec.Error{Op: "lock the login " + h.f.Path, Err: err, Hint: spec.Hint(err)}
		}
	}
	h.f.recover(h.file)
	if err = h.read(); err == nil && h.f.names(h.file) {
		return h, nil
	}
	h.Release()
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

// read reads the file anew. What was read before stays if that fails.
func (h *Held) read() error {
	d, err := h.f.Read()
	if err == nil {
		h.Document = d
	}
	return err
}

// Release gives the locks back.
func (h *Held) Release() {
	if h.dir != nil {
		h.dir.release()
	}
	_ = h.file.Close()
}
