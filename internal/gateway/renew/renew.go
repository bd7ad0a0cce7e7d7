// Package renew gets new tokens for the logins of the host that are lent: from
// the server where their program would get them, over TLS, by way of the host.
// Sandboxes share a login with each other and with its program. So the file is
// read before a server is asked, and what a server gave is on the disk before it
// is used.
package renew

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bothy-dev/bothy/internal/login"
	"github.com/bothy-dev/bothy/spec"
)

// settled is how old a login must be for a token to be renewed that a server did
// not take, although it has not ended: a new one would be refused as well.
const settled = 5 * time.Minute

// Result is a login that may be used.
type Result struct {
	Access, Refresh string
	Expires, Due    time.Time // zero: nobody says
	Asked           bool      // the server, and it gave this
}

// Renew sees to it that a login is good. Rejected is an access token that a
// server did not take; it may be empty. If nothing has to be done, or somebody else
// did it, the server is not asked.
func (c *Client) Renew(ctx context.Context, f login.File, rejected string) (Result, error) {
	h, err := f.Hold(ctx)
	if err != nil {
		return Result{}, err
	}
	defer h.Release()
	now := c.now()
	next, got := c.undelivered(f.Path, h.Refresh)
	if !got {
		if (h.Due.IsZero() || now.Before(h.Due)) && (h.Access != rejected || now.Sub(h.Written) < settled) {
			return result(h), nil
		}
		if next.grant, err = c.next(ctx, h, f); err != nil {
			return Result{}, hint(err, f)
		}
		next.used, next.at = h.Refresh, c.now()
	}
	if err := c.deliver(h, f.Path, next); err != nil {
		return Result{}, err
	}
	r := result(h)
	r.Asked = true
	return r, nil
}

// next gets new tokens, unless it is known that there are none.
func (c *Client) next(ctx context.Context, h *login.Held, f login.File) (login.Grant, error) {
	c.mu.Lock()
	known := c.dead[f.Path]
	c.mu.Unlock()
	if known.token == h.Refresh {
		return login.Grant{}, &Unrenewed{known.why}
	}
	if err := h.Ready(); err != nil {
		return login.Grant{}, err
	}
	grant, err := c.ask(ctx, &f.How, h.Refresh)
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

func result(h *login.Held) Result {
	return Result{Access: h.Access, Refresh: h.Refresh, Expires: h.Expires, Due: h.Due}
}

// Unrenewed says that a server did not renew a login. It tells nothing of the host,
// not where the login is, unless it is [Unreachable].
type Unrenewed struct{ Err error }

func (u *Unrenewed) Error() string { return u.Err.Error() }
func (u *Unrenewed) Unwrap() error { return u.Err }

// Refused says that the server will not renew a login any more.
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

func hint(err error, f login.File) error {
	out := &spec.Error{Op: "renew the login " + f.Path, Err: err}
	if _, ok := errors.AsType[*Refused](err); ok {
		return out.WithHint("%s", f.Again())
	}
	return out.WithHint("try again, or %s", f.Again())
}
