package engine

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/bothy-dev/bothy/internal/clone"
	"github.com/bothy-dev/bothy/internal/review"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// Times an attendant works by.
const (
	commitPoll = time.Second // between two looks at where branches are
	// attendShare bounds the part of the time in which checkpoints are made: the next
	// one waits so many times as long as the last one took.
	attendShare = 20
	// attendRetry is how long it waits after one that failed: a disk may be full.
	attendRetry = time.Minute
)

// attendant makes the checkpoints of a running sandbox that nobody asks for.
type attendant struct {
	engine *Engine
	sb     *spec.Sandbox
	log    *log.Logger

	when   spec.Occasions
	look   *time.Ticker // at where branches are
	pass   *time.Ticker // of time
	seen   wire.Happened
	states map[string]string // of repositories, by their directory

	cause string           // of the checkpoint that is to be made; empty: of none
	idly  bool             // only if something seems to have changed
	rest  <-chan time.Time // until then it waits; nil: it does not
	saved *time.Time       // the root layer's save when the last one was made
}

// Attend makes a sandbox's checkpoints until it ends. It is all that a process does.
func Attend(args []string) error {
	logger := log.New(os.Stderr, "", log.LstdFlags|log.LUTC)
	err := attend(context.Background(), args, logger)
	if err != nil {
		logger.Print(err)
	}
	return err
}

// attend follows a sandbox as long as it runs, and is to be followed; also if it was
// started again meanwhile, when whoever did that has seen that somebody does.
func attend(ctx context.Context, args []string, logger *log.Logger) error {
	if len(args) != 3 {
		return spec.Errorf(spec.ErrUsage, "%s wants the state directory, the ID of a sandbox and a limit", AttendArgv0)
	}
	limit, err := strconv.ParseInt(args[2], 10, 64)
	if err != nil {
		return err
	}
	s, err := store.Open(args[0])
	if err != nil {
		return err
	}
	a := &attendant{
		engine: &Engine{Store: s, StoreLimit: limit}, log: logger, look: time.NewTicker(commitPoll), pass: time.NewTicker(commitPoll),
	}
	defer a.look.Stop()
	defer a.pass.Stop()
	mine := os.NewFile(attendLockFD, "lock")
	for {
		err := a.once(ctx, args[1])
		mine.Close() // from here on another may come
		if err != nil {
			return err
		}
		lock, again := a.again(args[1])
		if !again {
			return nil
		}
		mine = lock.File()
	}
}

// again tells whether the sandbox runs and wants to be followed, and nobody does.
func (a *attendant) again(id string) (*store.Lock, bool) {
	sb, err := a.engine.Store.Load(id)
	if err != nil || sb.Checkpoint == "" {
		return nil, false
	}
	d := a.engine.Store.Sandbox(id)
	c, err := dial(d)
	if err != nil {
		return nil, false
	}
	c.Close()
	lock, err := store.TryLock(d.AttendLock())
	return lock, err == nil
}

// once follows the sandbox until it ends, or is not to be followed any more.
func (a *attendant) once(ctx context.Context, id string) (err error) {
	a.seen, a.cause, a.rest, a.saved = wire.Happened{}, "", nil, nil
	c, err := dial(a.engine.Store.Sandbox(id))
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SendJSON(wire.Request, wire.Ask{Op: wire.OpFollow}); err != nil {
		return err
	}
	var before wire.Happened
	if err := c.Expect(wire.Reply, &before); err != nil {
		return err
	}
	// The keeper tells of what comes after its first answer. So the spec is read now, and not
	// before the answer: a change between the two would never be heard of. Turns before it have
	// no checkpoint yet, or nothing has changed since they had one.
	if err := a.load(id); err != nil || a.sb.Checkpoint == "" {
		return err
	}
	a.seen.Changes = before.Changes
	if err := a.hear(before); err != nil {
		return err
	}
	return a.run(ctx, follow(c))
}

// load reads the spec, and begins to wait for the occasions in it.
func (a *attendant) load(id string) (err error) {
	if a.sb, err = a.engine.Store.Load(id); err != nil {
		return err
	}
	return a.set()
}

// follow passes on what happens, the newest for what was not fetched yet. It is closed
// when the sandbox ends.
func follow(c *unixconn.Conn) <-chan wire.Happened {
	news := make(chan wire.Happened, 1)
	go func() {
		defer close(news)
		for {
			var h wire.Happened
			if err := c.Expect(wire.Reply, &h); err != nil {
				return
			}
			select {
			case <-news: // nobody has looked at it
			default:
			}
			news <- h
		}
	}()
	return news
}

// set begins to wait for the occasions that the spec names.
func (a *attendant) set() (err error) {
	a.look.Stop()
	a.pass.Stop()
	if a.when, err = spec.ParseOccasions(a.sb.Checkpoint); err != nil {
		return err
	}
	if a.when.Commit {
		a.moved()
		a.look.Reset(commitPoll)
	}
	if a.when.Every > 0 {
		a.pass.Reset(a.when.Every)
	}
	return nil
}

// run makes checkpoints until there is no more news, or no more occasion.
func (a *attendant) run(ctx context.Context, news <-chan wire.Happened) error {
	for {
		if a.cause != "" && a.rest == nil {
			a.make(ctx)
		}
		select {
		case h, ok := <-news:
			if !ok {
				return nil
			}
			if err := a.hear(h); err != nil || a.sb.Checkpoint == "" {
				return err
			}
		case <-a.look.C:
			a.want(a.moved(), false)
		case <-a.pass.C:
			a.want("every "+a.when.Every.String(), true)
		case <-a.rest:
			a.rest = nil
		}
	}
}

// hear looks what is new.
func (a *attendant) hear(h wire.Happened) (err error) {
	if h.Changes > a.seen.Changes {
		err = a.load(a.sb.ID)
	}
	if a.when.Turn && h.Turns > a.seen.Turns {
		a.want(fmt.Sprintf("turn %d", h.Turns), false)
	}
	a.seen = h
	return err
}

// want has a checkpoint made as soon as may be.
func (a *attendant) want(cause string, idly bool) {
	if cause != "" {
		a.cause, a.idly = cause, idly && (a.idly || a.cause == "")
	}
}

// make makes the checkpoint that is to be made. One that failed is to be made still.
func (a *attendant) make(ctx context.Context) {
	cause, idly := a.cause, a.idly
	a.cause = ""
	var since *time.Time
	if idly {
		since = a.saved
	}
	did, err := a.engine.checkpointUnasked(ctx, a.sb, cause, since)
	wait := attendShare * did.took
	switch {
	case err == nil, errors.Is(err, errUnchanged):
		a.saved = did.saved
	case errors.Is(err, spec.ErrStopping), !a.engine.exists(a.sb): // it ends, as we do
	default:
		a.log.Printf("%s: no checkpoint: %v", cause, err)
		a.want(cause, idly)
		wait = max(wait, attendRetry)
	}
	a.rest = time.After(wait)
}

// moved looks where branches are, and gives what to say if one is elsewhere than before.
func (a *attendant) moved() (cause string) {
	before := a.states
	a.states = map[string]string{}
	for dir, over := range repositories(a.sb, a.engine.Store.Sandbox(a.sb.ID)) {
		state, commit := clone.Tip(over...)
		a.states[dir] = state
		if was, known := before[dir]; known && was != state && state != "" {
			cause = "commit " + commit[:min(len(commit), 12)]
		}
	}
	if len(cause) == len("commit ") {
		cause = "a commit"
	}
	return cause
}

// repositories are where those of a sandbox's workspaces may lie, each with the
// directories that lie over one another there.
func repositories(sb *spec.Sandbox, d store.Sandbox) map[string][]string {
	list := map[string][]string{}
	for i, m := range sb.Workspaces {
		switch {
		case m.ReadOnly:
		case sb.Reviews(m):
			list[m.Target] = []string{review.Layer{Dir: d.Review(i)}.Upper(), m.Source}
		case sb.Clones(m):
			list[m.Target] = []string{clone.Tree(d.Clone(i))}
		default:
			list[m.Target] = []string{m.Source}
		}
	}
	return list
}
