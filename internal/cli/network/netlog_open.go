package network

import (
	"github.com/bothy-dev/bothy/internal/records"
	"github.com/bothy-dev/bothy/spec"
)

// openFlow identifies an opened flow among those of all sandboxes. Flows beyond a large number are
// only counted and have no number.
type openFlow struct{ sandbox, flow string }

// crowd identifies the connections to one host that are only counted.
type crowd struct{ sandbox, host string }

// crowded holds how many of them are open, and the latest record.
type crowded struct {
	n    int64
	last *spec.NetworkRecord
}

func newTally(f recordFilter) *tally {
	return &tally{filter: f, rows: map[trafficKey]*traffic{}, open: map[openFlow]*spec.NetworkRecord{}, crowds: map[crowd]*crowded{}}
}

// trackFlow keeps the open flows. It reports whether a record opens a flow: the flow is added later, by
// the record of its end.
func (t *tally) trackFlow(sandbox string, r *spec.NetworkRecord) bool {
	if r.State != "" && r.Flow == "" {
		return t.trackCrowd(crowd{sandbox, records.Host(r)}, r)
	}
	switch r.State {
	case spec.FlowOpened:
		o := *r
		t.open[openFlow{sandbox, r.Flow}] = &o
		return true
	case spec.FlowClosed:
		delete(t.open, openFlow{sandbox, r.Flow})
	}
	return false
}

// trackCrowd is track for flows that are only counted.
func (t *tally) trackCrowd(key crowd, r *spec.NetworkRecord) bool {
	c := t.crowds[key]
	if c == nil {
		c = &crowded{}
		t.crowds[key] = c
	}
	n := max(r.Count, 1)
	if r.State == spec.FlowClosed {
		c.n -= n
		return false
	}
	o := *r
	c.n, c.last = c.n+n, &o
	return true
}

// addOpen adds the flows without an end, whenever they were opened: they are still open, or the
// keeper was killed. They count as allowed.
func (t *tally) addOpen() {
	for key, r := range t.open {
		if t.filter.matchesRecord(r) {
			t.countRecord(key.sandbox, r)
		}
	}
	clear(t.open)
	for key, c := range t.crowds {
		if c.n > 0 && t.filter.matchesRecord(c.last) {
			c.last.Count = c.n
			t.countRecord(key.sandbox, c.last)
		}
	}
	clear(t.crowds)
}
