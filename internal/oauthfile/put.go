package oauthfile

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

// Grant has the tokens that a server gave.
type Grant struct {
	Access, Refresh, Identity string // the latter two may be empty: the old ones stay
	Lifetime                  time.Duration
}

// hour is the assumed lifetime of a token that does not state one.
const hour = time.Hour

// ErrNoToken reports that the server's tokens are not usable.
var ErrNoToken = errors.New("the server sent no usable token")

// maxIdentity bounds an identity token in bytes. It may be large, because it contains
// groups and roles, and it is never lent.
const maxIdentity = 128 << 10

// usable reports whether the tokens can be lent. A malformed identity token is dropped: the
// others work without it, and the old refresh token is gone.
func (g *Grant) usable() bool {
	if g.Identity != "" && !printable(g.Identity, maxIdentity) {
		g.Identity = ""
	}
	return isToken(g.Access) && (g.Refresh == "" || isToken(g.Refresh))
}

// Put writes new tokens into the file, after the old refresh token was used, and reads it
// again. If the program has meanwhile written other tokens, those stay. When it returns
// without an error the tokens are on the disk.
func (h *Held) Put(g Grant, now time.Time) error {
	if !g.usable() {
		return fmt.Errorf("renew the login %s: %w", h.f.Path, ErrNoToken)
	}
	used := h.Refresh
	if err := h.readAgain(); err != nil {
		return h.leaveBeside(g, now, err)
	}
	if h.Refresh != used {
		return nil
	}
	data, err := h.withGrant(g, now)
	if err == nil {
		err = h.f.replace(data, h.mode)
	}
	if err != nil {
		return &spec.Error{Op: "write the login " + h.f.Path, Err: err}
	}
	return h.read()
}

// writeTime is how long a program may take to write its file in place. Meanwhile the file
// may be empty or readable by others.
const writeTime = 3 * time.Second

func (h *Held) readAgain() error {
	for end := time.Now().Add(writeTime); ; time.Sleep(poll) {
		if err := h.read(); err == nil || time.Now().After(end) {
			return err
		}
	}
}

// leaveBeside writes new tokens beside a file that cannot be read any more, for the next lock
// holder: the server has forgotten the old ones. After a logout it writes nothing.
func (h *Held) leaveBeside(g Grant, now time.Time, cause error) error {
	if errors.Is(cause, ErrNone) {
		return cause
	}
	data, err := h.withGrant(g, now)
	if err == nil {
		err = h.f.write(data, h.mode)
	}
	if err == nil {
		err = store.SyncDir(filepath.Dir(h.f.Path))
	}
	if err != nil {
		return fmt.Errorf("%w; and the new tokens cannot be written beside it: %w", cause, err)
	}
	return fmt.Errorf("%w; the new tokens are in %s until the next renewal that can read the login", cause, h.f.written())
}

func (h *Held) withGrant(g Grant, now time.Time) ([]byte, error) {
	how := h.how
	setValue(h.all, how.Access, g.Access)
	if g.Refresh != "" {
		setValue(h.all, how.Refresh, g.Refresh)
	}
	if g.Identity != "" && how.Identity != "" {
		setValue(h.all, how.Identity, g.Identity)
	}
	if how.Expires != "" {
		if g.Lifetime <= 0 {
			g.Lifetime = hour
		}
		setValue(h.all, how.Expires, json.Number(fmt.Sprint(now.Add(g.Lifetime).UnixMilli())))
	}
	if how.Renewed != "" {
		setValue(h.all, how.Renewed, now.UTC().Format(time.RFC3339Nano))
	}
	return encode(h.all, h.indent)
}

// written is the file that replaces the login. It is in the same directory, under a fixed name. The
// next lock holder finds there the file of a process that was killed before the rename.
func (f File) written() string { return f.Path + ".bothy" }

// Ready checks that new tokens can be written, before the old ones are used up.
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

// replace writes the file anew, with its mode. If only the rename fails, the new file stays
// for the next lock holder.
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
		if data, err = f.sealData(data); err != nil {
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
	if err = errors.Join(err, file.Close()); err != nil {
		_ = os.Remove(f.written())
	}
	return err
}

// recover finishes the work of a process that was killed while it replaced the file: by then the server
// has forgotten the old tokens. It removes a truncated file, and one older than the login.
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
