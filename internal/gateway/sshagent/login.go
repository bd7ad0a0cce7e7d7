package sshagent

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strconv"

	"golang.org/x/crypto/ssh"
)

// sessionBind is the extension that says which server a session is with.
const sessionBind = "session-bind@openssh.com"

// binding is a session, and the key of the server it is with.
type binding struct {
	session []byte
	key     ssh.PublicKey
}

// refusal is the reason for signing nothing.
type refusal string

func (r refusal) Error() string { return string(r) }

const (
	errUnbound  = refusal("it is not said which server it is for: that takes OpenSSH 8.9 or later")
	errNotLogin = refusal("it is not a login at a server")
	errNoLogins = refusal("logins are not lent (--lend ssh)")
)

// bindSession notes which session a connection to the agent is for. The host's agent gets it, too: it may
// restrict keys to servers.
func (c *conversation) bindSession(q []byte) ([]byte, error) {
	if !c.Logins() {
		return []byte{sayFailure}, nil
	}
	b, err := parseBind(q)
	if err == nil && c.bound != nil {
		err = errors.New("it is said a second time which server it is for")
	}
	if err != nil {
		c.bound = &binding{} // and the agent signs nothing any more
		return []byte{sayFailure}, nil
	}
	c.bound = b
	if _, err := c.passOn(q, saySuccess); err != nil { // older agents do not know of it
		return nil, err
	}
	return []byte{saySuccess}, nil
}

func parseBind(q []byte) (*binding, error) {
	var ext struct {
		Name string `sshtype:"27"`
		Rest []byte `ssh:"rest"`
	}
	var said struct {
		Key, Session, Signature []byte
		Forwarding              bool
	}
	if ssh.Unmarshal(q, &ext) != nil || ext.Name != sessionBind || ssh.Unmarshal(ext.Rest, &said) != nil {
		return nil, errors.New("it is another extension")
	}
	if said.Forwarding {
		return nil, errors.New("the agent is passed on to a server")
	}
	key, err := ssh.ParsePublicKey(said.Key)
	if err != nil {
		return nil, err
	}
	var sig ssh.Signature
	if err := ssh.Unmarshal(said.Signature, &sig); err != nil {
		return nil, err
	}
	if err := key.Verify(said.Session, &sig); err != nil {
		return nil, err
	}
	return &binding{session: said.Session, key: key}, nil
}

// login is the text to be signed.
type login struct {
	Session []byte
	User    string
	Key     []byte // the key to sign it with
	HostKey []byte // of the server, if the login has it
}

// parseLogin reads a request for a signature (RFC 4252, 7). Every byte has to be the expected one.
func parseLogin(q []byte) (l login, err error) {
	var ask struct {
		Key   []byte `sshtype:"13"`
		Data  []byte
		Flags uint32
	}
	if err := ssh.Unmarshal(q, &ask); err != nil {
		return l, errNotLogin
	}
	l.Key = ask.Key
	var head struct {
		Session []byte
		Rest    []byte `ssh:"rest"`
	}
	if ssh.Unmarshal(ask.Data, &head) != nil || len(head.Session) == 0 {
		return l, errNotLogin
	}
	var body struct {
		User            string `sshtype:"50"`
		Service, Method string
		Signed          bool
		Algorithm       string
		Key             []byte
		Rest            []byte `ssh:"rest"`
	}
	if ssh.Unmarshal(head.Rest, &body) != nil || body.Service != "ssh-connection" || !body.Signed || !bytes.Equal(body.Key, ask.Key) {
		return l, errNotLogin
	}
	l.Session, l.User = head.Session, body.User
	switch body.Method {
	case "publickey":
		if len(body.Rest) > 0 {
			return l, errNotLogin
		}
		return l, nil
	case "publickey-hostbound-v00@openssh.com":
		var tail struct{ Key []byte }
		if ssh.Unmarshal(body.Rest, &tail) != nil || len(tail.Key) == 0 {
			return l, errNotLogin
		}
		l.HostKey = tail.Key
		return l, nil
	}
	return l, errNotLogin
}

// judgeLogin returns the server that a login is for.
func (c *conversation) judgeLogin(l login) (Server, error) {
	switch {
	case c.bound == nil || c.bound.key == nil:
		return Server{}, errUnbound
	case !bytes.Equal(l.Session, c.bound.session):
		return Server{}, errors.New("it is for another session")
	case l.HostKey != nil && !bytes.Equal(l.HostKey, c.bound.key.Marshal()):
		return Server{}, errors.New("it is for another server")
	}
	known, err := ReadKnown(c.Known)
	if err != nil {
		return Server{}, err
	}
	for _, s := range c.Reached() {
		if known.Check(net.JoinHostPort(s.Name, strconv.Itoa(int(s.Port))), c.bound.key) == nil {
			return s, nil
		}
	}
	return Server{}, fmt.Errorf("the key of the server, %s, is in the host's known_hosts for none that the sandbox is connected to", ssh.FingerprintSHA256(c.bound.key))
}
