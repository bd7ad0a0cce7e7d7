package keeper

import (
	"context"
	"crypto/rand"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// markName is the variable that identifies the processes that a command has started.
const markName = "BOTHY_COMMAND"

// bounding returns the function that enforces a command's time limit until its session has ended;
// it does nothing for a command without a limit. A command with a limit gets a mark in its
// environment, which all its descendants inherit.
func (k *Keeper) bounding(c *wire.Command) func(*session) {
	limit := time.Duration(c.Timeout)
	if limit <= 0 {
		return func(*session) {}
	}
	mark := markName + "=" + rand.Text()
	c.Env = append(c.Env, mark)
	return func(s *session) { k.bound(s, limit, limit, mark) }
}

// bound ends a program with all its descendants when its time is over.
func (k *Keeper) bound(s *session, limit, left time.Duration, mark string) {
	s.mu.Lock()
	s.limit, s.until, s.mark = limit, time.Now().Add(left), mark
	s.mu.Unlock()
	select {
	case <-s.life.Done():
		return
	case <-time.After(left):
	}
	s.overdue(limit)
	k.endAll(s, unix.SIGTERM)
}

// endAll ends a program with all its descendants: it sends them a signal, and kills them a little
// later.
func (k *Keeper) endAll(s *session, sig unix.Signal) {
	s.mu.Lock()
	mark := s.mark
	s.mu.Unlock()
	k.endTree(s, sig, mark)
	select {
	case <-s.life.Done(): // its descendants may have ignored the signal
	case <-time.After(orphanGrace):
	}
	k.endTree(s, unix.SIGKILL, mark)
}

// endTree makes init send a signal, as only the inside knows which processes belong together. An
// init that does not answer does not save the program.
func (k *Keeper) endTree(s *session, sig unix.Signal, mark string) {
	ctx, cancel := context.WithTimeout(context.Background(), orphanGrace)
	defer cancel()
	t := wire.Tree{PID: s.info.PID, Mark: mark, Signal: int(sig)}
	if _, err := k.link.Ask(ctx, wire.InitAsk{Ask: wire.AskTree, Tree: t}); err != nil {
		k.log.Warn("end a command", "session", s.info.ID, "err", err)
		_ = s.signal(int(sig))
	}
}

// overdue notes that a program ran out of time, whatever its exit status.
func (s *session) overdue(limit time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = spec.Errorf(spec.ErrTimeout, "the command took longer than %s, and was ended", spoken(limit))
}

// spoken rounds a time for people: the rest of a longer limit is not a round number.
func spoken(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(100 * time.Millisecond)
}
