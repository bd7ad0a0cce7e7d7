package cli

import "github.com/bothy-dev/bothy/spec"

// opened are flows whose end is not in the log: they go on, or the keeper was
// killed under them.
type opened struct {
	latest spec.NetworkRecord
	n      int64
}

func newTally(f recordFilter) *tally {
	return &tally{filter: f, rows: map[trafficKey]*traffic{}, open: map[trafficKey]*opened{}}
}

// track counts flows that are open. It tells whether a record is of one that was
// opened: of each there is another when it ends, by which it is added.
func (t *tally) track(sandbox string, r *spec.NetworkRecord) bool {
	if r.State == "" || !t.filter.concerns(r) {
		return r.State == spec.FlowOpened
	}
	key := trafficKey{sandbox: sandbox, host: recordHost(r)}
	o := t.open[key]
	if o == nil {
		o = &opened{}
		t.open[key] = o
	}
	if r.State == spec.FlowOpened {
		o.latest = *r
		o.n++
		return true
	}
	o.n = max(0, o.n-1) // the beginning of the log is lost some time
	return false
}

// addOpen adds the flows that have no end. They count as let through.
func (t *tally) addOpen() {
	for key, o := range t.open {
		if o.n > 0 {
			o.latest.Count = o.n
			t.add(key.sandbox, &o.latest)
		}
	}
	clear(t.open)
}
