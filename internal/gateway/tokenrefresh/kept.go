package tokenrefresh

import (
	"errors"
	"time"

	"github.com/bothy-dev/bothy/internal/oauthfile"
)

// kept are tokens that a server gave and that could not be written. The server has forgotten the
// earlier ones, so writing them is tried again before the server is asked.
type kept struct {
	used  string // the refresh token that they were got with
	at    time.Time
	grant oauthfile.Grant
}

// undelivered returns the kept tokens of a login, if the login still has the refresh token that was
// used. If it has another, the user has logged in again.
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

// deliver puts tokens into their file, or keeps them for the next time. Unusable tokens are not
// kept, nor any after a logout.
func (c *Client) deliver(h *oauthfile.Held, path string, k kept) error {
	err := h.Put(k.grant, k.at)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil || errors.Is(err, oauthfile.ErrNoToken) || errors.Is(err, oauthfile.ErrNone) {
		delete(c.kept, path)
		return err
	}
	if c.kept == nil {
		c.kept = map[string]kept{}
	}
	c.kept[path] = k
	return err
}
