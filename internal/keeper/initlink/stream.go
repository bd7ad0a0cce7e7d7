package initlink

import (
	"errors"
	"os"
	"sync"

	"github.com/bothy-dev/bothy/internal/wire"
)

// Stream is one session's part of the link.
type Stream struct {
	// ID is the stream's number in the connection.
	ID    uint32
	l     *Link
	reply chan wire.Frame

	mu      sync.Mutex   // guards all below
	cond    *sync.Cond   // signals more credit, more output, and the end
	credit  int          // bytes that may be sent
	sending int          // taken from credit, but not sent yet
	held    int          // bytes received and not yet credited
	queue   []wire.Frame // Data, Data2, last Exit
	ended   bool
}

func newStream(l *Link, id uint32) *Stream {
	s := &Stream{l: l, ID: id, credit: wire.Window, reply: make(chan wire.Frame, 1)}
	s.cond = sync.NewCond(&s.mu)
	return s
}

// receive takes one frame from init. It never blocks: the window bounds the queue, and an inside that
// ignores the window is cut off.
func (s *Stream) receive(f wire.Frame) error {
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
		delete(s.l.streams, s.ID) // dispatch holds the lock
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

// Output waits for the next frame of the program: Data, Data2, and finally Exit. It is false if the
// link was lost.
func (s *Stream) Output() (wire.Frame, bool) {
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

// Grant tells init that a frame was consumed.
func (s *Stream) Grant(f wire.Frame) {
	n := wire.Cost(len(f.Payload))
	_ = s.l.sendNoting(wire.CreditFrame(s.ID, n), func() { s.subtract(&s.held, n) })
}

// endLost ends the stream after the link was lost.
func (s *Stream) endLost() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.cond.Broadcast()
}

// Input sends bytes to the program, waiting for credit.
func (s *Stream) Input(b []byte) error {
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
		sent := func() { s.subtract(&s.sending, wire.Cost(n)) }
		if err := s.l.sendNoting(wire.Frame{Kind: wire.Data, Stream: s.ID, Payload: b[:n]}, sent); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// subtract subtracts the bytes that were sent.
func (s *Stream) subtract(from *int, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*from -= n
}

// Balance returns the bytes that may be sent to the program, and those that it sent and that were
// not credited again. runs is false if the program has ended.
func (s *Stream) Balance() (credit, held int, runs bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.credit + s.sending, s.held, !s.ended
}

// CloseInput tells the program that no more input comes.
func (s *Stream) CloseInput() error { return s.l.Send(wire.Frame{Kind: wire.EOF, Stream: s.ID}) }

// Resize tells the program the size of its terminal.
func (s *Stream) Resize(w wire.Winsize) error { return s.l.Send(wire.ResizeFrame(s.ID, w)) }

// Signal sends a signal to the program and all of its process group.
func (s *Stream) Signal(sig int) error { return s.l.Send(wire.SignalFrame(s.ID, sig)) }
