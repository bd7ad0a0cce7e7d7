package snapshot

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/bothy-dev/bothy/internal/clone"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/review"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// Times by which the attendant works.
const (
	commitPoll = time.Second // between two checks of the branches
	// attendShare bounds the share of the time that checkpoints take: the next one waits
	// attendShare times as long as the last one took.
	attendShare = 20
	// attendRetry is the wait after a checkpoint that failed: a disk may be full.
	attendRetry = time.Minute
)

// attendant makes the automatic checkpoints of a running sandbox.
type attendant struct {
	snapshots *Snapshots
	sb        *spec.Sandbox
	log       *log.Logger

	when   spec.Occasions
	look   *time.Ticker // when to check the branches
	pass   *time.Ticker // when the interval has passed
	seen   wire.Happened
	states map[string]string // of repositories, by their directory

	cause string           // of the checkpoint that is due; empty if none is
	idly  bool             // only if something seems to have changed
	rest  <-chan time.Time // the attendant waits until then; nil if it does not wait
	saved *time.Time       // when the root layer was saved at the last checkpoint
}

// Attend makes a sandbox's checkpoints until the sandbox ends. The attendant's process does nothing
// else.
func Attend(args []string) error {
	logger := log.New(os.Stderr, "", log.LstdFlags|log.LUTC)
	err := attend(context.Background(), args, logger)
	if err != nil {
		logger.Print(err)
	}
	return err
}

// attend follows a sandbox as long as it runs and is to have automatic checkpoints. It also
// continues after a restart of the sandbox, if the caller that restarted it saw that an attendant
// still ran.
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
	e := &engine.Engine{Store: s, StoreLimit: limit}
	a := &attendant{
		snapshots: New(e), log: logger, look: time.NewTicker(commitPoll), pass: time.NewTicker(commitPoll),
	}
	defer a.look.Stop()
	defer a.pass.Stop()
	mine := os.NewFile(attendLockFD, "lock")
	for {
		err := a.followSandbox(ctx, args[1])
		mine.Close() // from here on another attendant may take over
		if err != nil {
			return err
		}
		lock, again := a.lockForNext(args[1])
		if !again {
			return nil
		}
		mine = lock.File()
	}
}

// lockForNext reports whether the sandbox runs, wants an attendant and has none. It returns the
// attendant's lock.
func (a *attendant) lockForNext(id string) (*store.Lock, bool) {
	sb, err := a.snapshots.engine.Store.Load(id)
	if err != nil || sb.Checkpoint == "" {
		return nil, false
	}
	c, err := a.snapshots.engine.Keepers().Dial(id)
	if err != nil {
		return nil, false
	}
	c.Close()
	lock, err := store.TryLock(a.snapshots.directory(sb).AttendLock())
	return lock, err == nil
}

// followSandbox follows the sandbox until it ends, or until its spec asks for no more checkpoints.
func (a *attendant) followSandbox(ctx context.Context, id string) (err error) {
	a.seen, a.cause, a.rest, a.saved = wire.Happened{}, "", nil, nil
	c, err := a.snapshots.engine.Keepers().Dial(id)
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
	// The keeper reports events that come after its first answer. So read the spec now, and not
	// before the answer: a change between the two would be missed. Earlier turns have no checkpoint
	// yet, or nothing has changed since they had one.
	if err := a.loadSpec(id); err != nil || a.sb.Checkpoint == "" {
		return err
	}
	a.seen.Changes = before.Changes
	if err := a.handleEvent(before); err != nil {
		return err
	}
	return a.run(ctx, follow(c))
}

// loadSpec reads the spec, and starts to wait for its occasions.
func (a *attendant) loadSpec(id string) (err error) {
	if a.sb, err = a.snapshots.engine.Store.Load(id); err != nil {
		return err
	}
	return a.setOccasions()
}

// follow passes on the keeper's events. A new event replaces one that was not read yet. The channel
// is closed when the sandbox ends.
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
			case <-news: // drop the event that was not read yet
			default:
			}
			news <- h
		}
	}()
	return news
}

// setOccasions starts to wait for the occasions that the spec names.
func (a *attendant) setOccasions() (err error) {
	a.look.Stop()
	a.pass.Stop()
	if a.when, err = spec.ParseOccasions(a.sb.Checkpoint); err != nil {
		return err
	}
	if a.when.Commit {
		a.findMovedBranch()
		a.look.Reset(commitPoll)
	}
	if a.when.Every > 0 {
		a.pass.Reset(a.when.Every)
	}
	return nil
}

// run makes checkpoints until the sandbox ends, or until its spec names no more occasions.
func (a *attendant) run(ctx context.Context, news <-chan wire.Happened) error {
	for {
		if a.cause != "" && a.rest == nil {
			a.makeCheckpoint(ctx)
		}
		select {
		case h, ok := <-news:
			if !ok {
				return nil
			}
			if err := a.handleEvent(h); err != nil || a.sb.Checkpoint == "" {
				return err
			}
		case <-a.look.C:
			a.wantCheckpoint(a.findMovedBranch(), false)
		case <-a.pass.C:
			a.wantCheckpoint("every "+a.when.Every.String(), true)
		case <-a.rest:
			a.rest = nil
		}
	}
}

// handleEvent handles an event: it reloads a changed spec, and asks for a checkpoint after a turn.
func (a *attendant) handleEvent(h wire.Happened) (err error) {
	if h.Changes > a.seen.Changes {
		err = a.loadSpec(a.sb.ID)
	}
	if a.when.Turn && h.Turns > a.seen.Turns {
		a.wantCheckpoint(fmt.Sprintf("turn %d", h.Turns), false)
	}
	a.seen = h
	return err
}

// wantCheckpoint asks for a checkpoint as soon as possible.
func (a *attendant) wantCheckpoint(cause string, idly bool) {
	if cause != "" {
		a.cause, a.idly = cause, idly && (a.idly || a.cause == "")
	}
}

// makeCheckpoint makes the checkpoint that is due. If it fails, the checkpoint stays due.
func (a *attendant) makeCheckpoint(ctx context.Context) {
	cause, idly := a.cause, a.idly
	a.cause = ""
	var since *time.Time
	if idly {
		since = a.saved
	}
	did, err := a.snapshots.checkpointUnasked(ctx, a.sb, cause, since)
	wait := attendShare * did.took
	switch {
	case err == nil, errors.Is(err, errUnchanged):
		a.saved = did.saved
	case errors.Is(err, spec.ErrStopping), !a.snapshots.engine.Store.Has(a.sb.ID): // the sandbox ends, and so does the attendant
	default:
		a.log.Printf("%s: no checkpoint: %v", cause, err)
		a.wantCheckpoint(cause, idly)
		wait = max(wait, attendRetry)
	}
	a.rest = time.After(wait)
}

// findMovedBranch checks where branches are. It returns the cause of a checkpoint if one has moved.
func (a *attendant) findMovedBranch() (cause string) {
	before := a.states
	a.states = map[string]string{}
	for dir, over := range repositories(a.sb, a.snapshots.directory(a.sb)) {
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

// repositories returns where the repositories of a sandbox's workspaces may be, each with the
// directories that are layered there.
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
