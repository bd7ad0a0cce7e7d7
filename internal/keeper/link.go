package keeper

import (
	"bufio"
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// link is the keeper's side of the conversation with init. What arrives was
// sent by the inside and may be anything: frames for unknown streams are
// dropped, malformed ones end the link, and with it the sandbox.
type link struct {
	sock *os.File
	wmu  sync.Mutex

	mu      sync.Mutex
	next    uint32
	streams map[uint32]*stream
	asks    map[uint32]chan wire.InitReply
	up      chan struct{} // closed by init's hello
	down    chan struct{} // closed when the conversation ended
	err     error
}

// The waits for init's first word, and for each answer. The inside can stop
// its init at any time; that must stop nobody else.
const (
	helloTimeout  = 20 * time.Second
	answerTimeout = 10 * time.Second
)

var errSilent = spec.Errorf(spec.ErrSandbox, "init inside the sandbox does not answer").
	WithHint("stop the sandbox and start it again: something inside may have stopped its init")

// newLink starts listening to init. It does not wait for init's first word: a
// sandbox takes plain commands while init still starts.
func newLink(sock *os.File) *link {
	l := &link{sock: sock, streams: map[uint32]*stream{}, asks: map[uint32]chan wire.InitReply{},
		up: make(chan struct{}), down: make(chan struct{})}
	go l.listen()
	return l
}

// ready waits for init's hello.
func (l *link) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	select {
	case <-l.up:
		return nil
	case <-l.down:
		return spec.Errorf(spec.ErrSandbox, "the sandbox ended")
	case <-ctx.Done():
		return errSilent
	}
}

func (l *link) listen() {
	r := bufio.NewReaderSize(l.sock, wire.Chunk)
	f, err := wire.Read(r)
	var g wire.Greeting
	if err == nil {
		if err = f.Decode(&g); err == nil && g.Protocol != wire.Protocol {
			err = errors.New("init inside the sandbox speaks another protocol")
		}
	}
	if err == nil {
		close(l.up)
	}
	for err == nil {
		if f, err = wire.Read(r); err == nil {
			err = l.dispatch(f)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
	close(l.down)
	for _, s := range l.streams {
		s.lost()
	}
}

func (l *link) dispatch(f wire.Frame) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f.Stream == 0 {
		var r wire.InitReply
		if err := f.Decode(&r); err != nil {
			return err
		}
		if ch := l.asks[r.ID]; ch != nil {
			ch <- r
			delete(l.asks, r.ID)
		}
		return nil
	}
	if s := l.streams[f.Stream]; s != nil {
		return s.receive(f)
	}
	return nil
}

func (l *link) send(f wire.Frame) error {
	l.wmu.Lock()
	defer l.wmu.Unlock()
	_, err := l.sock.Write(f.Append(nil))
	return err
}

// ask puts a question to init.
func (l *link) ask(ctx context.Context, q wire.InitAsk) (wire.InitReply, error) {
	if err := l.ready(ctx); err != nil {
		return wire.InitReply{}, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, answerTimeout, errSilent)
	defer cancel()
	ch := make(chan wire.InitReply, 1)
	l.mu.Lock()
	l.next++
	q.ID = l.next
	l.asks[q.ID] = ch
	l.mu.Unlock()
	f, err := wire.JSON(wire.Request, 0, q)
	if err == nil {
		err = l.send(f)
	}
	if err != nil {
		return wire.InitReply{}, err
	}
	select {
	case r := <-ch:
		if r.Error != "" {
			return r, spec.Errorf(spec.ErrUsage, "%s", r.Error)
		}
		return r, nil
	case <-l.down:
		return wire.InitReply{}, spec.Errorf(spec.ErrSandbox, "the sandbox ended")
	case <-ctx.Done():
		l.mu.Lock()
		delete(l.asks, q.ID)
		l.mu.Unlock()
		return wire.InitReply{}, context.Cause(ctx)
	}
}

// spawn starts a program under init.
func (l *link) spawn(ctx context.Context, sp wire.Spawn) (*stream, int, error) {
	if err := l.ready(ctx); err != nil {
		return nil, 0, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, answerTimeout, errSilent)
	defer cancel()
	l.mu.Lock()
	l.next++
	s := newStream(l, l.next)
	l.streams[s.id] = s
	l.mu.Unlock()
	f, err := wire.JSON(wire.Request, s.id, sp)
	if err == nil {
		err = l.send(f)
	}
	if err != nil {
		l.forget(s.id)
		return nil, 0, err
	}
	select {
	case f := <-s.reply:
		if f.Kind == wire.Failure {
			l.forget(s.id)
			return nil, 0, f.Failure()
		}
		var sp wire.Spawned
		err := f.Decode(&sp)
		return s, sp.PID, err
	case <-l.down:
		return nil, 0, spec.Errorf(spec.ErrSandbox, "the sandbox ended")
	case <-ctx.Done():
		l.forget(s.id)
		return nil, 0, context.Cause(ctx)
	}
}

func (l *link) forget(id uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.streams, id)
}

// stream is one session's part of the link.
type stream struct {
	l     *link
	id    uint32
	reply chan wire.Frame

	mu     sync.Mutex
	cond   *sync.Cond
	credit int
	held   int          // bytes received and not yet credited
	queue  []wire.Frame // Data, Data2, last Exit
	ended  bool
}

func newStream(l *link, id uint32) *stream {
	s := &stream{l: l, id: id, credit: wire.Window, reply: make(chan wire.Frame, 1)}
	s.cond = sync.NewCond(&s.mu)
	return s
}

// receive takes one frame from init. It never blocks: the window bounds what
// can be queued, and an inside that ignores it is cut off.
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

// output waits for the next frame of the program: Data, Data2, and last Exit.
// It is false when the link was lost.
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
	s.mu.Lock()
	s.held -= n
	s.mu.Unlock()
	_ = s.l.send(wire.CreditFrame(s.id, n))
}

// lost ends the stream because the link is gone.
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
		s.credit -= wire.Cost(n)
		ended := s.ended
		s.mu.Unlock()
		if ended {
			return os.ErrClosed
		}
		if err := s.l.send(wire.Frame{Kind: wire.Data, Stream: s.id, Payload: b[:n]}); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}
