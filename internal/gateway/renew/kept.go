package renew

import (
	"errors"
	"time"

	"github.com/bothy-dev/bothy/internal/login"
)

// kept are tokens that a server gave and that could not be written. It has
// forgotten those before, so they are tried again before it is asked.
type kept struct {
	used  string // the refresh token they were got with
	at    time.Time
	grant login.Grant
}

// undelivered gives what is kept for a login, if that still has the token that was
// used. If it has another, somebody has logged in.
func (c *Client) undelivered(path, refresh string) (kept, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.kept[path]
	if ok && k.used != refresh {
		delete(c.kept, path)
		return kept{}, false
	}
	return k, ok
}

// deliver puts tokens into their file, or keeps them for the next time. Those of
// which nothing can be made are not kept, nor any after a logout.
func (c *Client) deliver(h *login.Held, path string, k kept) error {
	err := h.Put(k.grant, k.at)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil || errors.Is(err, login.ErrNoToken) || errors.Is(err, login.ErrNone) {
		delete(c.kept, path)
		return err
	}
	if c.kept == nil {
		c.kept = map[string]kept{}
	}
	c.kept[path] = k
	return err
}
