package sshserver

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// outflow carries a stream of a program to the client.
type outflow struct {
	src   *os.File
	dst   io.Writer
	done  chan struct{} // closed when the stream has ended
	holds atomic.Bool   // bytes were read, or are being read, that the client does not have
	moved atomic.Int64  // number of writes
	once  sync.Once
}

func newOutflow(src *os.File, dst io.Writer) *outflow {
	o := &outflow{src: src, dst: dst, done: make(chan struct{})}
	go o.carryAll()
	return o
}

func (o *outflow) carryAll() {
	defer close(o.done)
	defer o.closeStream() // the program gets SIGPIPE if it writes more
	buf := make([]byte, 64<<10)
	for {
		n, err := o.readHeld(buf)
		if n > 0 {
			_, werr := o.dst.Write(buf[:n])
			o.moved.Add(1)
			o.holds.Store(false)
			if werr != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// readHeld sets holds before it reads, so that bytes are always either in the pipe or known to be held.
func (o *outflow) readHeld(buf []byte) (n int, err error) {
	conn, err := o.src.SyscallConn()
	if err != nil {
		return 0, err
	}
	waited := conn.Read(func(fd uintptr) bool {
		o.holds.Store(true)
		n, err = unix.Read(int(fd), buf)
		if n <= 0 {
			o.holds.Store(false)
		}
		return !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR)
	})
	if waited != nil {
		return 0, waited
	}
	if n == 0 && err == nil {
		err = io.EOF
	}
	return max(n, 0), err
}

// unread reports whether the pipe holds unread bytes.
func (o *outflow) unread() bool {
	conn, err := o.src.SyscallConn()
	if err != nil {
		return false
	}
	n := 0
	err = conn.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	return err == nil && n > 0
}

// closeStream closes the stream at our end.
func (o *outflow) closeStream() { o.once.Do(func() { o.src.Close() }) }

func (o *outflow) isOver() bool {
	select {
	case <-o.done:
		return true
	default:
		return false
	}
}
