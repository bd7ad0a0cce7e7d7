package gateway

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/held"
	"github.com/bothy-dev/bothy/internal/gateway/outflow"
	"github.com/bothy-dev/bothy/internal/gateway/relay"
)

// sshBegins is what every client of SSH says first.
const sshBegins = "SSH-"

// beginsSSH finds out whether a client speaks SSH, or waits for a server that does. What
// it gives instead of the connection has what was read.
func beginsSSH(c relay.Conn) (relay.Conn, bool, error) {
	_ = c.SetReadDeadline(time.Now().Add(firstWord))
	defer func() { _ = c.SetReadDeadline(time.Time{}) }()
	buf := make([]byte, len(sshBegins))
	n := 0
	for n < len(buf) && strings.HasPrefix(sshBegins, string(buf[:n])) {
		m, err := c.Read(buf[n:])
		n += m
		switch {
		case isTimeout(err):
			return &begun{c, buf[:n]}, true, nil
		case err == io.EOF:
			return &begun{c, buf[:n]}, false, nil
		case err != nil && m == 0:
			return nil, false, err
		}
	}
	return &begun{c, buf[:n]}, string(buf[:n]) == sshBegins, nil
}

// begun is a connection of which the first bytes were read.
type begun struct {
	relay.Conn
	said []byte
}

func (b *begun) Read(p []byte) (int, error) {
	if len(b.said) == 0 {
		return b.Conn.Read(p)
	}
	n := copy(p, b.said)
	b.said = b.said[n:]
	return n, nil
}

// Await has what was read at hand.
func (b *begun) Await() {
	if len(b.said) == 0 {
		b.Conn.Await()
	}
}

// AwaitCut waits for the connection itself.
func (b *begun) AwaitCut(stop <-chan struct{}) bool { return relay.AwaitCut(b.Conn, stop) }

// await gives what comes of something, but does not wait for it much longer than ctx.
func await(ctx context.Context, done <-chan error, patience time.Duration) error {
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		return errStuck
	}
}

// errStuck is of a connection that ends without what was done for it.
var errStuck = errors.New("what speaks SSH for it does not end")

// stuck is how long what has to end may take to do so. A peer can have the library wait for
// ever: who reads packets waits for those who would take them, and they have gone because
// of one among them. Nobody can end that; its place goes to another then, and it holds its
// bytes for as long as it lasts.
const stuck = 5 * time.Second

// Bytes that the library keeps of one connection: the packets that wait, and the rest.
const (
	mostHeld  = 17 * (256 << 10)
	leastHeld = 64 << 10
)

// watchedSSH is a connection of which it can be waited for that the library reads it no more.
// It takes what the library may keep of what it reads.
type watchedSSH struct {
	relay.Conn
	hold  *held.Hold
	gone  chan struct{} // closed when a Read has failed, after which there is no other
	once  sync.Once
	wrote atomic.Int32
	read  int64 // bytes, up to mostHeld; of who reads
	full  atomic.Bool
}

// watch fails if there is no room for another connection.
func watch(c relay.Conn, b *held.Budget) (*watchedSSH, error) {
	w := &watchedSSH{Conn: c, hold: b.Hold(), gone: make(chan struct{})}
	return w, w.hold.Take(leastHeld)
}

func (w *watchedSSH) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if more := min(int64(n), mostHeld-w.read); more > 0 && w.hold.Take(more) != nil {
		w.full.Store(true)
		n, err = 0, held.ErrFull
	}
	w.read = min(w.read+int64(n), mostHeld)
	if err != nil {
		w.once.Do(func() { close(w.gone) })
	}
	return n, err
}

func (w *watchedSSH) Write(p []byte) (int, error) {
	w.wrote.Add(1)
	return w.Conn.Write(p)
}

// over ends the connection, and returns when nothing of the library is left of it, or after a
// while. What it holds is given back when nothing is left. Nothing is begun by the library before
// its version was written, and then what it offers.
func (w *watchedSSH) over(patience time.Duration) {
	_ = w.SetDeadline(time.Unix(1, 0))
	w.Reset()
	if w.wrote.Load() <= 1 {
		w.hold.Release()
		return
	}
	select {
	case <-w.gone:
		w.hold.Release()
	case <-time.After(patience):
		go func() {
			<-w.gone
			w.hold.Release()
		}()
	}
}

// isFull tells whether the connection was ended because there was no room for what came on it.
func (w *watchedSSH) isFull() bool { return w != nil && w.full.Load() }

// billed is the way to a server, of which it is known whether a budget has ended it.
type billed struct {
	*watchedSSH
	cut atomic.Pointer[error]
}

func (b *billed) Write(p []byte) (int, error) {
	n, err := b.watchedSSH.Write(p)
	if errors.Is(err, outflow.ErrSpent) || errors.Is(err, outflow.ErrUnkept) {
		b.cut.Store(&err)
	}
	return n, err
}
