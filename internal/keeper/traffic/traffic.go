// Package traffic writes the log of the gateway's reports, within bounds that the inside cannot exceed.
package traffic

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

// Log writes the network log: refusals, and the start and end of connections.
// The inside decides how often something is refused. So refusals must not push everything else
// out of a log of bounded size, nor keep the disk busy. The first refusal of its kind is
// written at once. Its repetitions are counted, and make one line at the end of each window; a
// window grows with every such line. Different kinds take their lines from a bucket; when it is
// empty they are only counted. An opened connection was not refused: it has both of its lines,
// however it ends. If there are very many it has neither, and both are counted: see allowance.
// Unrecorded traffic is not allowed: while the log cannot be written the gateway lets nothing
// new through.
type Log struct {
	sandbox string
	log     *audit.Log
	said    *slog.Logger
	changed func() // called when the log stops or starts being writable

	mu     sync.Mutex          // guards all below, and the order of lines in log
	pause  func(reason string) // the gateway's; nil before a gateway exists
	reason string              // why it is paused; empty if it is not
	held   map[spec.NetworkRecord]*repeated
	lines  map[string]*rate.Limiter // by kind of event: many names do not hide a connection
	passed *allowance               // for allowed traffic
	many   int                      // allowed ones among those held
	lost   lostRecords              // neither recorded nor reported yet
	told   time.Time                // time of the last report of lost ones
	timer  *time.Timer              // for the next window that ends; nil: no window is open
	closed chan struct{}
}

// repeated is a refusal that may repeat.
type repeated struct {
	latest spec.NetworkRecord // with the sums of the unwritten ones
	n      int64              // not written
	window time.Duration
	due    time.Time
}

// lostRecords counts records without a line, not even a common one.
type lostRecords struct {
	refused          int64
	passed, up, down int64 // allowed traffic, and its bytes
}

const (
	maxHeld       = 1024
	maxPassed     = 4 * maxDestinations // kinds of allowed traffic that are held
	firstWindow   = 2 * time.Second
	longestWindow = firstWindow << 7
	shortestSweep = 500 * time.Millisecond // between two scans of the table

	lineBurst = 500
	lineEvery = 10 * time.Second
	tellEvery = time.Minute // between two reports of lost records
	usualLine = 512         // bytes
	longest   = 1 << 10     // text in a record, which stays in memory while the record is held

	mendEvery = time.Second // between two attempts to write again
)

// New writes to log. It tells said of errors, and calls changed when log stops or starts being
// writable.
func New(sandbox string, log *audit.Log, said *slog.Logger, changed func()) *Log {
	return &Log{
		sandbox: sandbox, log: log, said: said, changed: changed,
		held: map[spec.NetworkRecord]*repeated{}, lines: map[string]*rate.Limiter{}, passed: newAllowance(), closed: make(chan struct{}),
	}
}

// PauseWhileBroken makes the log pause the gateway while it cannot be written.
func (t *Log) PauseWhileBroken(pause func(reason string)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pause = pause
	if t.reason != "" {
		pause(t.reason)
	}
}

// PausedBecause returns why the network is paused; empty if it is not.
func (t *Log) PausedBecause() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.reason
}

// Record writes a record now or later.
func (t *Log) Record(r spec.NetworkRecord) {
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
		if isRare(r) || t.passed.admitRecord(&r, now) {
			t.writeLine(r)
			return
		}
		r = sharedFields(r)
	}
	key := kindOf(r)
	if again := t.held[key]; again != nil {
		again.addRecord(r)
		return
	}
	first := t.holdKind(key, now)
	switch {
	case t.reason == "" && t.takeLine(r, now):
		t.writeLine(r)
	case first != nil:
		first.addRecord(r)
	default:
		t.countLost(&r, 1)
		t.schedule(now)
	}
}

// holdKind makes an entry for the repetitions of a record, if the table has room.
func (t *Log) holdKind(key spec.NetworkRecord, now time.Time) *repeated {
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

// isRare reports whether a record is of an event that the inside cannot cause.
func isRare(r spec.NetworkRecord) bool {
	return r.Event == spec.NetworkPolicy || r.Event == spec.NetworkRenewal
}

// repeats reports whether a record is of an event that costs the inside nothing: a refusal, a failure,
// a connection over which nothing could pass.
func repeats(r spec.NetworkRecord) bool {
	if r.Event == spec.NetworkFlow {
		return r.State == ""
	}
	return r.Verdict == spec.VerdictDeny || r.Verdict == spec.VerdictError
}

// shorten bounds texts that the inside may have made up. A suggested command that is too long is
// left out: half a command is a different one.
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

// kindOf returns the fields that a record shares with its repetitions.
func kindOf(r spec.NetworkRecord) spec.NetworkRecord {
	r.Time, r.Generation, r.Body, r.Up, r.Down, r.Duration, r.Count = time.Time{}, 0, 0, 0, 0, 0, 0
	return r
}

// countLost counts a record as lost, n times. It counts a connection at its end, and not again at its
// beginning.
func (t *Log) countLost(r *spec.NetworkRecord, n int64) {
	switch {
	case repeats(*r):
		t.lost.refused += n
	case r.State != spec.FlowOpened:
		t.lost.passed += n
		t.lost.up, t.lost.down = t.lost.up+r.Up, t.lost.down+r.Down
	}
}

func (a *repeated) addRecord(r spec.NetworkRecord) {
	r.Up, r.Down = r.Up+a.latest.Up, r.Down+a.latest.Down
	a.latest = r
	a.n++
}

// takeLine takes a line from the bucket of a kind of event; a long record takes several. Allowed traffic
// has its own buckets, and so have refused packets of any kind.
func (t *Log) takeLine(r spec.NetworkRecord, now time.Time) bool {
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

// schedule plans a sweep for the end of the next window.
func (t *Log) schedule(now time.Time) {
	if t.timer == nil && !t.isClosed() {
		t.timer = time.AfterFunc(t.nextSweep(now).Sub(now), t.sweepWindows)
	}
}

func (t *Log) nextSweep(now time.Time) time.Time {
	at := now.Add(longestWindow)
	if t.lost != (lostRecords{}) {
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

// sweepWindows writes the repetitions of windows that have ended, and forgets entries without
// repetitions.
func (t *Log) sweepWindows() {
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
			if !t.writeRepeated(a, now) && repeats(key) {
				t.countLost(&a.latest, a.n)
				a.clearSums()
			}
			a.window = min(2*a.window, longestWindow)
			a.due = now.Add(a.window)
		}
	}
	if t.reason == "" && now.Sub(t.told) >= tellEvery {
		t.tellLost(now)
	}
	if len(t.held) > 0 || t.lost != (lostRecords{}) {
		t.schedule(now)
	}
}

// Flush writes all records that are only counted so far. A later record counts as the first of its
// kind again.
func (t *Log) Flush() {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	for _, a := range t.held {
		switch {
		case t.writeRepeated(a, now):
		case repeats(a.latest), t.reason != "":
			t.countLost(&a.latest, a.n)
		default:
			t.writeSum(a)
		}
	}
	clear(t.held)
	t.many = 0
	if t.reason == "" {
		t.tellLost(now)
	}
}

// writeRepeated writes one line for all repetitions, if the bucket has a line left. Allowed traffic is held
// until it has one.
func (t *Log) writeRepeated(a *repeated, now time.Time) bool {
	if a.n == 0 {
		return true
	}
	if t.reason != "" || !t.takeLine(a.latest, now) {
		return false
	}
	t.writeSum(a)
	return true
}

// writeSum writes one line for all repetitions.
func (t *Log) writeSum(a *repeated) {
	if a.latest.Count = 0; a.n > 1 {
		a.latest.Count = a.n
	}
	t.writeLine(a.latest)
	a.clearSums()
}

func (a *repeated) clearSums() { a.n, a.latest.Up, a.latest.Down = 0, 0, 0 }

// tellLost writes one line for all refusals without a line, and one for allowed traffic.
func (t *Log) tellLost(now time.Time) {
	if t.lost == (lostRecords{}) {
		return
	}
	was := t.lost
	t.lost, t.told = lostRecords{}, now
	r := spec.NetworkRecord{Event: spec.NetworkSuppressed, Sandbox: t.sandbox}
	if was.refused > 0 {
		r.Verdict, r.Suppressed, r.Reason = spec.VerdictDeny, was.refused, "more was refused than can be recorded one by one"
		t.writeLine(r)
	}
	if was.passed > 0 {
		r.Verdict, r.Suppressed, r.Reason = spec.VerdictAllow, was.passed, tooMuch
		r.Up, r.Down = was.up, was.down
		t.writeLine(r)
	}
	if t.log.Lost() {
		t.lost = was
	}
}

// writeLine writes one line now.
func (t *Log) writeLine(r spec.NetworkRecord) {
	event := r.Event
	r.Event, r.Time = "", time.Time{}
	err := t.log.Write(event, r)
	switch {
	case t.log.Lost() && t.reason == "":
		t.closeNetwork(err)
	case err != nil:
		t.said.Warn("write network log", "err", err)
	}
}

// closeNetwork closes the network until the log can be written again.
func (t *Log) closeNetwork(err error) {
	t.reason = fmt.Sprintf("the network is closed because its log cannot be written: %v", err)
	if t.pause != nil {
		t.pause(t.reason)
	}
	t.said.Error("the network is closed", "err", err)
	if !t.isClosed() {
		go t.retryWriting(time.Now())
	}
}

// retryWriting retries until the log can be written.
func (t *Log) retryWriting(since time.Time) {
	t.changed()
	for {
		select {
		case <-t.closed:
			return
		case <-time.After(mendEvery):
		}
		if t.isMended() {
			t.said.Warn("the network is open again", "closed_since", since.UTC().Format(time.RFC3339))
			t.changed()
			return
		}
	}
}

func (t *Log) isMended() bool {
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

func (t *Log) isClosed() bool {
	select {
	case <-t.closed:
		return true
	default:
		return false
	}
}

// Close writes all records that are only counted so far. Afterwards only the first of each kind is
// recorded.
func (t *Log) Close() {
	t.Flush()
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.isClosed() {
		close(t.closed)
	}
	if t.timer != nil {
		t.timer.Stop()
	}
}
