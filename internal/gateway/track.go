package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/clienthello"
	"github.com/bothy-dev/bothy/internal/gateway/dial"
	"github.com/bothy-dev/bothy/internal/gateway/held"
	"github.com/bothy-dev/bothy/internal/gateway/inject"
	"github.com/bothy-dev/bothy/internal/gateway/inspect"
	"github.com/bothy-dev/bothy/internal/gateway/netstack"
	"github.com/bothy-dev/bothy/internal/gateway/uploadlimit"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/spec"
)

// track carries a flow and records how it ended. join connects the two sides;
// it may complete the record.
func (g *Gateway) track(f *flow, r spec.NetworkRecord, join func(context.Context, *spec.NetworkRecord) error) {
	if err := g.pausedBy(); err != nil {
		r.Verdict, r.Rule, r.Source, r.Reason = spec.VerdictDeny, "", "", err.Error()
		g.log(r)
		return
	}
	ctx, cancel := context.WithCancel(g.ctx)
	defer cancel()
	f.begin(cancel)
	if !g.flows.add(f) {
		r.Verdict, r.Reason = spec.VerdictDeny, fmt.Sprintf("%d connections are open already", maxFlows)
		g.log(r)
		return
	}
	defer g.flows.remove(f)
	// One that began while the gateway was being closed ends too.
	defer context.AfterFunc(g.ctx, func() { f.end(errStopped) })()
	err := join(ctx, &r)
	r.Flow, r.State = f.closed()
	r.Up, r.Down, r.Duration = f.counts.Up.Load(), f.counts.Down.Load(), time.Since(f.began).Milliseconds()
	g.conclude(&r, f.ended(), err)
	g.log(r)
}

// conclude writes into a record how an allowed flow has ended: why it was cut off, if it was, else
// its error.
func (g *Gateway) conclude(r *spec.NetworkRecord, why, err error) {
	refused, isRefused := errors.AsType[*dial.Refused](err)
	denied, isDenied := errors.AsType[*policy.Denied](err)
	isSecret := noteSecret(r, err)
	switch {
	case why != nil:
		g.cutOff(r, why)
	case isRefused:
		r.Verdict, r.Reason, r.Addr = spec.VerdictDeny, refused.Error(), refused.Addr.Addr()
		if d, ok := errors.AsType[*policy.Denied](refused); ok {
			r.Suggest = d.Suggest().Command(g.conf.Sandbox)
		}
	case isDenied:
		r.Verdict, r.Reason, r.Suggest = spec.VerdictDeny, denied.Reason(), denied.Suggest().Command(g.conf.Sandbox)
	case errors.Is(err, uploadlimit.ErrSpent), errors.Is(err, uploadlimit.ErrUnkept), errors.Is(err, errOtherName), errors.Is(err, clienthello.ErrUnreadable), errors.Is(err, held.ErrFull), errors.Is(err, inspect.ErrUnread), isSecret:
		r.Verdict, r.Reason = spec.VerdictDeny, err.Error()
	case errors.Is(err, inspect.ErrNoHTTP):
		g.noHTTP(r, err)
	case errors.Is(err, errDropped), errors.Is(err, netstack.ErrCut) && r.Up == 0 && r.Down == 0:
		// Programs try all addresses of a name at once, and drop all but the first that answers. Others
		// only check whether a server listens.
	case err != nil:
		r.Verdict, r.Reason = spec.VerdictError, brokenOff(err, r.Direction)
		g.distrusted(r, err)
		if failed, ok := errors.AsType[*dial.Failed](err); ok {
			r.Addr = failed.Addr.Addr()
		}
	}
}

// distrusted adds advice to a record if a client did not trust our certificate.
func (g *Gateway) distrusted(r *spec.NetworkRecord, err error) {
	shake, ok := errors.AsType[*inspect.HandshakeError](err)
	if !ok || !shake.Distrust {
		return
	}
	if s := g.unseen(r); s.Note != "" {
		r.Reason, r.Suggest = r.Reason+"; "+s.Note, s.Command(g.conf.Sandbox)
	}
}

// noHTTP writes into a record that a connection was refused for its protocol, and how it could
// pass.
func (g *Gateway) noHTTP(r *spec.NetworkRecord, err error) {
	r.Verdict, r.Reason = spec.VerdictDeny, err.Error()
	s := g.unseen(r)
	switch r.Suggest = s.Command(g.conf.Sandbox); {
	case r.Suggest != "":
		r.Reason += "; a rule with passthrough lets it by unseen, whatever it says"
	case s.Note != "":
		r.Reason += "; " + s.Note
	}
}

// unseen suggests a rule by which connections like the recorded one pass without inspection.
func (g *Gateway) unseen(r *spec.NetworkRecord) policy.Suggestion {
	now := time.Now()
	switch {
	case r.Mocked, isHost(r.Name):
		return policy.Suggestion{}
	case g.secrets.Load().Bound(r.Name, r.Addr, r.Port, now):
		return policy.Suggestion{Note: "as long as a secret is lent for it, it is looked into, whatever the rules say"}
	case g.logsInAt(r.Name, r.Port):
		return policy.Suggestion{Note: "whoever logs in there gets what is kept outside, for which it is looked into"}
	case g.hasBudget():
		return policy.Suggestion{Note: "as long as the sandbox has a budget for models, it is looked into, whatever the rules say"}
	}
	q := policy.Query{Stage: policy.StageConnect, Name: r.Name, Addr: r.Addr, Port: r.Port, Now: now}
	if d := g.policy.Load().Decide(q); d.Git { // unseen there would be whatever SSH can do
		return policy.Suggestion{Note: "a rule holds what passes there to repositories of git"}
	}
	return g.policy.Load().Unseen(q)
}

// logsInAt reports whether the gateway keeps the tokens when programs inside log in at a server.
func (g *Gateway) logsInAt(name string, port uint16) bool {
	c := g.conf.Capture
	return c != nil && c.How.Capture != nil && inject.NewEndpoint(c.How.Endpoint).Is(inject.Target{Name: name, Port: port})
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
func (g *Gateway) cutOff(r *spec.NetworkRecord, why error) {
	if errors.Is(why, errStopped) { // it was allowed to the end
		r.Reason = why.Error()
		return
	}
	if d, ok := errors.AsType[*policy.Denied](why); ok {
		r.Rule, r.Source = "", "" // those that let it through
		*r = g.decided(*r, &d.Decision)
	}
	r.Verdict, r.Reason = spec.VerdictDeny, why.Error()
	if a, ok := errors.AsType[*advised](why); ok {
		r.Suggest = a.command
	}
}

// opened records that bytes may pass on a flow from now on, unless it is recorded already. So the
// log has the flow even if the gateway dies before its end. What cannot be recorded must not
// happen.
func (g *Gateway) opened(f *flow, r spec.NetworkRecord) error {
	f.opening.Lock()
	defer f.opening.Unlock()
	switch {
	case f.over:
		return net.ErrClosed
	case f.number != "":
		return nil
	}
	r.Flow, r.State = g.numbers.next(), spec.FlowOpened
	f.number = r.Flow // also if the pause begins with this record: it may be on the disk
	g.log(r)
	if err := g.pausedBy(); err != nil {
		f.over = true
		f.end(err)
		return err
	}
	return nil
}

// closed ends what opened begins, and returns what both records share.
func (f *flow) closed() (number, state string) {
	f.opening.Lock()
	defer f.opening.Unlock()
	f.over = true
	if f.number == "" {
		return "", ""
	}
	return f.number, spec.FlowClosed
}

// numbers tell flows apart, also from those of another run of the sandbox.
type numbers struct {
	run  string
	last atomic.Uint64
}

func (n *numbers) next() string { return n.run + "-" + strconv.FormatUint(n.last.Add(1), 10) }

// noteSecret reports whether an error is a placeholder in a forbidden place, and writes its owner
// into the record.
func noteSecret(r *spec.NetworkRecord, err error) bool {
	refused, ok := errors.AsType[*inject.Refused](err)
	if ok {
		r.Secret, r.Lease = refused.Secret, refused.Lease
	}
	return ok
}

// begin cancels a flow's context when the flow ends, which may have happened already.
func (f *flow) begin(cancel context.CancelFunc) {
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
