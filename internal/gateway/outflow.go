package gateway

import (
	"errors"
	"io"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/relay"
	"github.com/bothy-dev/bothy/internal/gateway/uploadlimit"
	"github.com/bothy-dev/bothy/internal/policy"
)

// Bytes sent under a rule with a budget (max_upload) are counted where they leave. On a connection
// that is not inspected, every byte counts after the connection is made. For requests, the bytes
// written to the server for them count. The ledger knows the rest of a budget, the policy says who
// counts.

// errUncountedOutflow ends flows that began before their rule had a budget.
var errUncountedOutflow = errors.New("the rule that allows it has max_upload now, and nobody counts what this sends: try again")

// count returns the meter of a budget; nil without a budget.
func (g *Gateway) count(b *policy.Budget) *uploadlimit.Meter {
	if b == nil {
		return nil
	}
	return g.conf.Uploads.Meter(b.Target, b.Limit)
}

// afford turns a decision into a denial if its budget is used up.
func (g *Gateway) afford(d *policy.Decision) {
	if b := d.Budget; b != nil && g.conf.Uploads.Sent(b.Target) >= b.Limit {
		*d = d.UsedUp(g.conf.Uploads.Sent(b.Target))
	}
}

// recount makes an active flow count by other rules.
func (g *Gateway) recount(m *uploadlimit.Meter, b *policy.Budget) error {
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
func (g *Gateway) mayBegin(f *flow) error {
	if f.outflow == nil {
		return nil
	}
	d := g.policy.Load().Still(f.now(), time.Now())
	if g.afford(&d); d.Allowed() {
		return nil
	}
	return &policy.Denied{Decision: d}
}

// spent returns what the end of a budget means for the flow that it has ended.
func (g *Gateway) spent(f *flow, err error) error {
	if !errors.Is(err, uploadlimit.ErrSpent) {
		return err
	}
	d := g.policy.Load().Still(f.now(), time.Now())
	if d.Budget == nil { // the rules have changed just now
		return err
	}
	return &policy.Denied{Decision: d.UsedUp(g.conf.Uploads.Sent(d.Budget.Target))}
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
