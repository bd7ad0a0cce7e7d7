// Package tokenrefresh gets new tokens for the lent logins of the host: from the server where their own
// program would get them, over TLS, through the host's network. Sandboxes share a login with each
// other and with its program. So the file is read before a server is asked, and the server's tokens
// are on the disk before they are used.
package tokenrefresh

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bothy-dev/bothy/internal/oauthfile"
	"github.com/bothy-dev/bothy/spec"
)

// settled is how old a rejected login must be before it is renewed although it has not ended. For a
// younger one the server would refuse a new token as well.
const settled = 5 * time.Minute

// Result is a login that may be used.
type Result struct {
	Access, Refresh string
	Expires, Due    time.Time // zero: not given
	Asked           bool      // the server was asked, and gave this
}

// Renew makes sure that a login is good. rejected is an access token that a server did not accept;
// it may be empty. If the login is still good, or another program renewed it, the server is not
// asked.
func (c *Client) Renew(ctx context.Context, f oauthfile.File, rejected string) (Result, error) {
	h, err := f.Hold(ctx)
	if err != nil {
		return Result{}, err
	}
	defer h.Release()
	now := c.currentTime()
	next, got := c.undelivered(f.Path, h.Refresh)
	if !got {
		if (h.Due.IsZero() || now.Before(h.Due)) && (h.Access != rejected || now.Sub(h.Written) < settled) {
			return result(h), nil
		}
		if next.grant, err = c.nextTokens(ctx, h, f); err != nil {
			return Result{}, loginHint(err, f)
		}
		next.used, next.at = h.Refresh, c.currentTime()
	}
	if err := c.deliver(h, f.Path, next); err != nil {
		return Result{}, err
	}
	r := result(h)
	r.Asked = true
	return r, nil
}

// nextTokens gets new tokens, unless it knows that there are none.
func (c *Client) nextTokens(ctx context.Context, h *oauthfile.Held, f oauthfile.File) (oauthfile.Grant, error) {
	c.mu.Lock()
	known := c.dead[f.Path]
	c.mu.Unlock()
	if known.token == h.Refresh {
		return oauthfile.Grant{}, &Unrenewed{known.why}
	}
	if err := h.Ready(); err != nil {
		return oauthfile.Grant{}, err
	}
	grant, err := c.askServer(ctx, &f.How, h.Refresh)
	if err != nil {
		err = &Unrenewed{err}
	}
	if why, ok := errors.AsType[*Refused](err); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.dead == nil {
			c.dead = map[string]dead{}
		}
		c.dead[f.Path] = dead{h.Refresh, why}
	}
	return grant, err
}

func result(h *oauthfile.Held) Result {
	return Result{Access: h.Access, Refresh: h.Refresh, Expires: h.Expires, Due: h.Due}
}

// Unrenewed reports that a server did not renew a login. It reveals nothing of the host, such as
// the login's path, unless it is [Unreachable].
type Unrenewed struct{ Err error }

func (u *Unrenewed) Error() string { return u.Err.Error() }
func (u *Unrenewed) Unwrap() error { return u.Err }

// Refused reports that the server no longer renews a login.
type Refused struct {
	Status int
	Code   string // of OAuth; may be empty
}

func (r *Refused) Error() string {
	if r.Code == "" {
		return fmt.Sprintf("the server refuses to renew it (%d)", r.Status)
	}
	return fmt.Sprintf("the server refuses to renew it (%d, %s)", r.Status, r.Code)
}

func loginHint(err error, f oauthfile.File) error {
	out := &spec.Error{Op: "renew the login " + f.Path, Err: err}
	if _, ok := errors.AsType[*Refused](err); ok {
		return out.WithHint("%s", f.Again())
	}
	return out.WithHint("try again, or %s", f.Again())
}
