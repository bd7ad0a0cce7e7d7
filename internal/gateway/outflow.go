package gateway

import (
	"errors"
	"io"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/outflow"
	"github.com/bothy-dev/bothy/internal/gateway/relay"
	"github.com/bothy-dev/bothy/internal/policy"
)

// What a rule with a budget (max_upload) lets out is counted where it leaves: of a
// connection that nobody looks into every byte after it is made, of requests what is
// written to the server for them. The ledger knows what is left, the policy who counts.

// errUncountedOutflow ends what began before its rule had a budget.
var errUncountedOutflow = errors.New("the rule that allows it has max_upload now, and nobody counts what this sends: try again")

// count gives who counts for a budget; nil if there is none.
func (g *Gateway) count(b *policy.Budget) *outflow.Meter {
	if b == nil {
		return nil
	}
	return g.conf.Uploads.Meter(b.Target, b.Limit)
}

// afford makes a decision a denial if nothing is left of its budget.
func (g *Gateway) afford(d *policy.Decision) {
	if b := d.Budget; b != nil && g.conf.Uploads.Sent(b.Target) >= b.Limit {
		*d = d.UsedUp(g.conf.Uploads.Sent(b.Target))
	}
}

// recount has what is under way count by other rules.
func (g *Gateway) recount(m *outflow.Meter, b *policy.Budget) error {
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

// spent says what the end of a budget means for a flow that it has ended.
func (g *Gateway) spent(f *flow, err error) error {
	if !errors.Is(err, outflow.ErrSpent) {
		return err
	}
	d := g.policy.Load().Still(f.now(), time.Now())
	if d.Budget == nil { // the rules have changed just now
		return err
	}
	return &policy.Denied{Decision: d.UsedUp(g.conf.Uploads.Sent(d.Budget.Target))}
}

// countedTo is the far side of a flow whose bytes are counted.
func countedTo(outside relay.Conn, m *outflow.Meter) relay.Conn {
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
