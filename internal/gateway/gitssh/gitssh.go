// Package gitssh lets git inside a sandbox fetch and push over SSH, and lets no other use of SSH
// through.
//
// SSH is a tunnel: a client that speaks it with a server has a shell there, or connections to
// anywhere, and no observer in between sees which. So the gateway splits the connection. Towards
// the inside it is an SSH server that an authority of the sandbox's own vouches for. Towards the
// server it is a client that logs in with a key of the host's agent, and that goes on only if the
// host knows the server's key. Between the two pass, once for each connection, one command of git,
// its streams and how it ended.
//
// Every other request from inside is refused and logged: shells, terminals, subsystems, other
// commands, forwarding of ports, sockets, agents and screens, tunnels. The server's own requests
// are refused, too. Programs inside need not authenticate: a program that can connect may ask.
package gitssh

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/bothy-dev/bothy/internal/gateway/relay"
	"github.com/bothy-dev/bothy/internal/gateway/sshagent"
)

// Server answers one connection of the inside.
type Server struct {
	Name string // of the server it is for, or its address
	Port uint16
	Key  *Key

	// Ask decides about a command before anything is dialled. The inside sees its error. Done is nil
	// if err is not. Done receives how the command ended: nil, if the server said how. It returns the
	// error that the inside sees then.
	Ask func(Command) (done func(error) error, err error)
	// Refused is called with every other request, by its name in SSH.
	Refused func(what string)
	// Reach dials the server.
	Reach func(context.Context) (net.Conn, error)
	// Known returns the keys that the server may have.
	Known func() (*sshagent.Known, error)
	// Agent dials the host's SSH agent.
	Agent func(context.Context) (net.Conn, error)
	// Signed is called with every login that the agent was asked to sign.
	Signed func(Login)
	// Counts are the bytes carried.
	Counts *relay.Counts

	quiet time.Duration // instead of the usual one, in tests
}

// Login is a signature for a login at the server.
type Login struct {
	User, Key string
	Err       error
}

const (
	greeting  = 30 * time.Second // for the key exchange with the inside
	loginLast = 2 * time.Minute  // at the server, until it runs the command; the agent may ask its user
	quietLast = time.Hour        // for a command, without bytes from either side
	patience  = time.Minute      // for a command
	farewell  = 5 * time.Second  // to a client that has heard how its command ended
	mostAsked = 32               // refused requests on one connection
)

func (s *Server) quietTime() time.Duration { return cmp.Or(s.quiet, quietLast) }

// errTooMuch ends the connection of a client that keeps asking for refused things.
var errTooMuch = errors.New("it asks for one thing after the other that is refused")

// Serve answers a connection until it ends, and closes it.
func (s *Server) Serve(ctx context.Context, inside net.Conn) error {
	defer context.AfterFunc(ctx, func() { _ = inside.Close() })()
	defer inside.Close()
	conf, err := s.Key.config(s.Name)
	if err != nil {
		return err
	}
	_ = inside.SetDeadline(time.Now().Add(greeting))
	conn, channels, requests, err := ssh.NewServerConn(inside, conf)
	if err != nil {
		return fmt.Errorf("speak SSH with the program inside: %w", err)
	}
	_ = inside.SetDeadline(time.Time{})
	c := &connection{Server: s, conn: conn, user: conn.User()}
	c.cut = time.AfterFunc(patience, func() { _ = conn.Close() })
	ctx, cancel := context.WithCancel(ctx)
	c.wg.Go(func() { c.global(requests) })
	for n := range channels {
		c.open(ctx, n)
	}
	cancel() // a client that has gone does not wait for its command
	c.wg.Wait()
	c.cut.Stop()
	return c.failed()
}

// connection is a connection that has been greeted.
type connection struct {
	*Server
	conn *ssh.ServerConn
	user string
	cut  *time.Timer // ends a client that asks for nothing, or has heard all
	used bool        // it has had a session
	wg   sync.WaitGroup

	mu    sync.Mutex
	asked int // refused requests
	err   error
}

// refuse counts and logs a refused request.
func (c *connection) refuse(what string) {
	c.mu.Lock()
	c.asked++
	n := c.asked
	if n > mostAsked && c.err == nil {
		c.err = errTooMuch
	}
	c.mu.Unlock()
	if n <= mostAsked {
		c.Refused(printable(what))
		return
	}
	_ = c.conn.Close()
}

func (c *connection) failed() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// usual are requests of a client that mean nothing here, and are declined without a record: that it
// is still there, that it will open no second session.
var usual = []string{"keepalive@openssh.com", "no-more-sessions@openssh.com"}

// global refuses requests for the whole connection: above all, to listen at a port or a socket of
// the server.
func (c *connection) global(requests <-chan *ssh.Request) {
	for r := range requests {
		if !slices.Contains(usual, r.Type) {
			c.refuse(r.Type)
		}
		_ = r.Reply(false, nil)
	}
}

// open lets one session begin, and refuses all other channels: connections to somewhere behind the
// server, tunnels, and a second session.
func (c *connection) open(ctx context.Context, n ssh.NewChannel) {
	kind := n.ChannelType()
	if kind != "session" || c.used {
		if kind == "session" {
			kind = "a second session"
		}
		c.refuse(kind)
		_ = n.Reject(ssh.Prohibited, "bothy: one command of git passes here, and nothing else")
		return
	}
	c.used = true
	ch, requests, err := n.Accept()
	if err != nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &session{connection: c, ch: ch}
	c.wg.Go(func() {
		defer cancel() // the program inside has ended the session
		s.serveRequests(ctx, requests)
	})
}

// printable keeps names that a program inside made up short and plain for logs.
func printable(what string) string {
	const most = 64
	plain := func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}
	return strings.Map(plain, what[:min(len(what), most)])
}
