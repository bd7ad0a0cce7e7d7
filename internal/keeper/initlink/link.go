// Package initlink carries questions, programs' streams and signals between the keeper and init, the
// first process inside.
package initlink

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

// Link is the keeper's side of the connection to init. The inside may send anything: Link drops
// frames for unknown streams, and a malformed frame ends the link, and with it the sandbox.
type Link struct {
	sock *os.File
	wmu  sync.Mutex // held while a frame is written, and while init is quiesced

	mu      sync.Mutex // guards next, streams and asks; also held while a frame is dispatched
	next    uint32     // the number of the last stream or question
	streams map[uint32]*Stream
	asks    map[uint32]chan wire.InitReply
	up      chan struct{} // closed by init's hello
	// hailed is init's hello; to be read once up is closed.
	hailed wire.Greeting
	down   chan struct{} // closed when the connection ended
	err    error         // why it ended; set before down is closed
}

// helloTimeout and AnswerTimeout bound the waits for init's hello and for each answer. The inside
// can stop its init at any time; that must not block other callers.
const (
	helloTimeout  = 20 * time.Second
	AnswerTimeout = 10 * time.Second
)

var errSilent = &spec.Error{
	Class: spec.ErrSandbox, Err: errors.New("init inside the sandbox does not answer"),
	Hint: "stop the sandbox and start it again: something inside may have stopped its init",
}

// New starts listening to init. It does not wait for init's hello: a sandbox takes plain
// commands while init still starts.
func New(sock *os.File) *Link {
	l := makeLink(sock)
	go l.listen(l.readHello)
	return l
}

func makeLink(sock *os.File) *Link {
	return &Link{
		sock: sock, streams: map[uint32]*Stream{}, asks: map[uint32]chan wire.InitReply{},
		up: make(chan struct{}), down: make(chan struct{}),
	}
}

// awaitHello waits for init's hello.
func (l *Link) awaitHello(ctx context.Context) error {
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

// Greeting waits for init's hello, and returns it.
func (l *Link) Greeting(ctx context.Context) (wire.Greeting, error) {
	if err := l.awaitHello(ctx); err != nil {
		return wire.Greeting{}, err
	}
	return l.hailed, nil
}

// Down returns a channel that is closed when the connection has ended.
func (l *Link) Down() <-chan struct{} { return l.down }

// readHello reads init's first frame.
func (l *Link) readHello(r *bufio.Reader) error {
	f, err := wire.Read(r)
	var g wire.Greeting
	if err == nil {
		if err = f.Decode(&g); err == nil && g.Protocol != wire.Protocol {
			err = errors.New("init inside the sandbox speaks another protocol")
		}
	}
	l.hailed = g
	return err
}

func (l *Link) listen(first func(*bufio.Reader) error) {
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
		s.endLost()
	}
}

func (l *Link) dispatch(f wire.Frame) error {
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

// Send writes one frame to init. An error ends the link.
func (l *Link) Send(f wire.Frame) error { return l.sendNoting(f, func() {}) }

// sendNoting calls note and then sends, since the answer may be quick. A memory save sees both done, or
// neither.
func (l *Link) sendNoting(f wire.Frame, note func()) error {
	l.wmu.Lock()
	defer l.wmu.Unlock()
	note()
	return l.sendLocked(f)
}

// sendLocked is Send for a caller that holds the lock.
func (l *Link) sendLocked(f wire.Frame) error {
	_ = l.sock.SetWriteDeadline(time.Now().Add(AnswerTimeout))
	_, err := l.sock.Write(f.Append(nil))
	if err != nil {
		l.sock.Close() // half a frame may be out: the connection is unusable
	}
	return err
}

// Ask sends a question to init and waits for the answer, for at most [AnswerTimeout].
func (l *Link) Ask(ctx context.Context, q wire.InitAsk) (wire.InitReply, error) {
	if err := l.awaitHello(ctx); err != nil {
		return wire.InitReply{}, err
	}
	return l.askThrough(ctx, q, l.Send)
}

// askThrough is Ask with another send function.
func (l *Link) askThrough(ctx context.Context, q wire.InitAsk, send func(wire.Frame) error) (wire.InitReply, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, AnswerTimeout, errSilent)
	defer cancel()
	return l.awaitReply(ctx, q, send)
}

// AskPatiently sends a question to init that may be answered at any time.
func (l *Link) AskPatiently(ctx context.Context, q wire.InitAsk) (wire.InitReply, error) {
	if err := l.awaitHello(ctx); err != nil {
		return wire.InitReply{}, err
	}
	return l.awaitReply(ctx, q, l.Send)
}

// awaitReply sends a question to init and waits until ctx ends.
func (l *Link) awaitReply(ctx context.Context, q wire.InitAsk, send func(wire.Frame) error) (wire.InitReply, error) {
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
			return r, spec.Errorf(spec.ErrUsage, "%s", Clip(r.Error))
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

// Clip shortens a text of the inside for the log.
func Clip(words string) string {
	return strings.ToValidUTF8(words[:min(len(words), maxWords)], "")
}

// Spawn starts a program under init. Its error is [spec.ErrMayHaveRun] if init did not confirm the
// start in time.
func (l *Link) Spawn(ctx context.Context, sp wire.Spawn) (*Stream, int, error) {
	if err := l.awaitHello(ctx); err != nil {
		return nil, 0, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, AnswerTimeout, errSilent)
	defer cancel()
	l.mu.Lock()
	l.next++
	s := newStream(l, l.next)
	l.streams[s.ID] = s
	l.mu.Unlock()
	f, err := wire.JSON(wire.Request, s.ID, sp)
	if err == nil {
		err = l.Send(f)
	}
	if err != nil {
		l.forgetStream(s.ID)
		return nil, 0, err
	}
	select {
	case f := <-s.reply:
		if f.Kind != wire.Reply {
			l.forgetStream(s.ID)
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
		l.forgetStream(s.ID)
		_ = l.Send(wire.SignalFrame(s.ID, int(unix.SIGKILL))) // in case init starts it after all
		return nil, 0, unconfirmed(context.Cause(ctx))
	}
}

// unconfirmed returns the error for a program that init was told to start, if init did not report
// whether it has.
func unconfirmed(why error) error { return spec.Errorf(spec.ErrMayHaveRun, "%w", why) }

// forgetStream makes the link drop further frames of a stream.
func (l *Link) forgetStream(id uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.streams, id)
}
