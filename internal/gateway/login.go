package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/inject"
	"github.com/bothy-dev/bothy/internal/gateway/inspect"
	"github.com/bothy-dev/bothy/internal/gateway/tokenrefresh"
	"github.com/bothy-dev/bothy/internal/oauthfile"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// logins are the host's logins that are lent. The keeper lends a value. From then on this type
// knows the value in force, since only the gateway sees a value end.
type logins struct {
	g      *Gateway
	client *tokenrefresh.Client

	mu    sync.Mutex  // held when secrets are put into force
	loans []wire.Loan // as the keeper lent them
	held  map[string]*heldLogin
}

// heldLogin is one of these logins.
type heldLogin struct {
	file oauthfile.File
	tokenrefresh.Result
	former   []wire.Value // values that must not come in any more
	rejected string       // a value that a server rejected
	looked   time.Time    // when the file was last read because of a rejection

	flight chan struct{} // closed when the active renewal ends
	failed error         // error of the last renewal
	again  time.Time     // when the next one may be tried
}

// Times of renewal.
const (
	renewTime  = 15 * time.Second // until a server is asked
	renewPause = 15 * time.Second // after one that a server failed, or that its refusal caused
	readPause  = time.Second      // after one that failed without a server
)

// maxFormer bounds how many of a login's earlier values are masked.
const maxFormer = 2

func newLogins(g *Gateway) *logins {
	return &logins{g: g, held: map[string]*heldLogin{}, client: &tokenrefresh.Client{Dialer: g.conf.Dialer, Roots: g.conf.Roots, Judge: g.judge.judgeRenewal}}
}

// setLoans puts loans into force. If they are refused, the earlier ones stay in force, and renewals
// under way end among those.
func (l *logins) setLoans(loans []wire.Loan) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := l.meetLoans(loans)
	set, err := inject.Compile(l.g.conf.Sandbox, current(loans, next))
	if err != nil {
		return err
	}
	held := map[string]*heldLogin{}
	for path, h := range next {
		if known := l.held[path]; known != nil {
			*known = *h // a renewal under way holds this one
			h = known
		}
		held[path] = h
	}
	l.loans, l.held = loans, held
	l.g.secrets.Store(set)
	return nil
}

// meetLoans returns the logins that the loans would lead to, as copies of the held ones.
func (l *logins) meetLoans(loans []wire.Loan) map[string]*heldLogin {
	out := map[string]*heldLogin{}
	for _, o := range loans {
		if o.Login == nil {
			continue
		}
		h, known := out[o.Login.Path], l.held[o.Login.Path]
		if h == nil && known != nil {
			again := *known
			h = &again
		}
		if len(o.Value) > 0 {
			if h == nil {
				h = &heldLogin{}
			}
			h.meetValue(&o)
		}
		if h != nil {
			out[o.Login.Path] = h
		}
	}
	return out
}

// meetValue takes over the value that the keeper lends, unless the gateway has renewed that one since.
func (h *heldLogin) meetValue(o *wire.Loan) {
	h.file = oauthfile.File{Path: o.Login.Path, How: o.Login.How, Inside: o.Login.Inside, Seal: o.Login.Seal, Secret: o.Secret}
	if value := string(o.Value); value != h.Access && !h.hadValue(value) {
		h.takeValue(tokenrefresh.Result{Access: value, Expires: o.Login.Expires, Due: o.Login.Due})
	}
}

func (h *heldLogin) hadValue(value string) bool {
	return slices.ContainsFunc(h.former, func(v wire.Value) bool { return string(v) == value })
}

// takeValue puts a value into force.
func (h *heldLogin) takeValue(r tokenrefresh.Result) {
	if h.Access != "" && h.Access != r.Access {
		former := append(slices.Clone(h.former), wire.Value(h.Access)) // a copy may have the old ones
		h.former = former[max(0, len(former)-maxFormer):]
	}
	h.Result, h.failed, h.again = r, nil, time.Time{}
}

// current returns the loans with the values in force.
func current(loans []wire.Loan, held map[string]*heldLogin) []wire.Loan {
	out := slices.Clone(loans)
	for i := range out {
		o := &out[i]
		if o.Login == nil || len(o.Value) == 0 {
			continue
		}
		h := held[o.Login.Path]
		if h == nil {
			continue
		}
		masked := append(slices.Clone(o.Masked), o.Value)
		if h.Refresh != "" {
			masked = append(masked, wire.Value(h.Refresh))
		}
		masked = append(masked, h.former...)
		o.Value = wire.Value(h.Access)
		o.Masked = slices.DeleteFunc(masked, func(v wire.Value) bool { return string(v) == h.Access })
	}
	return out
}

// loginOf returns the loan of a lease and its login, or nil.
func (l *logins) loginOf(lease string) (*wire.Loan, *heldLogin) {
	for i, o := range l.loans {
		if o.ID == lease && o.Login != nil {
			return &l.loans[i], l.held[o.Login.Path]
		}
	}
	return nil, nil
}

// Renew implements [inspect.Logins].
func (l *logins) Renew(ctx context.Context, lease string) error {
	flight := l.beginRenewal(lease)
	if flight == nil {
		return l.stateOf(lease)
	}
	select {
	case <-flight:
		return l.stateOf(lease)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// beginRenewal returns the renewal under way. It starts one if it is due, and returns nil if nothing is to
// do.
func (l *logins) beginRenewal(lease string) chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	o, h := l.loginOf(lease)
	if h == nil || h.flight != nil {
		if h == nil {
			return nil
		}
		return h.flight
	}
	now := time.Now()
	if (h.Due.IsZero() || now.Before(h.Due)) && h.rejected == "" || now.Before(h.again) {
		return nil
	}
	if h.rejected != "" {
		h.looked = now
	}
	flight := make(chan struct{})
	h.flight = flight
	file, rejected, who := h.file, h.rejected, o.Lease
	// The waiting caller inside may go away; the tokens must not.
	l.g.life.wg.Go(func() {
		ctx, cancel := context.WithTimeout(l.g.life.ctx, renewTime)
		defer cancel()
		r, err := l.client.Renew(ctx, file, rejected)
		l.endRenewal(h, r, err, &who)
		close(flight)
	})
	return flight
}

// endRenewal puts the result of a renewal into force.
func (l *logins) endRenewal(h *heldLogin, r tokenrefresh.Result, err error, who *spec.Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := h.Access
	if err == nil {
		h.takeValue(r)
		var set *inject.Set
		if set, err = inject.Compile(l.g.conf.Sandbox, current(l.loans, l.held)); err == nil {
			l.g.secrets.Store(set)
		}
	}
	h.flight = nil
	if h.failed = err; err != nil {
		h.again = time.Now().Add(pauseAfter(err))
	} else {
		h.rejected = ""
	}
	if o, _ := l.loginOf(who.ID); h.file.Inside && o != nil && o.Taken {
		err = errors.Join(err, h.file.Remove()) // taking it back removed it, maybe before this write
	}
	if err != nil || r.Access != before {
		l.g.journal.record(renewal(h, r, err, who))
	}
}

// pauseAfter is how long no renewal is tried again.
func pauseAfter(err error) time.Duration {
	_, refused := errors.AsType[*tokenrefresh.Refused](err) // which is known from then on
	if _, asked := errors.AsType[*tokenrefresh.Unrenewed](err); asked && !refused {
		return renewPause
	}
	return readPause
}

// renewal returns the record of a renewal.
func renewal(h *heldLogin, r tokenrefresh.Result, err error, who *spec.Lease) spec.NetworkRecord {
	out := spec.NetworkRecord{Event: spec.NetworkRenewal, Verdict: spec.VerdictAllow, Secret: who.Secret, Lease: who.ID}
	if u, perr := url.Parse(h.file.How.Endpoint); perr == nil {
		out.Name, out.Path = u.Hostname(), u.Path
	}
	switch {
	case err != nil:
		out.Verdict, out.Reason = spec.VerdictError, err.Error()
		if d, ok := errors.AsType[*policy.Denied](err); ok {
			out.Verdict, out.Generation, out.Rule, out.Source = spec.VerdictDeny, d.Generation, d.Rule.String(), d.Rule.Source.String()
		}
	case !r.Asked:
		out.Reason = "the host has renewed it already"
	}
	return out
}

// stateOf returns why a login is useless, or nil.
func (l *logins) stateOf(lease string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, h := l.loginOf(lease)
	if h == nil || h.failed == nil || h.rejected == "" && (h.Expires.IsZero() || time.Now().Before(h.Expires)) {
		return nil // it may be good yet: the server says
	}
	return renewalFailure(h.failed, h.file)
}

// renewalFailure is the error that the inside sees after a failed renewal. The place of the login on the
// host, and the failure there or on its network, go to the log only.
func renewalFailure(err error, f oauthfile.File) error {
	_, refused := errors.AsType[*tokenrefresh.Refused](err)
	server, asked := errors.AsType[*tokenrefresh.Unrenewed](err)
	_, silent := errors.AsType[*tokenrefresh.Unreachable](err)
	switch {
	case refused:
		err = fmt.Errorf("%w: %w", inspect.ErrNoLogin, server.Err)
	case errors.Is(err, oauthfile.ErrNone):
		err = fmt.Errorf("%w: %w", inspect.ErrNoLogin, oauthfile.ErrNone)
	case silent:
		err = errors.New("the login of the host could not be renewed just now: the host cannot reach its server: bothy secret audit says why, on the host")
	case asked:
		err = fmt.Errorf("the login of the host could not be renewed just now: %w", server.Err)
	default:
		err = errors.New("the login of the host could not be renewed just now: bothy secret audit says why, on the host")
	}
	return &spec.Error{Err: err, Hint: f.Again()}
}

// Rejected implements [inspect.Logins]. A server may have reasons that no new token changes, and
// the inside may be the cause: it must not keep the host busy.
func (l *logins) Rejected(lease string, value wire.Value) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, h := l.loginOf(lease); h != nil && h.Access == string(value) && time.Since(h.looked) > renewPause {
		h.rejected = h.Access
	}
}
