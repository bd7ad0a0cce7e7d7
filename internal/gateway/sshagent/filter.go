// Package sshagent lets programs of a sandbox log in over SSH with keys that the
// host's agent has, and use that agent for nothing else.
//
// An agent signs whatever it is asked to: a login anywhere, a commit, a certificate. So the filter
// passes on only two questions: which keys exist, and a signature over a login at a server that the
// sandbox is connected to just now. The extension session-bind@openssh.com of OpenSSH's agent
// protocol says which server a login is for. The client shows the server's key, and what the server
// has signed with it: the identifier of the session. A login's signed text begins with that
// identifier. In the host's known_hosts, the key must belong to a name that the sandbox is
// connected to. So another server's login cannot be passed off as a login for an allowed server,
// even with a proxy in between.
//
// If signatures are lent, too, the filter passes on a third question: a signature for git to keep
// with a commit or a tag. The signed text shows its purpose: it has the form SSHSIG, whose first
// bytes never begin a login, and names the purpose "git". The signature is worthless for any other
// purpose (a file, an e-mail, a login that some other program takes).
//
// Everything else is refused: adding and removing keys, locks, other extensions, signatures over
// anything else (including those of ssh-keygen for other purposes), and forwarding of agents to a
// server.
package sshagent

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/bothy-dev/bothy/internal/gateway/held"
)

// Filter is between the inside and the host's agent.
type Filter struct {
	// Dial connects to the host's agent.
	Dial func(context.Context) (net.Conn, error)
	// Logins reports whether the agent may be asked to sign logins now, Signatures whether it may be
	// asked to sign commits and tags.
	Logins, Signatures func() bool
	// Reached are the servers that the inside is connected to, as it named them.
	Reached func() []Server
	// Known are the files with the keys of servers. Missing ones are skipped.
	Known []string
	// Log is called with every signature, given or refused.
	Log func(Use)
	// Held bounds the memory of messages; nil: no bound.
	Held *held.Budget
}

// Server is a server that the inside is connected to.
type Server struct {
	Name string // or address
	Port uint16
}

// Use is a signature.
type Use struct {
	Server Server // empty if it is not known
	User   string // the user to log in as
	// Signature reports that git keeps the signature, and that it is not for a login.
	Signature bool
	Key       string // the key's fingerprint
	Err       error  // why it was refused
}

// Questions and answers, by their numbers in the protocol.
const (
	askIdentities = 11
	askSignature  = 13
	askExtension  = 27

	sayFailure    = 5
	saySuccess    = 6
	sayIdentities = 12
	saySignature  = 14
)

const (
	maxMessage = 256 << 10 // bytes, as in OpenSSH
	idle       = time.Hour // a program may hold its connection while it works
)

// Serve answers one connection of the inside's until it ends.
func (f *Filter) Serve(ctx context.Context, inside net.Conn) error {
	agent, err := f.Dial(ctx)
	if err != nil {
		return fmt.Errorf("connect to the host's SSH agent: %w", err)
	}
	defer agent.Close()
	defer context.AfterFunc(ctx, func() { _, _ = agent.Close(), inside.Close() })()
	c := &conversation{Filter: f, agent: agent, hold: f.Held.Hold()}
	defer c.hold.Release()
	for {
		c.hold.Reset()
		_ = inside.SetDeadline(time.Now().Add(idle))
		q, err := readMessage(inside, c.hold)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if !f.Logins() && !f.Signatures() {
			return errors.New("it is not lent any more")
		}
		answer, err := c.answer(q)
		if err != nil {
			return err
		}
		if err := writeMessage(inside, answer); err != nil {
			return err
		}
	}
}

// conversation is one connection.
type conversation struct {
	*Filter
	agent net.Conn
	hold  *held.Hold // of one question, and its answer
	bound *binding
}

// answer returns the answer for the inside. An error ends the conversation.
func (c *conversation) answer(q []byte) ([]byte, error) {
	switch q[0] {
	case askIdentities:
		if len(q) != 1 {
			break
		}
		return c.passOn(q, sayIdentities)
	case askExtension:
		return c.bindSession(q)
	case askSignature:
		if isSignature(q) {
			return c.signForGit(q)
		}
		return c.signLogin(q)
	}
	return []byte{sayFailure}, nil
}

// passOn asks the host's agent. Only an answer of the expected kind goes in.
func (c *conversation) passOn(q []byte, want byte) ([]byte, error) {
	_ = c.agent.SetDeadline(time.Now().Add(idle)) // it may ask its user
	if err := writeMessage(c.agent, q); err != nil {
		return nil, err
	}
	answer, err := readMessage(c.agent, c.hold)
	if err != nil {
		return nil, err
	}
	if answer[0] != want {
		return []byte{sayFailure}, nil
	}
	return answer, nil
}

// signLogin asks the agent to sign a login.
func (c *conversation) signLogin(q []byte) ([]byte, error) {
	l, err := parseLogin(q)
	use := Use{User: l.User, Err: err}
	if key, kerr := ssh.ParsePublicKey(l.Key); kerr == nil {
		use.Key = ssh.FingerprintSHA256(key)
	}
	switch {
	case !c.Logins():
		use.Err = errNoLogins
	case err == nil:
		use.Server, use.Err = c.judgeLogin(l)
	}
	return c.passSignature(q, use)
}

// passSignature has the host's agent sign the judged request, and logs it.
func (c *conversation) passSignature(q []byte, use Use) ([]byte, error) {
	if use.Err != nil {
		c.Log(use)
		return []byte{sayFailure}, nil
	}
	answer, err := c.passOn(q, saySignature)
	if err != nil || answer[0] != saySignature {
		use.Err = errors.New("the host's agent did not sign")
	}
	c.Log(use)
	return answer, err
}

// readMessage returns a message without its length. The message has at least one byte. It takes
// memory for the message, and for the copy that is sent on.
func readMessage(r io.Reader, hold *held.Hold) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(length[:])
	if n == 0 || n > maxMessage {
		return nil, fmt.Errorf("a message of %d bytes", n)
	}
	if err := hold.Take(2 * int64(n)); err != nil {
		return nil, err
	}
	b := make([]byte, n)
	_, err := io.ReadFull(r, b)
	return b, err
}

func writeMessage(w io.Writer, b []byte) error {
	_, err := w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...))
	return err
}
