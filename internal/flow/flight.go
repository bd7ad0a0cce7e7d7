package flow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/bothy-dev/bothy/internal/flow/flowplan"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

// flight is a running try.
type flight struct {
	node     *flowplan.Node
	attempt  int
	name     string
	job      Job
	before   Used // usage of models by its room before
	part     bool // others have parts of the budget
	log      *stepLog
	began    time.Time
	stop     context.CancelCauseFunc
	recalled bool // its result would be useless
}

// landing is the result of a flight. With an error the try was interrupted; then used is its usage,
// unless that could not be found out.
type landing struct {
	*flight
	done    Done
	err     error
	used    Short
	unknown error
}

// Causes for cancelling running work.
var (
	errGround = errors.New("the flow is not gone on with")
	errStale  = errors.New("a step that it needs is done again")
)

// maxMessage bounds an agent's message and error that are kept, in bytes.
const maxMessage = 8 << 10

// beginTry begins one try of a step, and does not wait for it.
func (c *Carrier) beginTry(ctx context.Context, d Decision) error {
	n := d.Work
	st := c.state.byID[n.ID]
	attempt := st.Attempts + 1
	if st.Hash != d.Hash { // the flaws belonged to another task
		st.Missing = nil
	}
	name := fmt.Sprintf("%s.%d", n.ID, attempt)
	job, stale, err := c.makeJob(d, name)
	if err != nil {
		return err
	}
	if stale { // a file has just changed
		return c.lookAtFiles()
	}
	f := &flight{node: n, attempt: attempt, name: name, job: job, part: d.Part, began: time.Now()}
	if f.before, err = c.usedIn(ctx, d.Room); err != nil {
		return err
	}
	if f.log, err = openLog(filepath.Join(c.Run.Dir(), LogsDir, flowplan.LogName(n, name))); err != nil {
		return err
	}
	f.job.Log = f.log
	if err := c.keepEvent(Started, Start{Step: n.ID, Attempt: attempt, Hash: d.Hash, Before: &f.before, Room: d.Room, Share: d.Share}); err != nil {
		return errors.Join(err, f.log.f.Close())
	}
	var work context.Context
	work, f.stop = context.WithCancelCause(ctx)
	c.aloft[n.ID] = f
	go func() { c.landed <- c.doWork(work, f, d.Room) }() // until awaitTry or stopTries takes it
	return nil
}

// doWork does the work.
func (c *Carrier) doWork(ctx context.Context, f *flight, room string) landing {
	defer f.log.f.Close()
	done, err := c.Runner.Work(ctx, f.job)
	if err == nil {
		err = ctx.Err() // interrupted, even if it has a result
	}
	l := landing{flight: f, done: done, err: err}
	if err != nil {
		l.used, l.unknown = c.useSince(ctx, room, &f.before, done)
	}
	return l
}

// awaitTry waits for a running try, at most until a time, if that is not zero, and at most until the
// next look for messages.
func (c *Carrier) awaitTry(ctx context.Context, until time.Time) error {
	wait := wakeEvery
	if !until.IsZero() {
		wait = min(time.Until(until), wait)
	}
	select {
	case l := <-c.landed:
		return c.keepLanding(l)
	case h := <-c.heard:
		return c.hearCall(h)
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// wakeEvery is how often to look for messages and at the clock: timers stop while a machine
// sleeps.
const wakeEvery = time.Second

// cancelStale cancels running tries whose inputs have changed.
func (c *Carrier) cancelStale() {
	for _, f := range c.aloft {
		if st := c.state.byID[f.node.ID]; !f.recalled && (!c.state.canRun(f.node) || c.state.hashTask(f.node) != st.Hash) {
			f.recalled = true
			f.stop(errStale)
		}
	}
}

// stopTries cancels all running tries, and waits for a call to return. It returns the first error of an
// event that could not be kept: the others fail for the same reason.
func (c *Carrier) stopTries() error {
	for _, f := range c.aloft {
		f.stop(errGround)
	}
	var unkept error
	for len(c.aloft) > 0 {
		if err := c.keepLanding(<-c.landed); unkept == nil && run.IsUnkept(err) {
			unkept = err
		}
	}
	if c.calling {
		unkept = cmp.Or(unkept, c.hearCall(<-c.heard))
	}
	return unkept
}

// keepLanding records the result of a try.
func (c *Carrier) keepLanding(l landing) error {
	delete(c.aloft, l.node.ID)
	l.stop(nil)
	if l.err == nil && l.recalled {
		l.err, l.used = errStale, Short{Tokens: l.done.Tokens, USD: l.done.USD, Seen: l.done.Seen, Said: l.done.Said}
	}
	if l.err != nil {
		switch { // if the usage is unknown, the next carrier counts it
		case l.unknown == nil:
		case l.unknown.Error() == l.err.Error(): // for example, the sandbox was removed
			return l.err
		default:
			return errors.Join(l.err, l.unknown)
		}
		l.used.Step, l.used.Attempt = l.node.ID, l.attempt
		err := c.keepEvent(Cut, l.used)
		if l.recalled || err != nil {
			return err
		}
		return l.err
	}
	w := Work{
		Step: l.node.ID, Attempt: l.attempt, Verdict: l.done.Verdict, Error: run.Tail(l.done.Error, maxMessage), Until: l.done.Until,
		Message: run.Tail(l.done.Message, maxMessage), Tokens: l.done.Tokens, USD: l.done.USD, Said: l.done.Said, Seen: l.done.Seen, Seconds: time.Since(l.began).Seconds(),
		Overloaded: l.done.Overloaded, Unlisted: l.done.Unlisted,
	}
	if l.node.Output != "" && l.done.Verdict != spec.VerdictLimit {
		if err := c.judgeOutput(l.node, l.name, l.done, &w); err != nil {
			return err
		}
	}
	w.Scant = l.part && len(missing(w)) > 0 && l.usedUpShare()
	return c.keepEvent(Worked, w)
}

// usedUpShare reports whether the job used up all of its share.
func (l *landing) usedUpShare() bool {
	share := l.job.Budget
	return share.Tokens > 0 && l.done.Tokens >= share.Tokens || share.USD > 0 && l.done.USD >= share.USD
}

// countTime bounds how long it may take to find out the usage.
const countTime = time.Minute

// countUse counts the usage of a try whose host has died.
func (c *Carrier) countUse(ctx context.Context, n *flowplan.Node) error {
	st := c.state.byID[n.ID]
	room := st.room
	if room == "" && metered(n) { // recorded before several steps could run
		room = c.Plan.RoomOf(n)
	}
	used, err := c.useSince(ctx, room, st.before, Done{})
	if err != nil {
		return err
	}
	used.Step, used.Attempt = n.ID, st.Attempts
	return c.keepEvent(Cut, used)
}

// useSince returns the usage of models by a room since a try began in it, or the agent's figure if that
// is more.
func (c *Carrier) useSince(ctx context.Context, room string, before *Used, done Done) (Short, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), countTime)
	defer cancel()
	now, err := c.usedIn(ctx, room)
	used := Short{Tokens: done.Tokens, USD: done.USD, Said: done.Said}
	if err != nil || before == nil {
		return used, err
	}
	if tokens, usd := now.Tokens-before.Tokens, now.USD-before.USD; tokens > 0 || usd > 0 {
		used.Tokens, used.USD = max(used.Tokens, tokens), max(used.USD, usd)
		used.Seen = &spec.BillItem{Answers: 1, Tokens: spec.Tokens{Input: tokens}, USD: usd}
	}
	return used, nil
}

// usedIn returns the usage of models by a room; zero for a room that was removed after its work.
func (c *Carrier) usedIn(ctx context.Context, room string) (Used, error) {
	if room == "" {
		return Used{}, nil
	}
	return c.Runner.Used(ctx, room)
}

// lookAtFiles reads the current state of the files.
func (c *Carrier) lookAtFiles() error {
	seen, err := Look(c.Run.Dir(), c.state)
	if err != nil {
		return err
	}
	return c.keepEvent(Found, seen)
}
