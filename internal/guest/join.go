package guest

import (
	"fmt"
	"io"
	"net/netip"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/wire"
)

// joinTime is how long each of the two sides may take to answer.
const joinTime = 5 * time.Second

// joinServer connects a server on the loopback to the gateway, and has bytes carried between them. It
// returns as soon as both connections exist.
func joinServer(q wire.Join) error {
	server, err := connect(netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), q.Port))
	if err != nil {
		server, err = connect(netip.AddrPortFrom(netip.IPv6Loopback(), q.Port))
	}
	if err != nil {
		return err
	}
	gateway, err := connect(q.To)
	if err == nil {
		_, err = gateway.Write([]byte(q.Key))
	}
	if err != nil {
		server.Close()
		if gateway != nil {
			gateway.Close()
		}
		return err
	}
	go relayBytes(server, gateway)
	return nil
}

// connect opens a connection. It is a file of the runtime's poller: the net
// package would be init's largest part.
func connect(to netip.AddrPort) (*os.File, error) { return connectUntil(to, time.Now().Add(joinTime)) }

// connectUntil is connect that gives up at a time.
func connectUntil(to netip.AddrPort, until time.Time) (*os.File, error) {
	domain, sa := address(to)
	fd, err := unix.Socket(domain, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("make a socket: %w", err)
	}
	err = unix.Connect(fd, sa)
	f := os.NewFile(uintptr(fd), to.String())
	if err == unix.EINPROGRESS {
		err = answered(f, until)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("connect to %s: %w", to, err)
	}
	return f, nil
}

func address(to netip.AddrPort) (domain int, sa unix.Sockaddr) {
	if to.Addr().Is4() {
		return unix.AF_INET, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}
	}
	return unix.AF_INET6, &unix.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()}
}

// answered waits until a connection is established or has failed.
func answered(f *os.File, until time.Time) error {
	_ = f.SetWriteDeadline(until)
	defer func() { _ = f.SetWriteDeadline(time.Time{}) }()
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	result := 0
	err = raw.Write(func(fd uintptr) bool {
		if pollEvents(int(fd), unix.POLLOUT) == 0 {
			return false
		}
		result, _ = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
		return true
	})
	if err == nil && result != 0 {
		err = unix.Errno(result)
	}
	return err
}

// pollEvents returns which of these events a descriptor has now, including errors and hang-ups.
func pollEvents(fd int, events int16) int16 {
	p := []unix.PollFd{{Fd: int32(fd), Events: events}}
	if _, err := unix.Poll(p, 0); err != nil {
		return 0
	}
	return p[0].Revents
}

// relayBytes carries bytes until both directions have ended. A reset on one side is passed to the other:
// a truncated answer must not look complete.
func relayBytes(a, b *os.File) {
	var wg sync.WaitGroup
	direction := func(to, from *os.File) {
		if transfer(to, from) != nil {
			resetConn(a)
			resetConn(b)
		}
	}
	wg.Go(func() { direction(a, b) })
	wg.Go(func() { direction(b, a) })
	wg.Wait()
	a.Close()
	b.Close()
}

// transfer copies one direction to its end and passes the end on.
func transfer(to, from *os.File) error {
	buf := make([]byte, wire.Chunk)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if _, werr := to.Write(buf[:n]); werr != nil {
				return werr
			}
		}
		if err == io.EOF {
			return control(to, func(fd int) error { return unix.Shutdown(fd, unix.SHUT_WR) })
		}
		if err != nil {
			return err
		}
	}
}

// resetConn closes a connection so that the other end sees a reset.
func resetConn(f *os.File) {
	_ = control(f, func(fd int) error {
		return unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	})
	f.Close()
}

func control(f *os.File, do func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var done error
	if err := raw.Control(func(fd uintptr) { done = do(int(fd)) }); err != nil {
		return err
	}
	return done
}
