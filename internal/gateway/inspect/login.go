package inspect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// Logins keeps the lent logins of the host good. Its methods are called concurrently.
type Logins interface {
	// Renew makes sure that the value of a lease is good. If it is not, another value is in force
	// when Renew returns. The inside sees the error.
	Renew(ctx context.Context, lease string) error
	// Rejected reports a value that a server did not accept.
	Rejected(lease string, value wire.Value)
}

// ErrNoLogin is of class errors that only a new login on the host fixes.
var ErrNoLogin = errors.New("the login of the host has ended")

// renewLogins renews the logins that a request goes out with. It returns false if the request was answered
// instead.
func (i *Inspector) renewLogins(ctx context.Context, w *answer, r *http.Request, x *exchange) bool {
	if i.conf.Logins == nil {
		return true
	}
	leases := x.secrets.Logins(r, i.target(x.conn.host), time.Now())
	for _, lease := range leases {
		if err := i.conf.Logins.Renew(ctx, lease); err != nil {
			x.noteLogin(lease, err)
			i.sayRefusal(w, r, http.StatusUnauthorized, refusal{Reason: err.Error(), Note: spec.Hint(err)})
			return false
		}
	}
	if len(leases) > 0 {
		x.secrets = i.conf.Secrets()
	}
	return true
}

// noteLogin writes into the record which login could not be used.
func (x *exchange) noteLogin(lease string, err error) {
	x.refuse(err.Error())
	x.record.Verdict, x.record.Lease, x.record.Secret = spec.VerdictError, lease, x.secrets.SecretOf(lease)
}

// rejected notes that a server no longer accepts a login.
func (i *Inspector) rejected(resp *http.Response, x *exchange) {
	if i.conf.Logins == nil || resp.StatusCode != http.StatusUnauthorized {
		return
	}
	for _, u := range x.uses {
		if v := x.secrets.LoginValue(u.Lease); v != nil {
			i.conf.Logins.Rejected(u.Lease, v)
		}
	}
}

// maxAsked bounds a request for a token, in bytes. A longer body is not taken for one.
const maxAsked = 64 << 10

// errAskedLate ends a request whose body does not end in time.
var errAskedLate = errors.New("a body that may ask for a token does not come to its end")

// renewed answers a program inside that renews its login: the host has renewed it, or does so now,
// and the inside keeps its placeholders. It returns false for all other requests, whose body can
// then be read from the beginning.
func (i *Inspector) renewed(ctx context.Context, w *answer, r *http.Request, x *exchange) bool {
	to := i.target(x.conn.host)
	if i.conf.Logins == nil || r.Body == nil || !x.secrets.Renews(r, to, time.Now()) {
		return false
	}
	whole := r.Body
	reading, over := within(ctx, i.readTime, errAskedLate, whole)
	text, err := io.ReadAll(io.LimitReader(whole, maxAsked))
	over()
	r.Body = &begun{Reader: io.MultiReader(bytes.NewReader(text), whole), Closer: whole}
	switch {
	case errors.Is(context.Cause(reading), errAskedLate):
		w.unread()
		i.turnAway(w, r, x, http.StatusRequestTimeout, errAskedLate)
		return true
	case err != nil:
		return false // it is judged again when it is sent
	}
	lease, ok := x.secrets.Renewal(r.Header.Get("Content-Type"), text, to, time.Now())
	if !ok {
		return false
	}
	x.record.Lease, x.record.Secret = lease.ID, lease.Secret
	if err := i.conf.Logins.Renew(ctx, lease.ID); err != nil {
		x.noteLogin(lease.ID, err)
		status, body := tokenError(err)
		i.sayToken(w, r, status, body)
		return true
	}
	i.sayToken(w, r, http.StatusOK, map[string]any{
		"access_token": lease.Placeholder, "refresh_token": lease.Renewal, "token_type": "Bearer", "expires_in": int64(lasting / time.Second),
	})
	return true
}

// lasting is the announced lifetime of a placeholder for a token.
const lasting = 10 * 365 * 24 * time.Hour

// tokenError is an answer of RFC 6749, section 5.2.
func tokenError(err error) (status int, body map[string]any) {
	text := err.Error()
	if hint := spec.Hint(err); hint != "" {
		text += "; " + hint
	}
	status, code := http.StatusServiceUnavailable, "temporarily_unavailable"
	if errors.Is(err, ErrNoLogin) {
		status, code = http.StatusBadRequest, "invalid_grant"
	}
	return status, map[string]any{"error": code, "error_description": "bothy: " + text}
}

func (i *Inspector) sayToken(w *answer, r *http.Request, status int, body map[string]any) {
	boundWrite(w, r)
	text, _ := json.Marshal(body) // of strings and a number
	h := w.Header()
	clear(h)
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Type", "application/json")
	h.Set("X-Bothy", "renewed")
	h.Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

// begun is a body whose beginning was read.
type begun struct {
	io.Reader
	io.Closer
}
