package headless

import (
	"errors"
	"io"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// HeldPipe is the reading end of a pipe. Its bytes are always either in the pipe or known to be held by the
// reader, so that another goroutine can tell whether some are still to be passed on. One goroutine reads.
type HeldPipe struct {
	*os.File
	holds atomic.Bool // bytes that were read, or are being read, are not passed on yet
}

// ReadHeld reads the available bytes, and waits for the first. The reader holds them until it calls Release.
func (p *HeldPipe) ReadHeld(buf []byte) (n int, err error) {
	conn, err := p.SyscallConn()
	if err != nil {
		return 0, err
	}
	waited := conn.Read(func(fd uintptr) bool {
		p.holds.Store(true) // before the read
		n, err = unix.Read(int(fd), buf)
		if n <= 0 {
			p.holds.Store(false)
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

// Release says that the bytes of the last read are passed on, or lost.
func (p *HeldPipe) Release() { p.holds.Store(false) }

// IsPending reports whether bytes are in the pipe or held. It looks in the order in which bytes move: otherwise
// they could pass between the two looks.
func (p *HeldPipe) IsPending() bool { return p.hasUnread() || p.holds.Load() }

func (p *HeldPipe) hasUnread() bool {
	conn, err := p.SyscallConn()
	if err != nil {
		return false
	}
	n := 0
	err = conn.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	return err == nil && n > 0
}
