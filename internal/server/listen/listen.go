// Package listen opens the sockets of the API: a unix socket in the state directory, TCP addresses, and
// sockets that a service manager has opened.
package listen

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/server/guard"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// Socket is an open listener of the API.
type Socket struct {
	net.Listener
	guard.Site
	// URL is the address for clients: http://127.0.0.1:8080 or unix:/path.
	URL     string
	release func()
}

// Release frees the socket's name, once the listener is closed. It may be called several times.
func (s *Socket) Release() {
	if s.release != nil {
		s.release()
		s.release = nil
	}
}

// maxSockets is how many servers may use one state directory.
const maxSockets = 9

// Default opens the socket of a state directory. If another server has it, Default takes the next name:
// api/2.sock, api/3.sock and so on.
func Default(s *store.Store) (*Socket, error) {
	for n := 1; n <= maxSockets; n++ {
		path := s.APISocket()
		if n > 1 {
			path = filepath.Join(s.API(), fmt.Sprintf("%d.sock", n))
		}
		socket, err := openUnix(path, filepath.Join(s.API(), fmt.Sprintf("%d.lock", n)))
		if !errors.Is(err, store.ErrLocked) {
			return socket, err
		}
	}
	return nil, spec.Errorf(spec.ErrConflict, "%d servers use this state directory already", maxSockets).
		WithHint("end one of them: each has printed its address")
}

// openUnix opens a unix socket under a lock, which the kernel releases when this process dies. The holder of
// the lock replaces a dead socket.
func openUnix(path, lockPath string) (*Socket, error) {
	if err := os.MkdirAll(filepath.Dir(lockPath), 0o700); err != nil {
		return nil, err
	}
	lock, err := store.TryLock(lockPath)
	if err != nil {
		return nil, err
	}
	l, err := unixconn.Listen(path)
	if err != nil {
		lock.Unlock()
		return nil, &spec.Error{Op: "open the socket " + path, Err: err}
	}
	return &Socket{peers{l}, guard.Site{Hosts: guard.LocalHosts, Local: true}, "unix:" + path, func() {
		_ = os.Remove(path)
		lock.Unlock()
	}}, nil
}

// peers accepts connections of this user only.
type peers struct{ *net.UnixListener }

// Accept returns the next connection of this user. It closes those of others.
func (p peers) Accept() (net.Conn, error) {
	for {
		c, err := p.AcceptUnix()
		if err != nil {
			return nil, err
		}
		if uid, err := unixconn.PeerUID(c); err == nil && uid == os.Geteuid() {
			return c, nil
		}
		_ = c.Close()
	}
}

// Options say how TCP addresses are served.
type Options struct {
	Certificate Certificate
	// Hosts are further values of the header Host, such as the name of this machine.
	Hosts []string
}

// TCP opens an address. Without TLS it must be one of the loopback.
func TCP(address string, o Options) (*Socket, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", address)
	if err != nil {
		if op, ok := errors.AsType[*net.OpError](err); ok {
			err = op.Err
		}
		return nil, spec.Errorf(spec.ErrUsage, "listen at %q: %w", address, err).WithHint("--listen takes HOST:PORT, e.g. 127.0.0.1:7777")
	}
	s, err := overTCP(l, o)
	if err != nil {
		_ = l.Close()
	}
	return s, err
}

func overTCP(l net.Listener, o Options) (*Socket, error) {
	at, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return nil, spec.Errorf(spec.ErrUsage, "%s is not a TCP address", l.Addr())
	}
	if o.Certificate.config == nil && !at.IP.IsLoopback() {
		return nil, spec.Errorf(spec.ErrUsage, "%s can be reached by other machines, and needs TLS", at).
			WithHint("add --tls to have a certificate made, or --tls-cert FILE --tls-key FILE; or listen at 127.0.0.1")
	}
	site := guard.Site{Hosts: guard.HostsFor(at, o.Hosts), TLS: o.Certificate.config != nil}
	url := "http://" + at.String()
	if site.TLS {
		url = "https://" + at.String()
		l = o.Certificate.wrapListener(l)
	}
	return &Socket{Listener: l, Site: site, URL: url}, nil
}

// firstPassed is the first descriptor that a service manager passes.
const firstPassed = 3

// Passed returns the sockets that a service manager has opened for this process, if any. It unsets the
// variables that announce them, so that no child takes them for its own.
func Passed(o Options) ([]*Socket, error) {
	pid, err := strconv.Atoi(os.Getenv("LISTEN_PID"))
	count, cerr := strconv.Atoi(os.Getenv("LISTEN_FDS"))
	for _, name := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} {
		_ = os.Unsetenv(name)
	}
	if err != nil || cerr != nil || pid != os.Getpid() || count < 1 {
		return nil, nil
	}
	var list []*Socket
	for fd := firstPassed; fd < firstPassed+count; fd++ {
		unix.CloseOnExec(fd)
		s, err := adoptSocket(fd, o)
		if err != nil {
			for _, open := range list {
				_ = open.Close()
			}
			return nil, fmt.Errorf("use socket %d of the service manager: %w", fd, err)
		}
		list = append(list, s)
	}
	return list, nil
}

// adoptSocket makes a listener of a descriptor.
func adoptSocket(fd int, o Options) (*Socket, error) {
	f := os.NewFile(uintptr(fd), "socket")
	defer f.Close()
	if listens, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN); err != nil || listens == 0 {
		return nil, spec.Errorf(spec.ErrUsage, "it is not a socket that listens").WithHint("the unit needs Accept=no")
	}
	l, err := net.FileListener(f)
	if err != nil {
		return nil, err
	}
	if u, ok := l.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false)
		return &Socket{Listener: peers{u}, Site: guard.Site{Hosts: guard.LocalHosts, Local: true}, URL: "unix:" + u.Addr().String()}, nil
	}
	s, err := overTCP(l, o)
	if err != nil {
		_ = l.Close()
	}
	return s, err
}

// Ports returns the TCP ports of sockets.
func Ports(list []*Socket) (ports []uint16) {
	for _, s := range list {
		if at, ok := s.Addr().(*net.TCPAddr); ok && !slices.Contains(ports, at.AddrPort().Port()) {
			ports = append(ports, at.AddrPort().Port())
		}
	}
	return ports
}
