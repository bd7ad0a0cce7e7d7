package loop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

// Bench is a shop in which several work at the same time, each at a seat of its own. Its
// methods are called by several goroutines.
type Bench interface {
	Shop
	// Join makes a checkpoint that has what was done from one to another, and what the
	// loop's sandbox holds now; or says why there can be none.
	Join(ctx context.Context, base, theirs int64, cause string) (Join, error)
	// Settle has the loop's sandbox hold a checkpoint, if it still holds what it held at
	// another; else the error is ErrMoved.
	Settle(ctx context.Context, ours, checkpoint int64) error
	// Spent is what models have taken for a seat since it began to work.
	Spent(ctx context.Context, seat Seat) (tokens int64, usd float64, err error)
}

// ErrMoved says that somebody has changed the loop's sandbox while it was judged what was
// to be put there.
var ErrMoved = errors.New("the loop's sandbox was changed meanwhile")

// Team carries on a loop with several workers. All that is decided and kept is decided
// and kept by one goroutine; what takes its time is done by others, one for each worker.
// What is brought together is brought together one after the other.
type Team struct {
	Plan  *Plan
	Run   *run.Run
	Host  *run.Host
	Bench Bench
	Desk  *Desk
	Tell  func(run.Event, *State) // what has happened; may be nil

	state  *State
	hands  []*hand
	done   chan outcome
	ending *End         // there is nothing to begin any more, for this reason
	pause  *run.Message // somebody wants it to be so
	looked time.Time    // for tasks
	kept   int          // events
}

// hand is what is under way for a worker.
type hand struct {
	worker  int
	stop    context.CancelCauseFunc // nil: nothing is
	what    string                  // the type of the event that it is to come to
	task    string                  // that is being taken
	renewed time.Time               // its claim
	lost    error                   // it is another's
	idle    bool                    // there was no task for it
	spent   chan spend              // the newest of what it has used just now
	spend   spend
}

// spend is what models have taken.
type spend struct {
	tokens int64
	usd    float64
}

// outcome is what something came to: then keeps it.
type outcome struct {
	worker int
	then   func() error
	err    error
}

// Carry is that of [Loop].
func (t *Team) Carry(ctx context.Context, events []run.Event) (*State, error) {
	var err error
	if t.state, err = Fold(events); err != nil {
		return nil, err
	}
	t.done = make(chan outcome, t.Plan.Workers)
	for n := range t.Plan.Workers {
		t.hands = append(t.hands, &hand{worker: n + 1, spent: make(chan spend, 1)})
		t.state.worker(n + 1)
	}
	err = t.Run.Carry(ctx, run.Work{
		Begin: func() error {
			if err := forget(t.Run, t.Host); err != nil {
				return err
			}
			return t.append(Began, run.ActorHost, nil)
		},
		Running: func() bool { return t.state.Status == Running },
		Mail:    t.mail,
		Step:    t.step,
		Failed: func(why error) error {
			return t.end(run.ActorHost, End{Status: Failed, Reason: "error", Detail: why.Error()})
		},
		Interrupted: func(signal int) error {
			return t.end(run.ActorHost, End{Status: Interrupted, Reason: "signal", Signal: signal})
		},
	})
	return t.state, errors.Join(err, t.drain()) // nothing is left at work, whatever could not be kept
}

func (t *Team) append(kind, actor string, data any) error {
	ev, err := t.Host.Append(kind, actor, data)
	if err == nil {
		t.kept++
		err = t.state.Add(ev)
	}
	if err == nil && t.Tell != nil {
		t.Tell(ev, t.state)
	}
	return err
}

func (t *Team) keep(kind string, data any) error {
	return run.Unkept(t.append(kind, run.ActorHost, data))
}

// mail does what people say. A pause waits until nobody is at anything.
func (t *Team) mail() error {
	list, err := t.Run.Mail()
	if err != nil {
		return err
	}
	for _, m := range list {
		switch m.Kind {
		case run.Hint:
			err = t.append(Hinted, m.Actor, Advice{m.ID, m.Text})
		case run.Stop:
			err = t.end(m.Actor, End{Status: Cancelled, Reason: "stopped"})
		case run.Pause:
			t.pause = &m
			continue
		}
		if err == nil {
			err = t.Run.Take(m)
		}
		if err != nil || t.state.Status != Running {
			return err
		}
	}
	return nil
}

// end writes down that the loop is not carried on, when nothing is under way any more.
func (t *Team) end(actor string, e End) error {
	if err := t.drain(); err != nil {
		return err
	}
	for _, w := range t.state.Workers {
		if w.Task == nil || !w.held {
			continue
		}
		note := ""
		if e.Status != Waiting && e.Status != Interrupted {
			note = noteOf(t.Run.ID, fmt.Sprintf("the loop ended: %s (%s)", e.Status, e.Reason))
		}
		_ = t.Desk.PutBack(context.Background(), w.Task.ID, note) // else its lease runs out
	}
	return t.append(Ended, actor, e)
}

// drain ends all that is under way. What it has come to by then is kept; of what came to
// nothing there may be something that it has used.
func (t *Team) drain() (err error) {
	for _, h := range t.hands {
		if h.stop != nil {
			h.stop(errOver)
		}
	}
	for t.busy() > 0 {
		o := <-t.done
		t.free(o)
		if o.then != nil && err == nil {
			if err = o.then(); !run.IsUnkept(err) {
				err = nil // it is said already why it ends
			}
		}
	}
	return err
}

// errOver is the cause for which work is given up when the loop ends.
var errOver = errors.New("the loop ends")

func (t *Team) busy() (n int) {
	for _, h := range t.hands {
		if h.stop != nil {
			n++
		}
	}
	return n
}

// free has a hand be free for what comes next.
func (t *Team) free(o outcome) *hand {
	h := t.hands[o.worker-1]
	h.stop(nil)
	h.stop, h.what, h.task, h.spend = nil, "", "", spend{}
	select {
	case <-h.spent:
	default:
	}
	return h
}

// step begins what can be begun, and waits until something has come to its end, or until
// it is time to look at other things.
func (t *Team) step(ctx context.Context) error {
	if t.state.Baseline == nil {
		return t.baseline(ctx)
	}
	if err := t.watch(ctx); err != nil {
		return err
	}
	before := t.kept
	for _, h := range t.hands {
		if h.stop == nil {
			if err := t.next(ctx, h); err != nil || t.state.Status != Running {
				return err
			}
		}
	}
	switch {
	case t.busy() > 0:
	case t.kept != before: // there is a next step of somebody
		return nil
	default:
		if over, err := t.quiet(); over || err != nil {
			return err
		}
	}
	select {
	case o := <-t.done:
		return t.came(ctx, o)
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(lookEvery):
		return nil
	}
}

// lookEvery is how often it is looked for messages, claims and what is spent; tasksEvery for
// tasks that somebody else has made ready.
const (
	lookEvery  = 200 * time.Millisecond
	tasksEvery = 5 * time.Second
)

// came keeps what something has come to.
func (t *Team) came(ctx context.Context, o outcome) error {
	h := t.free(o)
	var err error
	if o.then != nil {
		err = o.then()
	}
	if err != nil || ctx.Err() != nil {
		return errors.Join(err, ctx.Err())
	}
	if h.lost != nil {
		return t.lost(h)
	}
	if t.ending != nil && (errors.Is(o.err, errSpent) || errors.Is(o.err, context.Canceled)) {
		return nil // that is why it ends
	}
	return o.err
}

// lost says that a task is another's by now.
func (t *Team) lost(h *hand) error {
	why := h.lost
	h.lost = nil
	w := t.state.Workers[h.worker-1]
	if w.Task == nil {
		return nil
	}
	t.wake()
	return t.keep(Lost, Left{By: h.by(), Task: w.Task.ID, Why: why.Error(), Iteration: w.Iteration})
}

func (h *hand) by() By { return By{Worker: h.worker} }

func (h *hand) seat() Seat { return Seat{Worker: h.worker} }

// wake has those look for tasks again that found none.
func (t *Team) wake() {
	for _, h := range t.hands {
		h.idle = false
	}
}

// baseline sees what the gates say before anything is done.
func (t *Team) baseline(ctx context.Context) error {
	v, err := baseline(ctx, t.Bench, t.Run.ID)
	if err != nil {
		return err
	}
	return t.keep(Baseline, v)
}

// watch renews claims, and gives work up when what all have used is all there is.
func (t *Team) watch(ctx context.Context) error {
	tokens, usd := t.state.Tokens, t.state.USD
	for _, h := range t.hands {
		if err := t.renew(ctx, h); err != nil {
			return err
		}
		select {
		case h.spend = <-h.spent:
		default:
		}
		tokens, usd = tokens+h.spend.tokens, usd+h.spend.usd
	}
	if time.Since(t.looked) > tasksEvery {
		t.looked = time.Now()
		t.wake()
	}
	now := *t.state
	now.Tokens, now.USD = tokens, usd
	end := spent(t.Plan, &now, time.Now())
	if end == nil || end.Reason == "time" { // for which each is stopped by itself
		return nil
	}
	t.wind(end)
	for _, h := range t.hands {
		if h.stop != nil && (h.what == Worked || h.what == Reviewed) {
			h.stop(errSpent)
		}
	}
	return nil
}

// errSpent is the cause for which work is given up when nothing is left for it.
var errSpent = errors.New("the means of all are used up")

// wind has nothing be begun any more.
func (t *Team) wind(end *End) {
	if t.ending == nil {
		t.ending = end
	}
}

// renew makes a claim last.
func (t *Team) renew(ctx context.Context, h *hand) error {
	w := t.state.Workers[h.worker-1]
	if w.Task == nil || !w.held || h.lost != nil || time.Since(h.renewed) < Lease/3 {
		return nil
	}
	h.renewed = time.Now()
	err := t.Desk.Renew(ctx, w.Task.ID)
	if !errors.Is(err, spec.ErrConflict) {
		return nil // what else goes wrong may go right the next time
	}
	h.lost = err
	if h.stop == nil {
		return t.lost(h)
	}
	h.stop(errLost)
	return nil
}

// begin has something be done that takes its time. What it gives is kept here when it has
// come to its end.
func (t *Team) begin(ctx context.Context, h *hand, what string, do func(context.Context) (func() error, error)) {
	ctx, h.stop = context.WithCancelCause(ctx)
	h.what = what
	go func() {
		then, err := do(ctx)
		t.done <- outcome{h.worker, then, err}
	}()
}

// winding tells whether nothing is to be begun any more.
func (t *Team) winding() bool { return t.ending != nil || t.pause != nil }

// next begins what comes next for a worker, or leaves it where it is.
func (t *Team) next(ctx context.Context, h *hand) error {
	w := t.state.Workers[h.worker-1]
	step := NextOf(t.Plan, t.state, w, time.Now())
	if (step.Take || step.Iterate > 0) && t.winding() {
		return nil
	}
	switch {
	case step.Take:
		return t.take(ctx, h, w)
	case step.End != nil:
		t.wind(step.End)
		return nil
	case step.Iterate > 0:
		return t.iterate(ctx, h, w, step.Iterate)
	case step.Review != nil:
		return t.review(ctx, h, w, step.Review)
	case step.PutBack != "":
		return t.putBack(ctx, h, w, step)
	case step.Close:
		return t.close(ctx, h, w)
	case step.Join && t.joining(), !step.Wait.IsZero():
		return nil
	}
	what := ""
	if step.Join {
		what = Joined
	}
	now, baseline := *w, t.state.Baseline.Protected
	t.begin(ctx, h, what, func(ctx context.Context) (func() error, error) { return t.do(ctx, h, now, step, baseline) })
	return nil
}

// joining tells whether something is being brought together: one at a time, or what one
// brings would not be in what the other finds.
func (t *Team) joining() bool {
	return slices.ContainsFunc(t.hands, func(h *hand) bool { return h.what == Joined }) ||
		slices.ContainsFunc(t.state.Workers, func(w *State) bool { return w.step == Joined || w.step == Rejudged || w.step == Settled })
}

// do takes a step of which only the result is kept.
func (t *Team) do(ctx context.Context, h *hand, w State, step Step, baseline map[string]string) (func() error, error) {
	at := fmt.Sprintf("run %s iteration %d, worker %d", t.Run.ID, w.Iteration, h.worker)
	switch {
	case step.Keep:
		n, changes, err := t.Bench.Keep(ctx, h.seat(), at, w.checked)
		return t.keeping(err, Kept, Keep{By: h.by(), Iteration: w.Iteration, Checkpoint: n, Changes: changes})
	case step.Judge:
		gates, _, err := t.Bench.Judge(ctx, w.checked, baseline)
		return t.keeping(err, Judged, Verdict{By: h.by(), Iteration: w.Iteration, Checkpoint: w.checked, Gates: gates})
	case step.Join:
		return t.join(ctx, h, &w, at)
	case step.Rejudge:
		gates, _, err := t.Bench.Judge(ctx, w.Join.Checkpoint, baseline)
		return t.keeping(err, Rejudged, Verdict{By: h.by(), Iteration: w.Iteration, Checkpoint: w.Join.Checkpoint, Gates: gates})
	case step.Settle:
		err := t.Bench.Settle(ctx, w.Join.Ours, w.Join.Checkpoint)
		if errors.Is(err, ErrMoved) { // by a person: nobody else is let
			return t.join(ctx, h, &w, at)
		}
		return t.keeping(err, Settled, Settle{h.by(), w.Join.Checkpoint})
	}
	return nil, fmt.Errorf("there is no such step: %+v", step)
}

// join brings together what a worker did and what the loop's sandbox holds.
func (t *Team) join(ctx context.Context, h *hand, w *State, at string) (func() error, error) {
	j, err := t.Bench.Join(ctx, w.from, w.checked, at+", with what others have done")
	j.By, j.Task, j.Iteration = h.by(), w.Task.ID, w.Iteration
	return t.keeping(err, Joined, j)
}

// keeping keeps a result, if there is one.
func (t *Team) keeping(err error, kind string, data any) (func() error, error) {
	if err != nil {
		return nil, err
	}
	return func() error { return t.keep(kind, data) }, nil
}

// take claims a task for a worker, and has its place hold the newest state.
func (t *Team) take(ctx context.Context, h *hand, w *State) error {
	if h.idle {
		return nil
	}
	id := ""
	var except []string
	if w.Task != nil {
		id = w.Task.ID
	} else {
		for _, l := range t.state.Left {
			except = append(except, l.Task)
		}
		except = append(except, t.state.hands()...)
		for _, other := range t.hands {
			if other.task != "" {
				except = append(except, other.task)
			}
		}
	}
	h.renewed = time.Now()
	taken, err := t.Desk.Take(ctx, id, except)
	switch {
	case id != "" && errors.Is(err, spec.ErrConflict):
		h.lost = err
		return t.lost(h)
	case errors.Is(err, spec.ErrNotFound):
		h.idle = true
		return nil
	case err != nil:
		return err
	}
	if taken.By = h.by(); id != "" { // it goes on with what it has left
		return t.keep(Took, taken)
	}
	h.task = taken.ID
	t.begin(ctx, h, Took, func(ctx context.Context) (func() error, error) {
		n, err := t.Bench.Begin(ctx, h.seat())
		taken.Base = n
		return t.keeping(err, Took, taken)
	})
	return nil
}

// iterate has a worker's agent work.
func (t *Team) iterate(ctx context.Context, h *hand, w *State, n int) error {
	told := *w
	told.Hints = slices.Concat(w.given, t.state.Hints)
	prompt, hints := Prompt(t.Plan, &told, n)
	model := t.Plan.ModelOf(n)
	if err := t.keep(Iteration, Begun{By: h.by(), Iteration: n, Hints: hints, Model: model}); err != nil {
		return err
	}
	job := Job{
		Seat: h.seat(), Prompt: prompt, Model: model, Limit: t.Plan.limit(t.state, time.Now()),
		Budget: budgetOf(t.Plan, t.state), Rest: budgetLeft(t.Plan, t.state),
	}
	bounded := job.Rest != (spec.Budget{})
	t.begin(ctx, h, Worked, func(ctx context.Context) (func() error, error) {
		if bounded {
			watching, stop := context.WithCancel(ctx)
			var follower sync.WaitGroup
			follower.Go(func() { t.follow(watching, h) })
			defer follower.Wait()
			defer stop()
		}
		k, err := t.Plan.try(ctx, t.Bench, job, n)
		if err != nil && !k.used() {
			return nil, err
		}
		kind := Worked
		if err != nil {
			kind = Cut
		}
		return func() error { return t.keep(kind, k) }, err
	})
	return nil
}

// review asks a reviewer of what a worker did.
func (t *Team) review(ctx context.Context, h *hand, w *State, c *Criterion) error {
	checkpoint, n := w.checked, w.Iteration
	if w.step == Rejudged {
		checkpoint = w.Join.Checkpoint
	}
	a := Asking{By: h.by(), Iteration: n, Gate: c.ID}
	if err := t.keep(Reviewing, a); err != nil {
		return err
	}
	job := t.Plan.reviewJob(t.state, w, checkpoint, c)
	t.begin(ctx, h, Reviewed, func(ctx context.Context) (func() error, error) {
		kind, what, err := ask(ctx, t.Bench, job, c, a)
		if kind == "" {
			return nil, err
		}
		return func() error { return t.keep(kind, what) }, err
	})
	return nil
}

// spentEvery is how often it is looked what work that is under way has used.
const spentEvery = time.Second

// follow tells what a worker has used, as long as it works.
func (t *Team) follow(ctx context.Context, h *hand) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(spentEvery):
		}
		tokens, usd, err := t.Bench.Spent(ctx, h.seat())
		if err != nil {
			continue // its sandbox has a budget, too
		}
		select {
		case <-h.spent:
		default:
		}
		select {
		case h.spent <- spend{tokens, usd}:
		default:
		}
	}
}

func (t *Team) putBack(ctx context.Context, h *hand, w *State, step Step) error {
	if err := t.Desk.PutBack(ctx, w.Task.ID, noteOf(t.Run.ID, step.PutBack)); err != nil {
		return err
	}
	t.wake()
	return t.keep(PutBack, Left{By: h.by(), Task: w.Task.ID, Why: step.PutBack, Iteration: w.Iteration, Again: step.Again})
}

// close closes a task whose result is in the loop's sandbox.
func (t *Team) close(ctx context.Context, h *hand, w *State) error {
	err := t.Desk.Close(ctx, w.Task.ID, closedAs, w.Work.Session)
	if errors.Is(err, spec.ErrConflict) {
		return t.putBack(ctx, h, w, Step{PutBack: "it cannot be closed: " + err.Error()})
	}
	if err != nil {
		return err
	}
	t.wake()
	return t.keep(Closed, Finished{h.by(), w.Task.ID, w.Iteration})
}

// quiet ends the loop when nobody is at anything, and nothing is to be begun; or when there
// is no task any more. While agents wait for their allowances there is.
func (t *Team) quiet() (over bool, err error) {
	open := slices.ContainsFunc(t.state.Workers, func(w *State) bool { return w.Task != nil })
	switch {
	case t.ending != nil:
		return true, run.Unkept(t.end(run.ActorHost, *t.ending))
	case t.pause != nil:
		err := t.end(t.pause.Actor, End{Status: Waiting, Reason: "paused"})
		if err == nil {
			err = t.Run.Take(*t.pause)
		}
		return true, run.Unkept(err)
	case !open && !slices.ContainsFunc(t.hands, func(h *hand) bool { return !h.idle }):
		return true, run.Unkept(t.end(run.ActorHost, noTask(t.state)))
	}
	return false, nil
}

// baseline is what the gates say of what there is.
func baseline(ctx context.Context, shop Shop, id string) (v Verdict, err error) {
	n, _, err := shop.Keep(ctx, Seat{}, "run "+id+" begins", 0)
	if err != nil {
		return v, err
	}
	gates, hashes, err := shop.Judge(ctx, n, nil)
	return Verdict{Checkpoint: n, Gates: gates, Protected: hashes}, err
}
