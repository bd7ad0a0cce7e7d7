package cli

import "github.com/bothy-dev/bothy/spec"

// openFlow names one that was opened, of all sandboxes'.
type openFlow struct{ sandbox, flow string }

func newTally(f recordFilter) *tally {
	return &tally{filter: f, rows: map[trafficKey]*traffic{}, open: map[openFlow]*spec.NetworkRecord{}}
}

// track notes which flows are open. It tells whether a record is of one that was
// opened: of each there is another when it ends, by which it is added.
func (t *tally) track(sandbox string, r *spec.NetworkRecord) bool {
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

// addOpen adds the flows that have no end, whenever they were opened: they go on, or the
// keeper was killed under them. They count as let through.
func (t *tally) addOpen() {
	for key, r := range t.open {
		if t.filter.asks(r) {
			t.count(key.sandbox, r)
		}
	}
	clear(t.open)
}
