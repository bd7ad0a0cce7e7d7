package gitssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/bothy-dev/bothy/internal/gateway/sshagent"
)

// errBroken is for a command whose end the server did not report.
var errBroken = errors.New("the server ended the connection before the command had ended")

// passCommand runs a command at the server, and carries its streams.
func (s *session) passCommand(ctx context.Context, cmd Command) (ending, error) {
	raw, conn, err := s.loginAtServer(ctx)
	if err != nil {
		return ending{}, err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	out, requests, err := conn.OpenChannel("session", nil)
	if err != nil {
		return ending{}, serverError("open a session at "+s.Name, err)
	}
	ends := make(chan ending, 1)
	s.wg.Go(func() { ends <- awaitEnd(requests) }) // from the first one on: while a request waits, nothing else is read
	if err := s.startCommand(out, cmd); err != nil {
		return ending{}, serverError(s.Name, err)
	}
	_ = raw.SetDeadline(time.Time{}) // the command runs
	quiet := s.whenQuiet(conn)
	end := s.carryStreams(out, ends, conn)
	switch {
	case !quiet():
		return ending{}, fmt.Errorf("%s: %w", s.Name, errQuiet)
	case end.kind == "":
		return end, fmt.Errorf("%s: %w", s.Name, errBroken)
	}
	return end, nil
}

// errQuiet is for a command without any more bytes.
var errQuiet = errors.New("nothing was said for an hour, by neither side")

// whenQuiet ends a command if no bytes pass in either direction for a while, however the two sides
// keep it from ending: it occupies one of few places. The returned function stops the watch. It
// returns false if the watch has ended the command.
func (s *session) whenQuiet(server io.Closer) (stop func() bool) {
	var mu sync.Mutex
	var timer *time.Timer
	var last int64
	over, stopped := false, false
	look := func() {
		mu.Lock()
		defer mu.Unlock()
		now := s.Counts.Up.Load() + s.Counts.Down.Load()
		switch {
		case stopped:
		case now != last:
			last = now
			timer.Reset(s.quietTime())
		default:
			over = true
			_ = server.Close()
			s.cut.Reset(farewell)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	last = s.Counts.Up.Load() + s.Counts.Down.Load()
	timer = time.AfterFunc(s.quietTime(), look)
	return func() bool {
		mu.Lock()
		defer mu.Unlock()
		stopped = true
		timer.Stop()
		return !over
	}
}

// awaitEnd answers the server's requests, and returns how the server says that the command ended.
func awaitEnd(requests <-chan *ssh.Request) (end ending) {
	for r := range requests {
		if r.Type == "exit-status" || r.Type == "exit-signal" {
			end = ending{r.Type, r.Payload}
		}
		_ = r.Reply(false, nil)
	}
	return end
}

// startCommand makes the server run a command. A server that does not take the variable speaks an older version
// of git's protocol.
func (s *session) startCommand(out ssh.Channel, cmd Command) error {
	if s.version != "" {
		if _, err := out.SendRequest("env", false, ssh.Marshal(struct{ Name, Value string }{"GIT_PROTOCOL", s.version})); err != nil {
			return err
		}
	}
	ok, err := out.SendRequest("exec", true, ssh.Marshal(struct{ Command string }{cmd.String()}))
	if err == nil && !ok {
		err = errors.New("the server does not run the command")
	}
	return err
}

// carryStreams carries streams until the server has reported how the command ended, and sent everything
// before that.
func (s *session) carryStreams(out ssh.Channel, ends <-chan ending, conn io.Closer) ending {
	s.wg.Go(func() { // the end does not wait for this one: the inside may go on sending
		if _, err := io.Copy(&counted{out, &s.Counts.Up}, s.ch); err != nil {
			_ = conn.Close() // else the server would wait for the rest, and the others for the server
			return
		}
		_ = out.CloseWrite()
	})
	var said sync.WaitGroup
	tell := func(to io.Writer, from io.Reader) {
		if _, err := io.Copy(&counted{to, &s.Counts.Down}, from); err != nil {
			_ = conn.Close() // the receiver no longer reads
		}
	}
	said.Go(func() { tell(s.ch, out) })
	said.Go(func() { tell(s.ch.Stderr(), out.Stderr()) })
	end := <-ends
	said.Wait()
	return end
}

// counted counts the written bytes.
type counted struct {
	io.Writer
	n *atomic.Int64
}

func (c *counted) Write(b []byte) (int, error) {
	n, err := c.Writer.Write(b)
	c.n.Add(int64(n))
	return n, err
}

// loginAtServer connects to the server, if the host knows it. It logs in there with the host's agent, as
// the user that the program inside gave. The returned connection has a deadline by which the
// command must have begun.
func (s *session) loginAtServer(ctx context.Context) (net.Conn, ssh.Conn, error) {
	at := net.JoinHostPort(s.Name, strconv.Itoa(int(s.Port)))
	known, err := s.Known()
	if err != nil {
		if strings.Contains(err.Error(), "/") { // a path of the host
			err = &hidden{"what the host knows of servers cannot be read", err}
		}
		return nil, nil, err
	}
	algorithms := known.Algorithms(at)
	if len(algorithms) == 0 {
		return nil, nil, fmt.Errorf("the host does not know the key of %s.\n%s", at, s.toKnow())
	}
	keys, err := s.Agent(ctx)
	if err != nil {
		return nil, nil, serverError("ask the host's SSH agent", err)
	}
	defer keys.Close()
	defer context.AfterFunc(ctx, func() { _ = keys.Close() })()
	raw, err := s.Reach(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer context.AfterFunc(ctx, func() { _ = raw.Close() })()
	end := time.Now().Add(loginLast)
	_, _ = raw.SetDeadline(end), keys.SetDeadline(end)
	conn, channels, requests, err := ssh.NewClientConn(raw, at, &ssh.ClientConfig{
		User: s.user, HostKeyAlgorithms: algorithms, ClientVersion: version,
		HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error { return s.isServer(known, at, key) },
		Auth:            []ssh.AuthMethod{ssh.PublicKeysCallback(func() ([]ssh.Signer, error) { return s.signers(keys) })},
		AuthCallback:    s.another,
	})
	if err != nil {
		_ = raw.Close()
		if s.unsigned != nil && !errors.Is(err, s.unsigned) {
			err = fmt.Errorf("%w; %w", err, s.unsigned)
		}
		return nil, nil, serverError(fmt.Sprintf("log in at %s as %s", at, s.user), err)
	}
	s.wg.Go(func() { ssh.DiscardRequests(requests) })
	s.wg.Go(func() { turnAway(channels) })
	return raw, conn, nil
}

// hidden is an error of which the inside sees less than the log: its cause contains addresses and
// paths of the host.
type hidden struct {
	said string
	err  error
}

func (h *hidden) Error() string { return h.said + ": " + clipText(h.err.Error()) }
func (h *hidden) Unwrap() error { return h.err }

// serverError is an error at a server. Errors of the host's own connections are hidden.
func serverError(what string, err error) error {
	if h, ok := errors.AsType[*hidden](err); ok {
		return &hidden{what + ": " + h.said, err}
	}
	_, ours := errors.AsType[*net.OpError](err)
	if ours || strings.Contains(err.Error(), "->") {
		return &hidden{what + ": the connection broke off", err}
	}
	return fmt.Errorf("%s: %s", what, clipText(err.Error()))
}

// clipText bounds text that a server may have influenced: it is shown inside, and logged.
func clipText(text string) string {
	const most = 600
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// turnAway refuses channels that the server wants to open: the agent's socket, a screen, a port.
func turnAway(channels <-chan ssh.NewChannel) {
	for n := range channels {
		_ = n.Reject(ssh.Prohibited, "not here")
	}
}

// isServer checks that a key is the server's.
func (s *session) isServer(known *sshagent.Known, at string, key ssh.PublicKey) error {
	if err := known.Check(at, key); err != nil {
		return fmt.Errorf("the key of the server, %s, is not the one the host knows (%w): the connection may be intercepted.\nOn the host, ssh %s tells more", ssh.FingerprintSHA256(key), err, s.manually())
	}
	return nil
}

// toKnow returns the advice that makes the host know the server. ssh does not ask its user about a
// key that it knows by the name without the port.
func (s *session) toKnow() string {
	if s.Port != 22 {
		return fmt.Sprintf("On the host, add its key, after a look at it, to ~/.ssh/known_hosts: ssh-keyscan -p %d %s", s.Port, s.Name)
	}
	return "On the host, log in once, which shows the key and asks: ssh " + s.manually()
}

// manually is the ssh command by which the user sees the server's key on the host. It uses no
// configuration: there the name, or the file of known keys, may be another one.
func (s *session) manually() string {
	to := "-F none " + s.user + "@" + s.Name
	if s.Port != 22 {
		to = "-p " + strconv.Itoa(int(s.Port)) + " " + to
	}
	return to
}

// signers returns the agent's keys. Each use of one is logged.
func (s *session) signers(keys io.ReadWriter) ([]ssh.Signer, error) {
	list, err := agent.NewClient(keys).Signers()
	if err != nil {
		return nil, &hidden{"the host's SSH agent does not answer", err}
	}
	if len(list) == 0 {
		return nil, errors.New("the host's SSH agent has no key")
	}
	told := make([]ssh.Signer, 0, len(list))
	for _, k := range list {
		if a, ok := k.(ssh.AlgorithmSigner); ok {
			told = append(told, &toldSigner{AlgorithmSigner: a, s: s})
		}
	}
	for i, k := range told {
		k.(*toldSigner).rest = told[i+1:]
	}
	return told, nil
}

// another goes on with the keys after one that the server would have accepted but that did not
// sign. That key may be restricted to other servers, or its user did not touch it. OpenSSH does so,
// too.
func (s *session) another(c *ssh.ClientAuthContext) (ssh.AuthMethod, error) {
	rest := s.rest
	s.rest = nil
	if len(rest) == 0 || !slices.Contains(c.AllowedMethods, "publickey") {
		return nil, nil // as if the callback did not exist
	}
	return ssh.PublicKeys(rest...), nil
}

// toldSigner is a key whose use is logged.
type toldSigner struct {
	ssh.AlgorithmSigner
	s    *session
	rest []ssh.Signer // the keys after it
}

func (t *toldSigner) Sign(rand io.Reader, data []byte) (*ssh.Signature, error) {
	return t.SignWithAlgorithm(rand, data, "")
}

func (t *toldSigner) SignWithAlgorithm(rand io.Reader, data []byte, algorithm string) (*ssh.Signature, error) {
	if t.PublicKey().Type() == ssh.KeyAlgoRSA && (algorithm == "" || algorithm == ssh.KeyAlgoRSA) {
		return nil, t.failed(errors.New("the server takes nothing better than SHA-1 from a key of RSA"))
	}
	sig, err := t.AlgorithmSigner.SignWithAlgorithm(rand, data, algorithm)
	t.s.Signed(Login{User: t.s.user, Key: ssh.FingerprintSHA256(t.PublicKey()), Err: err})
	if err != nil {
		return nil, t.failed(&hidden{"the host's SSH agent did not sign with the key " + ssh.FingerprintSHA256(t.PublicKey()), err})
	}
	return sig, nil
}

// failed notes that a key did not sign, and which other keys exist.
func (t *toldSigner) failed(err error) error {
	t.s.unsigned, t.s.rest = err, t.rest
	return err
}
