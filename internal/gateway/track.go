package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/clienthello"
	"github.com/bothy-dev/bothy/internal/gateway/dial"
	"github.com/bothy-dev/bothy/internal/gateway/held"
	"github.com/bothy-dev/bothy/internal/gateway/inject"
	"github.com/bothy-dev/bothy/internal/gateway/inspect"
	"github.com/bothy-dev/bothy/internal/gateway/inspect/strict"
	"github.com/bothy-dev/bothy/internal/gateway/netstack"
	"github.com/bothy-dev/bothy/internal/gateway/uploadlimit"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/spec"
)

// tracker carries flows and records how they end.
type tracker struct {
	sandbox string
	life    *lifetime
	journal *journal
	pause   *pause
	flows   *table
	judge   *judge
}

// trackFlow carries a flow and records how it ended. join connects the two sides;
// it may complete the record.
func (t *tracker) trackFlow(f *flow, r spec.NetworkRecord, join func(context.Context, *spec.NetworkRecord) error) {
	if err := t.pause.reason(); err != nil {
		r.Verdict, r.Rule, r.Source, r.Reason = spec.VerdictDeny, "", "", err.Error()
		t.journal.record(r)
		return
	}
	ctx, cancel := context.WithCancel(t.life.ctx)
	defer cancel()
	f.beginFlow(cancel)
	if !t.flows.addFlow(f) {
		r.Verdict, r.Reason = spec.VerdictDeny, fmt.Sprintf("%d connections are open already", maxFlows)
		t.journal.record(r)
		return
	}
	defer t.flows.remove(f)
	// A flow that began while the gateway was being closed ends too.
	defer context.AfterFunc(t.life.ctx, func() { f.cutOff(errStopped) })()
	err := join(ctx, &r)
	r.Flow, r.State = f.closed()
	r.Up, r.Down, r.Duration = f.counts.Up.Load(), f.counts.Down.Load(), time.Since(f.began).Milliseconds()
	t.conclude(&r, f.endReason(), err)
	t.journal.record(r)
}

// conclude writes into a record how an allowed flow has ended: why it was cut off, if it was, else
// its error.
func (t *tracker) conclude(r *spec.NetworkRecord, why, err error) {
	refused, isRefused := errors.AsType[*dial.Refused](err)
	denied, isDenied := errors.AsType[*policy.Denied](err)
	isSecret := noteSecret(r, err)
	switch {
	case why != nil:
		t.cutOff(r, why)
	case isRefused:
		r.Verdict, r.Reason, r.Addr = spec.VerdictDeny, refused.Error(), refused.Addr.Addr()
		if d, ok := errors.AsType[*policy.Denied](refused); ok {
			r.Suggest = d.Suggest().Command(t.sandbox)
		}
	case isDenied:
		r.Verdict, r.Reason, r.Suggest = spec.VerdictDeny, denied.Reason(), denied.Suggest().Command(t.sandbox)
	case errors.Is(err, uploadlimit.ErrSpent), errors.Is(err, uploadlimit.ErrUnkept), errors.Is(err, errOtherName), errors.Is(err, clienthello.ErrUnreadable), errors.Is(err, held.ErrFull), errors.Is(err, inspect.ErrUnread), isSecret:
		r.Verdict, r.Reason = spec.VerdictDeny, err.Error()
	case errors.Is(err, strict.ErrNoHTTP):
		t.noHTTP(r, err)
	case errors.Is(err, errDropped), errors.Is(err, netstack.ErrCut) && r.Up == 0 && r.Down == 0:
		// Programs try all addresses of a name at once, and drop all but the first that answers. Others
		// only check whether a server listens.
	case err != nil:
		r.Verdict, r.Reason = spec.VerdictError, brokenOff(err, r.Direction)
		t.distrusted(r, err)
		if failed, ok := errors.AsType[*dial.Failed](err); ok {
			r.Addr = failed.Addr.Addr()
		}
	}
}

// distrusted adds advice to a record if a client did not trust our certificate.
func (t *tracker) distrusted(r *spec.NetworkRecord, err error) {
	shake, ok := errors.AsType[*inspect.HandshakeError](err)
	if !ok || !shake.Distrust {
		return
	}
	if s := t.judge.unseen(r); s.Note != "" {
		r.Reason, r.Suggest = r.Reason+"; "+s.Note, s.Command(t.sandbox)
	}
}

// noHTTP writes into a record that a connection was refused for its protocol, and how it could
// pass.
func (t *tracker) noHTTP(r *spec.NetworkRecord, err error) {
	r.Verdict, r.Reason = spec.VerdictDeny, err.Error()
	s := t.judge.unseen(r)
	switch r.Suggest = s.Command(t.sandbox); {
	case r.Suggest != "":
		r.Reason += "; a rule with passthrough lets it by unseen, whatever it says"
	case s.Note != "":
		r.Reason += "; " + s.Note
	}
}

// errStopped ends all flows.
var errStopped = errors.New("the sandbox is stopped")

// changed returns the error for a flow that the current rules do not allow.
func changed(d policy.Decision) error {
	return fmt.Errorf("the policy changed: %w", &policy.Denied{Decision: d})
}

// advised is a reason with the command that would undo it.
type advised struct {
	error
	command string
}

// cutOff writes into a record why an allowed flow was ended: by which rules, and what would allow
// it again.
func (t *tracker) cutOff(r *spec.NetworkRecord, why error) {
	if errors.Is(why, errStopped) { // it was allowed to the end
		r.Reason = why.Error()
		return
	}
	if d, ok := errors.AsType[*policy.Denied](why); ok {
		r.Rule, r.Source = "", "" // those that let it through
		*r = t.journal.decided(*r, &d.Decision)
	}
	r.Verdict, r.Reason = spec.VerdictDeny, why.Error()
	if a, ok := errors.AsType[*advised](why); ok {
		r.Suggest = a.command
	}
}

// opened records that bytes may pass on a flow from now on, unless it is recorded already. So the log
// has the flow even if the gateway dies before its end. A flow that cannot be recorded must not happen.
func (t *tracker) opened(f *flow, r spec.NetworkRecord) error {
	f.opening.Lock()
	defer f.opening.Unlock()
	switch {
	case f.over:
		return net.ErrClosed
	case f.number != "":
		return nil
	}
	r.Flow, r.State = t.journal.numbers.nextNumber(), spec.FlowOpened
	f.number = r.Flow // also if the pause begins with this record: it may be on the disk
	t.journal.record(r)
	if err := t.pause.reason(); err != nil {
		f.over = true
		f.cutOff(err)
		return err
	}
	return nil
}

// closed ends a flow that opened has begun, and returns the fields that both records share.
func (f *flow) closed() (number, state string) {
	f.opening.Lock()
	defer f.opening.Unlock()
	f.over = true
	if f.number == "" {
		return "", ""
	}
	return f.number, spec.FlowClosed
}

// noteSecret reports whether an error is a placeholder in a forbidden place, and writes its owner
// into the record.
func noteSecret(r *spec.NetworkRecord, err error) bool {
	refused, ok := errors.AsType[*inject.Refused](err)
	if ok {
		r.Secret, r.Lease = refused.Secret, refused.Lease
	}
	return ok
}

// beginFlow cancels a flow's context when the flow ends, which may have happened already.
func (f *flow) beginFlow(cancel context.CancelFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.began, f.cancel = time.Now(), cancel
	if f.why != nil {
		cancel()
	}
}

// direction returns the record's word for a kind.
func (k kind) direction() string {
	if k == inbound {
		return spec.DirectionIn
	}
	return ""
}
