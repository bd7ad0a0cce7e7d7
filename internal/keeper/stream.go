package keeper

import (
	"errors"
	"os"
	"sync"

	"github.com/bothy-dev/bothy/internal/wire"
)

// stream is one session's part of the link.
type stream struct {
	l     *link
	id    uint32
	reply chan wire.Frame

	mu      sync.Mutex
	cond    *sync.Cond
	credit  int
	sending int          // taken from credit, but not sent yet
	held    int          // bytes received and not yet credited
	queue   []wire.Frame // Data, Data2, last Exit
	ended   bool
}

func newStream(l *link, id uint32) *stream {
	s := &stream{l: l, id: id, credit: wire.Window, reply: make(chan wire.Frame, 1)}
	s.cond = sync.NewCond(&s.mu)
	return s
}

// receive takes one frame from init. It never blocks: the window bounds the queue, and an inside that
// ignores the window is cut off.
func (s *stream) receive(f wire.Frame) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil
	}
	switch f.Kind {
	case wire.Reply, wire.Failure:
		select {
		case s.reply <- f:
		default:
		}
	case wire.Data, wire.Data2:
		s.held += wire.Cost(len(f.Payload))
		if s.held > wire.Window+wire.Cost(wire.Chunk) {
			return errors.New("the inside sent more than it had credit for")
		}
		s.queue = append(s.queue, f)
		s.cond.Broadcast()
	case wire.Exit:
		select {
		case s.reply <- f: // an answer to spawn, if spawn still waits for one
		default:
		}
		s.ended = true
		s.queue = append(s.queue, f)
		s.cond.Broadcast()
		delete(s.l.streams, s.id) // dispatch holds the lock
	case wire.Credit:
		n, err := f.CreditValue()
		if err != nil {
			return err
		}
		s.credit = min(s.credit+n, wire.Window)
		s.cond.Broadcast()
	}
	return nil
}

// output waits for the next frame of the program: Data, Data2, and finally Exit. It is false if the
// link was lost.
func (s *stream) output() (wire.Frame, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.queue) == 0 && !s.ended {
		s.cond.Wait()
	}
	if len(s.queue) == 0 {
		return wire.Frame{}, false
	}
	f := s.queue[0]
	s.queue = s.queue[1:]
	return f, true
}

// grant tells init that a frame was consumed.
func (s *stream) grant(f wire.Frame) {
	n := wire.Cost(len(f.Payload))
	_ = s.l.sendAnd(wire.CreditFrame(s.id, n), func() { s.settle(&s.held, n) })
}

// lost ends the stream after the link was lost.
func (s *stream) lost() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.cond.Broadcast()
}

// input sends bytes to the program, waiting for credit.
func (s *stream) input(b []byte) error {
	for len(b) > 0 {
		n := min(len(b), wire.Chunk)
		s.mu.Lock()
		for s.credit < wire.Cost(n) && !s.ended {
			s.cond.Wait()
		}
		ended := s.ended
		if !ended {
			s.credit -= wire.Cost(n)
			s.sending += wire.Cost(n)
		}
		s.mu.Unlock()
		if ended {
			return os.ErrClosed
		}
		sent := func() { s.settle(&s.sending, wire.Cost(n)) }
		if err := s.l.sendAnd(wire.Frame{Kind: wire.Data, Stream: s.id, Payload: b[:n]}, sent); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// settle subtracts the bytes that were sent.
func (s *stream) settle(from *int, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*from -= n
}
