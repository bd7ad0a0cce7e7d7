package login

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Grant is what a server gave.
type Grant struct {
	Access, Refresh, Identity string // the latter two may be empty: the old ones stay
	Lifetime                  time.Duration
}

// hour is how long a token is taken to last of which nobody says it.
const hour = time.Hour

// ErrNoToken says that what a server gave is of no use.
var ErrNoToken = errors.New("what the server gave is no token")

// maxIdentity bounds an identity token in bytes. It is never lent, and has groups
// and roles in it.
const maxIdentity = 128 << 10

// usable tells whether the tokens can be lent. An identity that is none is left out:
// the others are good without it, and the old refresh token is gone.
func (g *Grant) usable() bool {
	if g.Identity != "" && !printable(g.Identity, maxIdentity) {
		g.Identity = ""
	}
	return isToken(g.Access) && (g.Refresh == "" || isToken(g.Refresh))
}

// Put writes new tokens into the file, of which the old refresh token was given
// away, and reads it again. If its program has meanwhile written other tokens,
// those stay. When it returns without an error the tokens are on the disk.
func (h *Held) Put(g Grant, now time.Time) error {
	if !g.usable() {
		return fmt.Errorf("renew the login %s: %w", h.f.Path, ErrNoToken)
	}
	used := h.Refresh
	if err := h.readAgain(); err != nil {
		return h.leave(g, now, err)
	}
	if h.Refresh != used {
		return nil
	}
	data, err := h.with(g, now)
	if err == nil {
		err = h.f.replace(data, h.mode)
	}
	if err != nil {
		return &spec.Error{Op: "write the login " + h.f.Path, Err: err}
	}
	return h.read()
}

// writeTime is how long a program may take that writes its file in place, and has
// it empty or open to others meanwhile.
const writeTime = 3 * time.Second

// readAgain reads the file, at last as it is after some time.
func (h *Held) readAgain() error {
	for end := time.Now().Add(writeTime); ; time.Sleep(poll) {
		if err := h.read(); err == nil || time.Now().After(end) {
			return err
		}
	}
}

// leave writes new tokens beside a file that cannot be read any more, for who holds
// it next: the server has forgotten the old ones. Who has logged out wants none.
func (h *Held) leave(g Grant, now time.Time, cause error) error {
	if errors.Is(cause, ErrNone) {
		return cause
	}
	data, err := h.with(g, now)
	if err == nil {
		err = h.f.write(data, h.mode)
	}
	if err == nil {
		err = store.SyncDir(filepath.Dir(h.f.Path))
	}
	if err != nil {
		return fmt.Errorf("%w; and the new tokens cannot be written beside it: %w", cause, err)
	}
	return fmt.Errorf("%w; the new tokens are in %s, and are put there by the next renewal after it can be read", cause, h.f.written())
}

// with is the file with new tokens in it.
func (h *Held) with(g Grant, now time.Time) ([]byte, error) {
	h.set(g, now)
	return encode(h.all, h.indent)
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
	if f.Inside {
		var err error
		if data, err = f.seal(data); err != nil {
			return err
		}
	}
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
