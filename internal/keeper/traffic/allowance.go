package traffic

import (
	"net/netip"
	"time"

	"golang.org/x/time/rate"

	"github.com/bothy-dev/bothy/spec"
)

// Allowed traffic can be as frequent as refused traffic, and much faster: ten thousand
// connections or requests take a few seconds. They would push the recent entries out of a log
// of bounded size. So allowed traffic has a limited number of bytes for full lines, per
// destination and in total: enough to install some thousand packages. Beyond the limit, the
// keeper sums records up by destination. The first record of a destination always gets its
// line, up to the number of destinations that have such lines reserved. All these lines
// together fill half of a log file, so the end of the previous file is kept until this file
// is full.
const (
	// MaxBytes is the size of a file of the log.
	MaxBytes = 8 << 20

	eachBurst, eachRate = 3 << 19, 1 << 10 // bytes, and bytes a second
	allBurst, allRate   = 2 << 20, 2 << 10

	maxDestinations = 1024
	bareLine        = 360 // bytes of a line without its texts
)

// allowance is the rest of that limit.
type allowance struct {
	all     *rate.Limiter
	first   *rate.Limiter // lines of destinations that are new
	each    map[destination]*rate.Limiter
	crowded map[string]struct{} // flows under way whose opening was only counted
	swept   time.Time
}

// destination identifies the peer of a flow, as a rule names it.
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

// admitRecord takes the bytes that a record of allowed traffic needs, and reports whether they were
// available. A flow whose opening got a line also gets one for its end.
func (a *allowance) admitRecord(r *spec.NetworkRecord, now time.Time) bool {
	switch r.State {
	case spec.FlowClosed:
		_, crowded := a.crowded[r.Flow]
		delete(a.crowded, r.Flow)
		return !crowded
	case spec.FlowOpened:
		if a.takeBytes(r, 2*lineSize(r), now) {
			return true
		}
		a.crowded[r.Flow] = struct{}{}
		return false
	}
	return a.takeBytes(r, lineSize(r), now)
}

func (a *allowance) takeBytes(r *spec.NetworkRecord, n int, now time.Time) bool {
	to := destination{name: r.Name, port: r.Port, in: r.Direction == spec.DirectionIn}
	if to.name == "" && !to.in { // a client from outside uses a new port, and perhaps a new address, each time
		to.addr = r.Addr
	}
	left := a.each[to]
	isNew := left == nil
	if isNew {
		if a.forgetRefilled(now); len(a.each) >= maxDestinations {
			return false
		}
		left = rate.NewLimiter(eachRate, eachBurst)
		a.each[to] = left
	}
	return left.AllowN(now, n) && (a.all.AllowN(now, n) || isNew && a.first.AllowN(now, 1))
}

// forgetRefilled forgets destinations whose allowance has fully refilled, once there are many. It
// scans all of them, so it runs at most once a second.
func (a *allowance) forgetRefilled(now time.Time) {
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

// lineSize returns an upper bound for the length of a record's line.
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

// sharedFields keeps the fields that a record shares with other allowed records of its destination.
// It drops the fields that a program inside can vary each time.
func sharedFields(r spec.NetworkRecord) spec.NetworkRecord {
	if r.Name != "" || r.Direction == spec.DirectionIn {
		r.Addr = netip.Addr{}
	}
	r.Flow, r.Method, r.Path, r.RPC, r.Status, r.Duration, r.Suggest = "", "", "", "", 0, 0, ""
	r.Reason = tooMuch
	return r
}

const tooMuch = "more was let through than can be recorded one by one"
