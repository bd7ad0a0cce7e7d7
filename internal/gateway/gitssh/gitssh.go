// Package gitssh lets git of a sandbox fetch and push over SSH, and lets nothing else
// through that SSH can do.
//
// SSH is a tunnel: who may speak it with a server has a shell there, or connections to
// anywhere, and nobody between the two sees which. So the two are kept apart. Towards
// the inside it is an SSH server, vouched for by an authority of the sandbox's own;
// towards the server it is a client, which logs in with a key of the host's agent and
// goes on only if the host knows the server's key. Between the two pass, once for each
// connection, one command of git, its streams and how it ended.
//
// Whatever else somebody inside asks for is refused, and told: shells, terminals,
// subsystems, other commands, forwarding of ports, sockets, agents and screens, tunnels.
// What the server asks for is refused, too. Nobody has to prove who they are inside: who
// can connect may ask.
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

// Server answers one connection of the inside's.
type Server struct {
	Name string // of the server it is for, or its address
	Port uint16
	Key  *Key

	// Ask decides about a command before anything is dialled. Its error is what the
	// inside is told. Done, which is nil with an error, is told how it ended: with nil, if
	// the server said how; it gives what the inside is told then.
	Ask func(Command) (done func(error) error, err error)
	// Refused is told of everything else that is asked for, by its name in SSH.
	Refused func(what string)
	// Reach dials the server.
	Reach func(context.Context) (net.Conn, error)
	// Known says which keys the server may have.
	Known func() (*sshagent.Known, error)
	// Agent dials the host's SSH agent.
	Agent func(context.Context) (net.Conn, error)
	// Signed is told of every login that the agent was asked to sign.
	Signed func(Login)
	// Counts has what was carried.
	Counts *relay.Counts

	quiet time.Duration // instead of the usual one, in tests
}

// Login is a signature with which somebody logs in at the server.
type Login struct {
	User, Key string
	Err       error
}

const (
	greeting  = 30 * time.Second // for the key exchange with the inside
	loginLast = 2 * time.Minute  // at the server, until it runs the command; the agent may ask its user
	quietLast = time.Hour        // a command may take without a word of either side
	patience  = time.Minute      // for a command
	farewell  = 5 * time.Second  // to a client that has heard how its command ended
	mostAsked = 32               // things that are refused on one connection
)

func (s *Server) quietTime() time.Duration { return cmp.Or(s.quiet, quietLast) }

// errTooMuch ends the connection of who does not stop asking.
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
	cancel() // who has gone does not wait for what was asked
	c.wg.Wait()
	c.cut.Stop()
	return c.failed()
}

// connection is one that has been greeted.
type connection struct {
	*Server
	conn *ssh.ServerConn
	user string
	cut  *time.Timer // ends who asks for nothing, or has heard all
	used bool        // there was a session
	wg   sync.WaitGroup

	mu    sync.Mutex
	asked int // things that were refused
	err   error
}

// refuse counts and tells what is refused.
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

// usual are requests of a client that mean nothing here, and are answered with no
// without a word: that it is still there, that it will open no second session.
var usual = []string{"keepalive@openssh.com", "no-more-sessions@openssh.com"}

// global refuses what is asked of the whole connection: to listen at a port or a socket
// of the server, above all.
func (c *connection) global(requests <-chan *ssh.Request) {
	for r := range requests {
		if !slices.Contains(usual, r.Type) {
			c.refuse(r.Type)
		}
		_ = r.Reply(false, nil)
	}
}

// open lets one session begin, and refuses all other channels: connections to somewhere
// behind the server, tunnels, and a second session.
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
		s.serve(ctx, requests)
	})
}

// printable keeps what somebody inside calls things in logs short and plain.
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
