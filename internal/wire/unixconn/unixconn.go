// Package unixconn carries wire's frames, with file descriptors, over a unix socket. It is separate from
// wire because init, inside, does not use such sockets and must not pay for the net package.
package unixconn

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// Conn is a connection over a unix socket, with file descriptors.
type Conn struct {
	uc *net.UnixConn

	wmu sync.Mutex
	buf []byte // unread bytes

	fmu    sync.Mutex
	fds    []*os.File
	closed bool
}

// New makes a Conn over a connected socket.
func New(uc *net.UnixConn) *Conn { return &Conn{uc: uc} }

// Send writes a frame, with descriptors if any are given. It may be called
// concurrently.
func (c *Conn) Send(f wire.Frame, files ...*os.File) error {
	c.wmu.Lock()
	defer c.wmu.Unlock()
	b := f.Append(nil)
	var oob []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, file := range files {
			fds[i] = int(file.Fd())
		}
		oob = unix.UnixRights(fds...)
	}
	n, _, err := c.uc.WriteMsgUnix(b, oob, nil)
	for err == nil && n < len(b) {
		b = b[n:]
		n, err = c.uc.Write(b)
	}
	return err
}

// SendJSON writes a document.
func (c *Conn) SendJSON(k wire.Kind, v any, files ...*os.File) error {
	f, err := wire.JSON(k, 0, v)
	if err != nil {
		return err
	}
	return c.Send(f, files...)
}

// SendError writes a failure.
func (c *Conn) SendError(err error) error { return c.SendJSON(wire.Failure, spec.ToWire(err)) }

// Receive reads the next frame. One goroutine at a time may call it.
func (c *Conn) Receive() (wire.Frame, error) { return wire.Read(connReader{c}) }

// Expect reads a frame of one kind into v. A Failure becomes its error.
func (c *Conn) Expect(k wire.Kind, v any) error {
	f, err := c.Receive()
	if err != nil {
		return err
	}
	if f.Kind == wire.Failure {
		return f.Failure()
	}
	if f.Kind != k {
		return errors.New("unexpected answer")
	}
	return f.Decode(v)
}

// TakeFiles returns the descriptors received so far. The caller closes them.
func (c *Conn) TakeFiles() []*os.File {
	c.fmu.Lock()
	defer c.fmu.Unlock()
	files := c.fds
	c.fds = nil
	return files
}

// Close ends the connection, even while a caller waits in Receive.
func (c *Conn) Close() error {
	c.fmu.Lock()
	c.closed = true
	c.fmu.Unlock()
	for _, f := range c.TakeFiles() {
		f.Close()
	}
	return c.uc.Close()
}

// SetDeadline bounds the wait for incoming data: after that time Receive fails with
// os.ErrDeadlineExceeded.
func (c *Conn) SetDeadline(at time.Time) { _ = c.uc.SetReadDeadline(at) }

// PeerUID returns the user at the other end, as the kernel knows it.
func (c *Conn) PeerUID() (int, error) { return PeerUID(c.uc) }

// PeerUID returns the user at the other end of a connection, as the kernel knows it.
func PeerUID(uc *net.UnixConn) (int, error) {
	raw, err := uc.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	cerr := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err := errors.Join(cerr, err); err != nil {
		return 0, err
	}
	return int(cred.Uid), nil
}

// maxFiles is how many descriptors one message may carry.
const maxFiles = 3

// connReader reads bytes and collects the descriptors that come with them.
type connReader struct{ c *Conn }

func (r connReader) Read(p []byte) (int, error) {
	c := r.c
	if len(c.buf) == 0 {
		b := make([]byte, wire.Chunk+wire.HeaderSize)
		oob := make([]byte, unix.CmsgSpace(4*maxFiles))
		n, oobn, _, _, err := c.uc.ReadMsgUnix(b, oob)
		c.collect(oob[:oobn])
		if err != nil {
			return 0, err
		}
		if n == 0 {
			return 0, io.EOF
		}
		c.buf = b[:n]
	}
	n := copy(p, c.buf)
	c.buf = c.buf[n:]
	return n, nil
}

func (c *Conn) collect(oob []byte) {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return
	}
	for _, m := range msgs {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			continue
		}
		for _, fd := range fds {
			unix.CloseOnExec(fd)
			c.keepDescriptor(os.NewFile(uintptr(fd), "received"))
		}
	}
}

// keepDescriptor keeps a descriptor for TakeFiles; one that arrives after Close is closed.
func (c *Conn) keepDescriptor(f *os.File) {
	c.fmu.Lock()
	defer c.fmu.Unlock()
	if c.closed {
		f.Close()
		return
	}
	c.fds = append(c.fds, f)
}
