package session

import (
	"context"
	"crypto/rand"
	"log/slog"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// markName is the variable that identifies the processes that a command has started.
const markName = "BOTHY_COMMAND"

// endGrace is how long a program gets to end after it was told to, before it is killed.
const endGrace = 5 * time.Second

// Ender ends programs with all their descendants.
type Ender struct {
	init asker
	log  *slog.Logger
}

// NewEnder makes an Ender that asks init, and tells log of errors.
func NewEnder(init asker, log *slog.Logger) *Ender { return &Ender{init, log} }

// asker asks init.
type asker interface {
	Ask(context.Context, wire.InitAsk) (wire.InitReply, error)
}

// LimitTime returns the function that enforces a command's time limit until its session has ended, or that
// then ends what a whole command has started; it does nothing for other commands. A command with a limit,
// and a whole one, get a mark in their environment, which all their descendants inherit.
func (e *Ender) LimitTime(c *wire.Command) func(*Session) {
	limit := time.Duration(c.Timeout)
	if limit <= 0 && !c.Whole {
		return func(*Session) {}
	}
	mark := markName + "=" + rand.Text()
	c.Env = append(c.Env, mark)
	return func(s *Session) {
		if limit > 0 {
			e.endWhenOverdue(s, limit, limit, mark)
		}
		if c.Whole {
			e.endRest(s, mark)
		}
	}
}

// restGrace is how long the descendants of a whole command get to end after it has ended, before they are
// killed.
const restGrace = time.Second

// endRest waits for the end of a program, and ends its descendants.
func (e *Ender) endRest(s *Session, mark string) {
	s.mu.Lock()
	s.mark = mark
	s.mu.Unlock()
	<-s.life.Done()
	e.endTree(s, unix.SIGTERM, mark)
	time.Sleep(restGrace)
	e.endTree(s, unix.SIGKILL, mark)
}

// LimitRest goes on to enforce the time limit of a program that another keeper started.
func (e *Ender) LimitRest(s *Session, k Kept) {
	if k.Limit > 0 {
		e.endWhenOverdue(s, time.Duration(k.Limit), time.Duration(k.Left), k.Mark)
	}
}

// endWhenOverdue ends a program with all its descendants when its time is over.
func (e *Ender) endWhenOverdue(s *Session, limit, left time.Duration, mark string) {
	s.mu.Lock()
	s.limit, s.until, s.mark = limit, time.Now().Add(left), mark
	s.mu.Unlock()
	select {
	case <-s.life.Done():
		return
	case <-time.After(left):
	}
	s.noteOverdue(limit)
	e.EndAll(s, unix.SIGTERM)
}

// EndAll ends a program with all its descendants: it sends them a signal, and kills them a little
// later.
func (e *Ender) EndAll(s *Session, sig unix.Signal) {
	s.mu.Lock()
	mark := s.mark
	s.mu.Unlock()
	e.endTree(s, sig, mark)
	select {
	case <-s.life.Done(): // its descendants may have ignored the signal
	case <-time.After(endGrace):
	}
	e.endTree(s, unix.SIGKILL, mark)
}

// endTree makes init send a signal, as only the inside knows which processes belong together. An
// init that does not answer does not save the program.
func (e *Ender) endTree(s *Session, sig unix.Signal, mark string) {
	ctx, cancel := context.WithTimeout(context.Background(), endGrace)
	defer cancel()
	t := wire.Tree{PID: s.info.PID, Mark: mark, Signal: int(sig)}
	if _, err := e.init.Ask(ctx, wire.InitAsk{Ask: wire.AskTree, Tree: t}); err != nil {
		e.log.Warn("end a command", "session", s.info.ID, "err", err)
		_ = s.sendSignal(int(sig))
	}
}

// noteOverdue notes that a program ran out of time, whatever its exit status.
func (s *Session) noteOverdue(limit time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = spec.Errorf(spec.ErrTimeout, "the command took longer than %s, and was ended", roundForPeople(limit))
}

// roundForPeople rounds a time for people: the rest of a longer limit is not a round number.
func roundForPeople(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(100 * time.Millisecond)
}
