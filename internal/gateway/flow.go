package gateway

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/held"
	"github.com/bothy-dev/bothy/internal/gateway/inspect"
	"github.com/bothy-dev/bothy/internal/gateway/relay"
	"github.com/bothy-dev/bothy/internal/gateway/uploadlimit"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/spec"
)

// maxFlows bounds the connections of one sandbox, and with them the memory that their buffers take.
const maxFlows = 4096

// flow is a connection from the first packet to the record of its end.
type flow struct {
	kind   kind
	began  time.Time
	counts relay.Counts
	cancel context.CancelFunc

	outflow *uploadlimit.Meter // counts its bytes if the gateway does not inspect it; nil: not counted

	git      bool          // a rule lets git over SSH pass on it
	looked   bool          // the gateway has looked at its protocol
	passes   bool          // a rule forbids inspecting it
	requests inspect.Track // if that is HTTP

	opening sync.Mutex // held while that is recorded
	number  string     // in the log, once it is
	over    bool       // its end is about to be

	mu      sync.Mutex
	subject policy.Flow
	// elsewhere: the host's proxy has found the address.
	elsewhere bool
	conns     []relay.Conn
	lease     string             // of the host's SSH agent, by which it logged in
	gits      *uploadlimit.Meter // counts what git sends on it; nil: not counted
	why       error              // it was ended
}

// kind tells which part of the gateway decides about a flow.
type kind uint8

const (
	judged  kind = iota // decided by the policy
	toHost              // to a port of the host: see hostport.go
	inbound             // to a published port: see inbound.go
	toMock              // to a server that is played: see mock.go
)

// asJudged returns the flow as the policy judges it.
func (f *flow) asJudged() policy.Flow {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.subject
}

// isElsewhere reports whether only the host's proxy knows the flow's address.
func (f *flow) isElsewhere() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.elsewhere
}

// gitMeter returns the meter for what git sends.
func (f *flow) gitMeter() *uploadlimit.Meter {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.gits
}

// markSeen notes that every request on the flow is judged.
func (f *flow) markSeen() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.subject.Seen = true
}

// askedFor notes the name that the client asks for at a literal address.
func (f *flow) askedFor(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.subject.Asked = name
}

// holdConn closes a connection when the flow ends.
func (f *flow) holdConn(c relay.Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.why != nil {
		c.Reset()
	}
	f.conns = append(f.conns, c)
}

// reached is hold for the far side. It notes the address in the flow and the record.
func (f *flow) reached(c relay.Conn, r *spec.NetworkRecord) {
	f.holdConn(c)
	at := relay.Remote(c)
	f.mu.Lock()
	defer f.mu.Unlock()
	if !at.IsValid() {
		f.elsewhere = true
		return
	}
	r.Addr = at
	f.subject.Addr = at
}

// cutOff cuts the flow off. Only the first reason counts.
func (f *flow) cutOff(why error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.why != nil {
		return
	}
	f.why = why
	f.cancel()
	for _, c := range f.conns {
		c.Reset()
	}
}

// endReason returns why the flow was cut off, or nil.
func (f *flow) endReason() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.why
}

// table holds the active flows.
type table struct {
	mu   sync.Mutex
	set  map[*flow]struct{}
	most int // flows since there were few
}

// A map never shrinks: after a burst the table gets a new map.
const (
	crowd = 1000
	few   = crowd / 10
)

// addFlow admits a flow unless there are too many.
func (t *table) addFlow(f *flow) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.set) >= maxFlows {
		return false
	}
	if t.set == nil {
		t.set = map[*flow]struct{}{}
	}
	t.set[f] = struct{}{}
	t.most = max(t.most, len(t.set))
	return true
}

func (t *table) remove(f *flow) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.set, f)
	if len(t.set) <= few && t.most >= crowd {
		t.most = 0
		t.set = maps.Clone(t.set)
	}
	held.GiveBack()
}

func (t *table) listFlows() []*flow {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Keys(t.set))
}

// Flows lists the active connections, the oldest first.
func (g *Gateway) Flows() []spec.Flow {
	var list []spec.Flow
	for _, f := range g.flows.listFlows() {
		s := f.asJudged()
		list = append(list, spec.Flow{
			Name: s.Name, Addr: s.Addr, Port: s.Port, Direction: f.kind.direction(),
			Began: f.began, Up: f.counts.Up.Load(), Down: f.counts.Down.Load(),
		})
	}
	slices.SortFunc(list, func(a, b spec.Flow) int { return a.Began.Compare(b.Began) })
	return list
}
