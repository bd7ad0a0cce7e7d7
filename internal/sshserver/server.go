// Package sshserver serves one connection of an SSH client to a sandbox, over two streams. It never listens.
// The client's programs, files and forwarded connections are programs inside the sandbox: this package
// only carries bytes between them and the client, and opens no path and no address itself.
//
// The client is not asked for a credential. It reaches the server by starting it, and a person who can do
// that can run any command in the sandbox.
package sshserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// Bounds of a connection.
const (
	handshakeTime = 30 * time.Second
	leaveTime     = time.Second // for the end of a connection after ctx has ended
	maxChannels   = 128
)

// version is the name of the server. OpenSSH's client tells only servers with such a name that the reader
// of a program's output has gone.
const version = "SSH-2.0-OpenSSH_compatible_Bothy"

// Programs starts programs in a sandbox, which it starts if needed.
type Programs interface {
	Ask(context.Context, wire.Ask, ...*os.File) (*unixconn.Conn, wire.Started, error)
}

// Options describe a server.
type Options struct {
	Key ssh.Signer // of the host
	// Inside is the sandbox, and Name its name.
	Inside Programs
	Name   string
	// Users are other names of the sandbox's own user: a client that was not told one sends the name of
	// the person.
	Users []string
	// Say tells the person why a request of the client was refused.
	Say func(text string)
}

// server serves one connection.
type server struct {
	Options
	user string // for programs inside; empty: the sandbox's own
	told bool   // the person knows why the user was refused
	free chan struct{}
	once sync.Map // reasons that were given
	wg   sync.WaitGroup
}

// Serve serves the client until it leaves, or ctx ends. It returns an error if the client could not
// connect, and the cause of an ended ctx. It does not wait for a Read or Write of the stream that Close
// does not wake: standard input and output are often such streams.
func Serve(ctx context.Context, stream io.ReadWriteCloser, o Options) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := time.AfterFunc(handshakeTime, func() {
		cancel(spec.Errorf(spec.ErrTimeout, "the SSH client did not finish its greeting within %s", handshakeTime))
	})
	defer late.Stop()
	s := &server{Options: o, free: make(chan struct{}, maxChannels)}
	var err error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err = s.serveClient(ctx, stream, late)
	}()
	select {
	case <-ended:
		return err
	case <-ctx.Done():
	}
	select {
	case <-ended:
	case <-time.After(leaveTime):
	}
	return context.Cause(ctx)
}

// serveClient serves the client, and stops late once it has greeted.
func (s *server) serveClient(ctx context.Context, stream io.ReadWriteCloser, late *time.Timer) error {
	conn := &streamConn{ReadWriteCloser: stream}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	config := &ssh.ServerConfig{
		ServerVersion: version,
		NoClientAuth:  true,
		NoClientAuthCallback: func(c ssh.ConnMetadata) (*ssh.Permissions, error) {
			return nil, s.chooseUser(c.User())
		},
	}
	config.AddHostKey(s.Key)
	client, channels, requests, err := ssh.NewServerConn(conn, config)
	late.Stop()
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if s.told || errors.Is(err, io.EOF) {
			return &spec.Exited{Code: spec.ExitError} // the client knows why
		}
		return fmt.Errorf("greet the SSH client: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	s.wg.Go(func() { s.answerRequests(requests) })
	for nc := range channels {
		s.openChannel(ctx, nc)
	}
	cancel()
	_ = client.Close()
	s.wg.Wait()
	return nil
}

// root is the user name of root inside, and usual is one that always means the sandbox's own user.
const (
	root  = "root"
	usual = "bothy"
)

// chooseUser chooses the user inside by the name that the client sends.
func (s *server) chooseUser(name string) error {
	if name == root {
		s.user = root
		return nil
	}
	for _, own := range append([]string{usual}, s.Users...) {
		if name == own && name != "" {
			return nil
		}
	}
	s.told = true
	s.Say(fmt.Sprintf("user %q: use %s for the sandbox's own user, or %s for root: ssh %s@%s.bothy", name, usual, root, root, s.Name))
	return errors.New("no such user")
}

// answerRequests answers requests that concern the whole connection.
func (s *server) answerRequests(requests <-chan *ssh.Request) {
	for r := range requests {
		ok := false
		switch r.Type {
		case "keepalive@openssh.com":
			ok = true
		case "tcpip-forward", "streamlocal-forward@openssh.com":
			s.refuse("forwarding from the sandbox to this host (-R) is refused: to let it reach a port of this host, use bothy ports %s --allow-host-port PORT", s.Name)
		}
		if r.WantReply {
			_ = r.Reply(ok, nil)
		}
	}
}

// refuse tells the person once why something is refused.
func (s *server) refuse(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if _, said := s.once.LoadOrStore(text, true); !said {
		s.Say(text)
	}
}

// openChannel serves a channel, unless there are too many.
func (s *server) openChannel(ctx context.Context, nc ssh.NewChannel) {
	select {
	case s.free <- struct{}{}:
	default:
		_ = nc.Reject(ssh.ResourceShortage, fmt.Sprintf("more than %d channels at once", maxChannels))
		return
	}
	s.wg.Go(func() {
		defer func() { <-s.free }()
		switch kind := nc.ChannelType(); kind {
		case "session":
			s.serveSession(ctx, nc)
		case "direct-tcpip":
			s.forward(ctx, nc)
		case "direct-streamlocal@openssh.com":
			_ = nc.Reject(ssh.Prohibited, "sockets of the sandbox are not forwarded: use a TCP port")
		default:
			_ = nc.Reject(ssh.UnknownChannelType, "this kind of channel is not served")
		}
	})
}

// streamConn makes a connection of two streams, which have no addresses and no deadlines.
type streamConn struct {
	io.ReadWriteCloser
	closing sync.Once
	err     error
}

func (c *streamConn) Close() error {
	c.closing.Do(func() { c.err = c.ReadWriteCloser.Close() })
	return c.err
}

func (*streamConn) LocalAddr() net.Addr              { return &net.UnixAddr{Net: "unix"} }
func (*streamConn) RemoteAddr() net.Addr             { return &net.UnixAddr{Net: "unix"} }
func (*streamConn) SetDeadline(time.Time) error      { return nil }
func (*streamConn) SetReadDeadline(time.Time) error  { return nil }
func (*streamConn) SetWriteDeadline(time.Time) error { return nil }
