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
	"github.com/bothy-dev/bothy/internal/gateway/relay"
	"github.com/bothy-dev/bothy/internal/gateway/uploadlimit"
)

// sshBegins is the first thing that every SSH client sends.
const sshBegins = "SSH-"

// beginsSSH finds out whether a client speaks SSH, or waits for a server that does. It returns a
// connection that still delivers the bytes it has read.
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

// begun is a connection whose first bytes were read.
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

// Await returns at once while bytes that were read ahead remain.
func (b *begun) Await() {
	if len(b.said) == 0 {
		b.Conn.Await()
	}
}

// AwaitCut waits for the connection itself.
func (b *begun) AwaitCut(stop <-chan struct{}) bool { return relay.AwaitCut(b.Conn, stop) }

// awaitResult returns an operation's result, but does not wait for it much longer than ctx.
func awaitResult(ctx context.Context, done <-chan error, patience time.Duration) error {
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

// errStuck reports a connection that ended while its handler still runs.
var errStuck = errors.New("what speaks SSH for it does not end")

// stuck is how long a conversation may take to end. A peer can make the library wait forever: the
// goroutine that reads packets waits for readers that have left because of one of those packets.
// The gateway cannot end that goroutine. It gives the place to another conversation, and the stuck
// one keeps its bytes as long as it lasts.
const stuck = 5 * time.Second

// Bytes that the library keeps of one connection: the packets that wait, and the rest.
const (
	mostHeld  = 17 * (256 << 10)
	leastHeld = 64 << 10
)

// watchedSSH is a connection that reports when the library no longer reads it. It accounts for the
// bytes that the library may keep of it.
type watchedSSH struct {
	relay.Conn
	hold  *held.Hold
	gone  chan struct{} // closed when a Read has failed; no other Read follows
	once  sync.Once
	wrote atomic.Int32
	read  int64 // bytes, up to mostHeld; only the reader uses it
	full  atomic.Bool
}

// watchConn fails if no memory is left for another connection.
func watchConn(c relay.Conn, b *held.Budget) (*watchedSSH, error) {
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

// endWithin ends the connection. It returns when the library holds nothing of it any more, or after a
// while. It gives back the accounted bytes once the library is done. The library starts no
// goroutine before it has written its version and then its offer.
func (w *watchedSSH) endWithin(patience time.Duration) {
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

// isFull reports whether the connection was ended for lack of memory for its bytes.
func (w *watchedSSH) isFull() bool { return w != nil && w.full.Load() }

// billed is the connection to a server. It knows whether a budget has ended it.
type billed struct {
	*watchedSSH
	cut atomic.Pointer[error]
}

func (b *billed) Write(p []byte) (int, error) {
	n, err := b.watchedSSH.Write(p)
	if errors.Is(err, uploadlimit.ErrSpent) || errors.Is(err, uploadlimit.ErrUnkept) {
		b.cut.Store(&err)
	}
	return n, err
}
