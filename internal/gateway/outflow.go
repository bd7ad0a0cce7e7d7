package gateway

import (
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/relay"
	"github.com/bothy-dev/bothy/internal/gateway/uploadlimit"
	"github.com/bothy-dev/bothy/internal/policy"
)

// Bytes sent under a rule with a budget (max_upload) are counted where they leave. On a connection that
// is not inspected, every byte counts after the connection is made. For requests, the bytes written to
// the server for them count. The ledger knows the rest of a budget; the policy says which rule counts.

// errUncountedOutflow ends flows that began before their rule had a budget.
var errUncountedOutflow = errors.New("the rule that allows it has max_upload now, and the bytes sent here are not counted: try again")

// uploads counts bytes that are sent by rules with a budget.
type uploads struct {
	ledger *uploadlimit.Ledger
	policy *atomic.Pointer[policy.Policy]
}

// meterFor returns the meter of a budget; nil without a budget.
func (u *uploads) meterFor(b *policy.Budget) *uploadlimit.Meter {
	if b == nil {
		return nil
	}
	return u.ledger.Meter(b.Target, b.Limit)
}

// afford turns a decision into a denial if its budget is used up.
func (u *uploads) afford(d *policy.Decision) {
	if b := d.Budget; b != nil && u.ledger.Sent(b.Target) >= b.Limit {
		*d = d.UsedUp(u.ledger.Sent(b.Target))
	}
}

// recount makes an active flow count by other rules.
func recount(m *uploadlimit.Meter, b *policy.Budget) error {
	switch {
	case m == nil && b == nil:
	case m == nil:
		return errUncountedOutflow
	case b == nil:
		m.Free()
	default:
		m.Aim(b.Target, b.Limit)
	}
	return nil
}

// mayBegin refuses a flow that could send nothing.
func (u *uploads) mayBegin(f *flow) error {
	if f.outflow == nil {
		return nil
	}
	d := u.policy.Load().Still(f.asJudged(), time.Now())
	if u.afford(&d); d.Allowed() {
		return nil
	}
	return &policy.Denied{Decision: d}
}

// spentError returns the effect of the end of a budget on the flow that it has ended.
func (u *uploads) spentError(f *flow, err error) error {
	if !errors.Is(err, uploadlimit.ErrSpent) {
		return err
	}
	d := u.policy.Load().Still(f.asJudged(), time.Now())
	if d.Budget == nil { // the rules have changed just now
		return err
	}
	return &policy.Denied{Decision: d.UsedUp(u.ledger.Sent(d.Budget.Target))}
}

// countedTo wraps the far side of a flow so that its bytes are counted.
func countedTo(outside relay.Conn, m *uploadlimit.Meter) relay.Conn {
	if m == nil {
		return outside
	}
	return countedConn{outside, m.Writer(outside)}
}

type countedConn struct {
	relay.Conn
	to io.Writer
}

func (c countedConn) Write(p []byte) (int, error) { return c.to.Write(p) }
