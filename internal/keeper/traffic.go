package keeper

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/bothy-dev/bothy/internal/audit"
	"github.com/bothy-dev/bothy/spec"
)

// traffic writes the network log: what was refused, what was opened, and what ended.
//
// Whoever is inside decides how often something is refused, so refusals must
// not be able to push everything else out of a log of bounded size, nor keep the
// disk busy. The first of its kind is written at once. What repeats it is
// counted, and told in one line each time a window ends that grows with every
// such line. Different ones come out of a bucket; beyond it they are only
// counted. A connection that was opened was not refused: it has both of its lines,
// whatever it ends by, or, where there are very many, neither, and both are counted: see
// allowance.
//
// What cannot be recorded must not happen: while the log cannot be written the
// gateway lets nothing new through.
type traffic struct {
	sandbox string
	log     *audit.Log
	said    *slog.Logger
	changed func() // told when the log can or cannot be written any more

	mu     sync.Mutex
	pause  func(reason string) // the gateway's; nil before there is one
	reason string              // why it is paused, if it is
	held   map[spec.NetworkRecord]*repeated
	lines  map[string]*rate.Limiter // by kind of event: many names do not hide a connection
	passed *allowance               // for what was let through
	many   int                      // of those held, how many were let through
	lost   lost                     // what was not recorded, nor told of
	told   time.Time                // when they were last told of
	timer  *time.Timer              // for the next window that ends; nil: none is open
	closed chan struct{}
}

// repeated is a refusal that may come again.
type repeated struct {
	latest spec.NetworkRecord // with the sums of those not written
	n      int64              // not written
	window time.Duration
	due    time.Time
}

// lost is what has no line, not even a common one.
type lost struct {
	refused          int64
	passed, up, down int64 // what was let through, and its bytes
}

const (
	maxHeld       = 1024
	maxPassed     = 4 * maxDestinations // kinds of what was let through that are held
	firstWindow   = 2 * time.Second
	longestWindow = firstWindow << 7
	shortestSweep = 500 * time.Millisecond // between two looks at the table

	lineBurst = 500
	lineEvery = 10 * time.Second
	tellEvery = time.Minute // between two lines that tell of lost ones
	usualLine = 512         // bytes
	longest   = 1 << 10     // text in a record, which is kept while it is held

	mendEvery = time.Second // between two attempts to write again
)

func newTraffic(sandbox string, log *audit.Log, said *slog.Logger, changed func()) *traffic {
	return &traffic{
		sandbox: sandbox, log: log, said: said, changed: changed,
		held: map[spec.NetworkRecord]*repeated{}, lines: map[string]*rate.Limiter{}, passed: newAllowance(), closed: make(chan struct{}),
	}
}

// guard has the gateway paused while the log cannot be written.
func (t *traffic) guard(pause func(reason string)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pause = pause
	if t.reason != "" {
		pause(t.reason)
	}
}

// paused is why the network is, empty if it is not.
func (t *traffic) paused() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.reason
}

// record writes a record down, sooner or later.
func (t *traffic) record(r spec.NetworkRecord) {
	shorten(&r)
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if r.Event == spec.NetworkSuppressed {
		t.lost.refused += r.Suppressed
		t.schedule(now)
		return
	}
	if !repeats(r) {
		if isRare(r) || t.passed.has(&r, now) {
			t.write(r)
			return
		}
		r = summed(r)
	}
	key := kind(r)
	if again := t.held[key]; again != nil {
		again.add(r)
		return
	}
	first := t.hold(key, now)
	switch {
	case t.reason == "" && t.take(r, now):
		t.write(r)
	case first != nil:
		first.add(r)
	default:
		t.lose(&r, 1)
		t.schedule(now)
	}
}

// hold makes room for the repetitions of a record, if there is some.
func (t *traffic) hold(key spec.NetworkRecord, now time.Time) *repeated {
	isFull := len(t.held)-t.many >= maxHeld
	if !repeats(key) {
		isFull = t.many >= maxPassed
	}
	if isFull || t.isClosed() {
		return nil
	}
	a := &repeated{window: firstWindow, due: now.Add(firstWindow)}
	t.held[key] = a
	if !repeats(key) {
		t.many++
	}
	t.schedule(now)
	return a
}

// isRare tells whether a record is of something that nobody inside can make happen.
func isRare(r spec.NetworkRecord) bool {
	return r.Event == spec.NetworkPolicy || r.Event == spec.NetworkRenewal
}

// repeats tells whether a record is of something that costs somebody inside nothing: a
// refusal, a failure, a connection over which nothing could pass.
func repeats(r spec.NetworkRecord) bool {
	if r.Event == spec.NetworkFlow {
		return r.State == ""
	}
	return r.Verdict == spec.VerdictDeny || r.Verdict == spec.VerdictError
}

// shorten bounds what somebody inside may have made up. A command that would be
// cut is left out: half of it is another.
func shorten(r *spec.NetworkRecord) {
	if len(r.Suggest) > longest {
		r.Suggest = ""
	}
	for _, s := range []*string{&r.Name, &r.Method, &r.Path, &r.RPC, &r.Rule, &r.Reason} {
		if len(*s) > longest {
			*s = strings.ToValidUTF8((*s)[:longest], "") + "…"
		}
	}
}

// kind is what a record has in common with its repetitions.
func kind(r spec.NetworkRecord) spec.NetworkRecord {
	r.Time, r.Generation, r.Body, r.Up, r.Down, r.Duration, r.Count = time.Time{}, 0, 0, 0, 0, 0, 0
	return r
}

// lose counts what a record tells of, n times, as lost. The end of a connection is: not
// its beginning, too.
func (t *traffic) lose(r *spec.NetworkRecord, n int64) {
	switch {
	case repeats(*r):
		t.lost.refused += n
	case r.State != spec.FlowOpened:
		t.lost.passed += n
		t.lost.up, t.lost.down = t.lost.up+r.Up, t.lost.down+r.Down
	}
}

func (a *repeated) add(r spec.NetworkRecord) {
	r.Up, r.Down = r.Up+a.latest.Up, r.Down+a.latest.Down
	a.latest = r
	a.n++
}

// take takes a line from the bucket of a kind of event, several for a long one; what was
// let through has other buckets, and so have packets that are refused whatever they are for.
func (t *traffic) take(r spec.NetworkRecord, now time.Time) bool {
	of := r.Event
	switch {
	case !repeats(r):
		of = "passed " + of
	case r.IsPacket():
		of = "packet"
	}
	left := t.lines[of]
	if left == nil {
		left = rate.NewLimiter(rate.Every(lineEvery), lineBurst)
		t.lines[of] = left
	}
	return left.AllowN(now, max(1, lineSize(&r)/usualLine))
}

// schedule has the table looked at when the next window ends.
func (t *traffic) schedule(now time.Time) {
	if t.timer == nil && !t.isClosed() {
		t.timer = time.AfterFunc(t.next(now).Sub(now), t.sweep)
	}
}

func (t *traffic) next(now time.Time) time.Time {
	at := now.Add(longestWindow)
	if t.lost != (lost{}) {
		at = now.Add(tellEvery)
	}
	for _, a := range t.held {
		if a.due.Before(at) {
			at = a.due
		}
	}
	if soon := now.Add(shortestSweep); at.Before(soon) {
		return soon
	}
	return at
}

// sweep tells what was repeated in windows that have ended, and forgets what was
// not.
func (t *traffic) sweep() {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	t.timer = nil
	if t.isClosed() {
		return
	}
	for key, a := range t.held {
		switch {
		case now.Before(a.due):
		case a.n == 0:
			delete(t.held, key)
			if !repeats(key) {
				t.many--
			}
		default:
			if !t.tell(a, now) && repeats(key) {
				t.lose(&a.latest, a.n)
				a.clear()
			}
			a.window = min(2*a.window, longestWindow)
			a.due = now.Add(a.window)
		}
	}
	if t.reason == "" && now.Sub(t.told) >= tellEvery {
		t.tellLost(now)
	}
	if len(t.held) > 0 || t.lost != (lost{}) {
		t.schedule(now)
	}
}

// flush tells everything that is only counted yet. What comes afterwards is the
// first of its kind again.
func (t *traffic) flush() {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	for _, a := range t.held {
		switch {
		case t.tell(a, now):
		case repeats(a.latest), t.reason != "":
			t.lose(&a.latest, a.n)
		default:
			t.put(a)
		}
	}
	clear(t.held)
	t.many = 0
	if t.reason == "" {
		t.tellLost(now)
	}
}

// tell writes one line for all repetitions, if there is one left to write. What was let
// through is held until there is one.
func (t *traffic) tell(a *repeated, now time.Time) bool {
	if a.n == 0 {
		return true
	}
	if t.reason != "" || !t.take(a.latest, now) {
		return false
	}
	t.put(a)
	return true
}

// put writes one line for all repetitions.
func (t *traffic) put(a *repeated) {
	if a.latest.Count = 0; a.n > 1 {
		a.latest.Count = a.n
	}
	t.write(a.latest)
	a.clear()
}

func (a *repeated) clear() { a.n, a.latest.Up, a.latest.Down = 0, 0, 0 }

// tellLost writes one line for all that was refused and has none, and one for what was let
// through.
func (t *traffic) tellLost(now time.Time) {
	if t.lost == (lost{}) {
		return
	}
	was := t.lost
	t.lost, t.told = lost{}, now
	r := spec.NetworkRecord{Event: spec.NetworkSuppressed, Sandbox: t.sandbox}
	if was.refused > 0 {
		r.Verdict, r.Suppressed, r.Reason = spec.VerdictDeny, was.refused, "more was refused than can be recorded one by one"
		t.write(r)
	}
	if was.passed > 0 {
		r.Verdict, r.Suppressed, r.Reason = spec.VerdictAllow, was.passed, tooMuch
		r.Up, r.Down = was.up, was.down
		t.write(r)
	}
	if t.log.Lost() {
		t.lost = was
	}
}

// write writes one line now.
func (t *traffic) write(r spec.NetworkRecord) {
	event := r.Event
	r.Event, r.Time = "", time.Time{}
	err := t.log.Write(event, r)
	switch {
	case t.log.Lost() && t.reason == "":
		t.fail(err)
	case err != nil:
		t.said.Warn("write network log", "err", err)
	}
}

// fail closes the network until the log can be written again.
func (t *traffic) fail(err error) {
	t.reason = fmt.Sprintf("the network is closed because its log cannot be written: %v", err)
	if t.pause != nil {
		t.pause(t.reason)
	}
	t.said.Error("the network is closed", "err", err)
	if !t.isClosed() {
		go t.mend(time.Now())
	}
}

// mend tries until the log can be written.
func (t *traffic) mend(since time.Time) {
	t.changed()
	for {
		select {
		case <-t.closed:
			return
		case <-time.After(mendEvery):
		}
		if t.mended() {
			t.said.Warn("the network is open again", "closed_since", since.UTC().Format(time.RFC3339))
			t.changed()
			return
		}
	}
}

func (t *traffic) mended() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.log.Retry() != nil {
		return false
	}
	if t.tellLost(time.Now()); t.log.Lost() {
		return false
	}
	t.reason = ""
	if t.pause != nil {
		t.pause("")
	}
	return true
}

func (t *traffic) isClosed() bool {
	select {
	case <-t.closed:
		return true
	default:
		return false
	}
}

// close tells what is only counted yet. Nothing is recorded afterwards but by
// its first line.
func (t *traffic) close() {
	t.flush()
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.isClosed() {
		close(t.closed)
	}
	if t.timer != nil {
		t.timer.Stop()
	}
}

// noteNetwork keeps the status true to the network log.
func (k *Keeper) noteNetwork() {
	k.status.update(func(st *spec.Status) { st.NetworkPaused = k.traffic.paused() })
}
