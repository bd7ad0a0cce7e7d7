// Package relay carries bytes between two connections, faithfully: each side receives the bytes
// that the other side sent, and the end as the other side made it. A half-closed connection stays
// open in the other direction. A connection that was cut is cut on the other side too: a download
// that broke off must not look complete.
package relay

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/gateway/held"
)

// Conn is one side. Both kinds of connection that a gateway knows implement it.
type Conn interface {
	net.Conn
	// CloseWrite sends the end. It returns no error if the other side has cut the connection: a Read
	// reports that.
	CloseWrite() error
	// Reset ends the connection at once, so that the other side notices.
	Reset()
	// Await returns when bytes have arrived, or none ever will.
	Await()
}

// AwaitCut waits for the other side, which has sent its end, to cut a connection. It returns false
// if it is told to stop before, or if it cannot find out.
func AwaitCut(c net.Conn, stop <-chan struct{}) bool {
	a, ok := c.(interface{ AwaitCut(<-chan struct{}) bool })
	return ok && a.AwaitCut(stop)
}

// Remote returns the address at the other end of a connection. It is invalid if the connection has
// none.
func Remote(c net.Conn) netip.Addr {
	to, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return netip.Addr{}
	}
	return to.Addr().Unmap()
}

// Counts are the bytes carried so far. They may be read while a relay runs.
type Counts struct {
	Up, Down atomic.Int64 // from the first side to the second, and back
}

// Run carries bytes until both directions have ended, and closes both connections. It takes its
// buffers from a budget, and manages with little if the budget is used up; a nil budget has no
// bound. The error is from the direction that failed first; nil when both ended properly.
func Run(inside, outside Conn, n *Counts, b *held.Budget) error {
	var once sync.Once
	var first error
	cut := func(err error) {
		once.Do(func() {
			first = err
			inside.Reset()
			outside.Reset()
		})
	}
	var wg sync.WaitGroup
	direction := func(to, from Conn, count *atomic.Int64) {
		if err := carryDirection(to, from, count, b); err != nil {
			cut(err)
		}
	}
	wg.Go(func() { direction(outside, inside, &n.Up) })
	direction(inside, outside, &n.Down) // here: most are idle, and each goroutine has a stack
	wg.Wait()
	if first == nil {
		return errors.Join(closed(inside.Close()), closed(outside.Close()))
	}
	return first
}

// closed drops the error of closing twice.
func closed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// carryDirection copies one direction to its end and passes the end on. It holds a buffer only while bytes flow:
// most connections are idle most of the time.
func carryDirection(to, from Conn, count *atomic.Int64, b *held.Budget) error {
	for {
		from.Await()
		err := copyBurst(to, from, count, b)
		if err == io.EOF {
			return to.CloseWrite()
		}
		if err != nil {
			return err
		}
	}
}

// copyBurst copies until a read leaves room in the buffer: then no more bytes were waiting. A direction
// that fills its buffer gets a larger one, if the budget has one left.
func copyBurst(to, from Conn, count *atomic.Int64, budget *held.Budget) error {
	b := firstBuffer(budget)
	defer func() { b.putBuffer() }()
	for {
		room := *b.bytes
		n, err := from.Read(room)
		if n > 0 {
			m, werr := to.Write(room[:n])
			count.Add(int64(m))
			if werr != nil {
				return werr
			}
		}
		if err != nil || n < len(room) {
			return err
		}
		b = b.growBuffer(budget)
	}
}

// TCP is a connection of the host's kernel.
type TCP struct{ *net.TCPConn }

// Await asks the kernel without taking anything: a peek would consume an error, and the reset would
// look like an end.
func (c TCP) Await() {
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Read(func(fd uintptr) bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN | unix.POLLRDHUP}}, 0)
		return n > 0 || err != nil
	})
}

// CloseWrite sends the end of the written bytes.
func (c TCP) CloseWrite() error {
	if err := c.TCPConn.CloseWrite(); !errors.Is(err, unix.ENOTCONN) {
		return err
	}
	return nil
}

// Reset discards the unsent bytes and sends a reset.
func (c TCP) Reset() {
	_ = c.SetLinger(0)
	_ = c.Close()
}
