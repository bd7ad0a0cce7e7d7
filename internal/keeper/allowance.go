package keeper

import (
	"net/netip"
	"time"

	"golang.org/x/time/rate"

	"github.com/bothy-dev/bothy/spec"
)

// What the rules allow can be made as often as what they refuse, and much faster: ten
// thousand connections or requests in a few seconds, so that nothing is left in a log
// of bounded size of what was done just before. So what was let through has lines of
// its own for so many bytes, to each destination and to all together: enough for an
// installation of some thousand packages. Beyond that it is summed up, by destination.
// The first that goes to a destination has its line whatever there was before, for as
// many destinations as there are lines for that. All these lines at once are half of
// what a file of the log holds, and what stood at the end of the one before is there
// until it is full.
const (
	networkBytes = 8 << 20 // of a file of the log

	eachBurst, eachRate = 3 << 19, 1 << 10 // bytes, and bytes a second
	allBurst, allRate   = 2 << 20, 2 << 10

	maxDestinations = 1024
	bareLine        = 360 // bytes of a line without its texts
)

// allowance is what is left of that.
type allowance struct {
	all     *rate.Limiter
	first   *rate.Limiter // lines of destinations that are new
	each    map[destination]*rate.Limiter
	crowded map[string]struct{} // flows under way of which the opening was only counted
	swept   time.Time
}

// destination is whom something went to, as a rule names it.
type destination struct {
	name string
	addr netip.Addr
	port uint16
	in   bool
}

func newAllowance() *allowance {
	return &allowance{
		all: rate.NewLimiter(allRate, allBurst), first: rate.NewLimiter(rate.Every(lineEvery), lineBurst),
		each: map[destination]*rate.Limiter{}, crowded: map[string]struct{}{},
	}
}

// has takes what a record of something that was let through needs, and tells whether it
// was there. Who has a line for a flow's opening has one for its end.
func (a *allowance) has(r *spec.NetworkRecord, now time.Time) bool {
	switch r.State {
	case spec.FlowClosed:
		_, crowded := a.crowded[r.Flow]
		delete(a.crowded, r.Flow)
		return !crowded
	case spec.FlowOpened:
		if a.take(r, 2*lineSize(r), now) {
			return true
		}
		a.crowded[r.Flow] = struct{}{}
		return false
	}
	return a.take(r, lineSize(r), now)
}

func (a *allowance) take(r *spec.NetworkRecord, n int, now time.Time) bool {
	to := destination{name: r.Name, port: r.Port, in: r.Direction == spec.DirectionIn}
	if to.name == "" && !to.in { // who comes in has a new port and may have a new address each time
		to.addr = r.Addr
	}
	left := a.each[to]
	isNew := left == nil
	if isNew {
		if a.sweep(now); len(a.each) >= maxDestinations {
			return false
		}
		left = rate.NewLimiter(eachRate, eachBurst)
		a.each[to] = left
	}
	return left.AllowN(now, n) && (a.all.AllowN(now, n) || isNew && a.first.AllowN(now, 1))
}

// sweep forgets destinations that have got back all they had, once there are many. It
// looks at all of them, so it does that once a second.
func (a *allowance) sweep(now time.Time) {
	if len(a.each) < maxDestinations || now.Sub(a.swept) < time.Second {
		return
	}
	a.swept = now
	for to, left := range a.each {
		if left.TokensAt(now) >= eachBurst {
			delete(a.each, to)
		}
	}
}

// lineSize is how long a record's line is, or more.
func lineSize(r *spec.NetworkRecord) int {
	n := bareLine
	for _, s := range []string{r.Sandbox, r.Flow, r.Name, r.Method, r.Path, r.RPC, r.Secret, r.Lease, r.Rule, r.Source, r.Reason, r.Suggest} {
		for i := range len(s) {
			if c := s[i]; c < ' ' || c > '~' || c == '<' || c == '>' || c == '&' || c == '"' || c == '\\' {
				n += 5 // it is written as an escape
			}
			n++
		}
	}
	return n
}

// summed is what a record has in common with others of what was let through to the same
// destination: not what somebody inside can make up anew each time.
func summed(r spec.NetworkRecord) spec.NetworkRecord {
	if r.Name != "" || r.Direction == spec.DirectionIn {
		r.Addr = netip.Addr{}
	}
	r.Flow, r.Method, r.Path, r.RPC, r.Status, r.Duration, r.Suggest = "", "", "", "", 0, 0, ""
	r.Reason = tooMuch
	return r
}

const tooMuch = "more was let through than can be recorded one by one"
