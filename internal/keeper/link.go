package keeper

import (
	"bufio"
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// link is the keeper's side of the connection to init. The inside may send anything: link drops
// frames for unknown streams, and a malformed frame ends the link, and with it the sandbox.
type link struct {
	sock *os.File
	wmu  sync.Mutex

	mu      sync.Mutex
	next    uint32
	streams map[uint32]*stream
	asks    map[uint32]chan wire.InitReply
	up      chan struct{} // closed by init's hello
	// greeting is init's hello; to be read once up is closed.
	greeting wire.Greeting
	down     chan struct{} // closed when the connection ended
	err      error
}

// helloTimeout and answerTimeout bound the waits for init's hello and for each answer. The inside
// can stop its init at any time; that must not block other callers.
const (
	helloTimeout  = 20 * time.Second
	answerTimeout = 10 * time.Second
)

var errSilent = &spec.Error{
	Class: spec.ErrSandbox, Err: errors.New("init inside the sandbox does not answer"),
	Hint: "stop the sandbox and start it again: something inside may have stopped its init",
}

// newLink starts listening to init. It does not wait for init's hello: a sandbox takes plain
// commands while init still starts.
func newLink(sock *os.File) *link {
	l := makeLink(sock)
	go l.listen(l.hello)
	return l
}

func makeLink(sock *os.File) *link {
	return &link{
		sock: sock, streams: map[uint32]*stream{}, asks: map[uint32]chan wire.InitReply{},
		up: make(chan struct{}), down: make(chan struct{}),
	}
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

// hello reads init's first frame.
func (l *link) hello(r *bufio.Reader) error {
	f, err := wire.Read(r)
	var g wire.Greeting
	if err == nil {
		if err = f.Decode(&g); err == nil && g.Protocol != wire.Protocol {
			err = errors.New("init inside the sandbox speaks another protocol")
		}
	}
	l.greeting = g
	return err
}

func (l *link) listen(first func(*bufio.Reader) error) {
	r := bufio.NewReaderSize(l.sock, wire.Chunk)
	err := first(r)
	if err == nil {
		close(l.up)
	}
	for err == nil {
		var f wire.Frame
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

func (l *link) send(f wire.Frame) error { return l.sendAnd(f, func() {}) }

// sendAnd calls note and then sends, since the answer may be quick. A memory save sees both done, or
// neither.
func (l *link) sendAnd(f wire.Frame, note func()) error {
	l.wmu.Lock()
	defer l.wmu.Unlock()
	note()
	return l.write(f)
}

// write is send for a caller that holds the lock.
func (l *link) write(f wire.Frame) error {
	_ = l.sock.SetWriteDeadline(time.Now().Add(answerTimeout))
	_, err := l.sock.Write(f.Append(nil))
	if err != nil {
		l.sock.Close() // half a frame may be out: the connection is unusable
	}
	return err
}

// ask sends a question to init and waits for the answer.
func (l *link) ask(ctx context.Context, q wire.InitAsk) (wire.InitReply, error) {
	if err := l.ready(ctx); err != nil {
		return wire.InitReply{}, err
	}
	return l.askBy(ctx, q, l.send)
}

// askBy is ask with another send function.
func (l *link) askBy(ctx context.Context, q wire.InitAsk, send func(wire.Frame) error) (wire.InitReply, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, answerTimeout, errSilent)
	defer cancel()
	return l.await(ctx, q, send)
}

// wait sends a question to init that may be answered at any time.
func (l *link) wait(ctx context.Context, q wire.InitAsk) (wire.InitReply, error) {
	if err := l.ready(ctx); err != nil {
		return wire.InitReply{}, err
	}
	return l.await(ctx, q, l.send)
}

// await sends a question to init and waits until ctx ends.
func (l *link) await(ctx context.Context, q wire.InitAsk, send func(wire.Frame) error) (wire.InitReply, error) {
	ch := make(chan wire.InitReply, 1)
	l.mu.Lock()
	l.next++
	q.ID = l.next
	l.asks[q.ID] = ch
	l.mu.Unlock()
	f, err := wire.JSON(wire.Request, 0, q)
	if err == nil {
		err = send(f)
	}
	if err != nil {
		return wire.InitReply{}, err
	}
	select {
	case r := <-ch:
		if r.Error != "" {
			return r, spec.Errorf(spec.ErrUsage, "%s", clip(r.Error))
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

// maxWords is how much of init's text is passed on, in bytes: it ends up in logs.
const maxWords = 1 << 10

func clip(words string) string {
	return strings.ToValidUTF8(words[:min(len(words), maxWords)], "")
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
		if f.Kind != wire.Reply {
			l.forget(s.id)
			if f.Kind == wire.Failure {
				return nil, 0, f.Failure()
			}
			return nil, 0, unconfirmed(errSilent)
		}
		var sp wire.Spawned
		if err := f.Decode(&sp); err != nil {
			return nil, 0, unconfirmed(err)
		}
		return s, sp.PID, nil
	case <-l.down:
		return nil, 0, unconfirmed(errors.New("the sandbox ended"))
	case <-ctx.Done():
		l.forget(s.id)
		_ = l.send(wire.SignalFrame(s.id, int(unix.SIGKILL))) // in case init starts it after all
		return nil, 0, unconfirmed(context.Cause(ctx))
	}
}

// unconfirmed is the error for a program that init was told to start, if init did not say whether
// it has.
func unconfirmed(why error) error { return spec.Errorf(spec.ErrMayHaveRun, "%w", why) }

func (l *link) forget(id uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.streams, id)
}
