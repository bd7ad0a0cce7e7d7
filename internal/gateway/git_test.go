package gateway

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/bothy-dev/bothy/internal/gateway/held"
	"github.com/bothy-dev/bothy/internal/gateway/relay"
	"github.com/bothy-dev/bothy/internal/gateway/sshagent"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/policy/policyfile"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// sshOutside is an SSH server, an agent with the key that it accepts, and its known_hosts file.
type sshOutside struct {
	port  uint16
	host  ssh.Signer
	known string
	agent string // its socket

	sent atomic.Int64 // bytes of SSH sent to it

	mu   sync.Mutex
	seen []string
	gone int // connections that have ended
}

// weighed counts the bytes read from a connection.
type weighed struct {
	net.Conn
	sum *atomic.Int64
}

func (w weighed) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	w.sum.Add(int64(n))
	return n, err
}

// newSSH starts an SSH server. It repeats the commands that it is told to run, until its input
// ends.
func newSSH(t *testing.T, names ...string) *sshOutside {
	t.Helper()
	o := &sshOutside{}
	signer := func() (ed25519.PrivateKey, ssh.Signer) {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		must(t, err)
		s, err := ssh.NewSignerFromKey(key)
		must(t, err)
		return key, s
	}
	mine, user := signer()
	_, o.host = signer()
	ring := agent.NewKeyring()
	must(t, ring.Add(agent.AddedKey{PrivateKey: mine}))
	dir := t.TempDir()
	o.agent, o.known = filepath.Join(dir, "agent"), filepath.Join(dir, "known_hosts")
	accept := func(l net.Listener, serve func(net.Conn)) {
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() { defer c.Close(); serve(c) }()
			}
		}()
	}
	a, err := net.Listen("unix", o.agent)
	must(t, err)
	accept(a, func(c net.Conn) { _ = agent.ServeAgent(ring, c) })
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, err)
	o.port = uint16(l.Addr().(*net.TCPAddr).Port)
	conf := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if !bytes.Equal(key.Marshal(), user.PublicKey().Marshal()) {
			return nil, errors.New("who is that?")
		}
		return nil, nil
	}}
	conf.AddHostKey(o.host)
	accept(l, func(c net.Conn) { o.serve(weighed{c, &o.sent}, conf) })
	var at []string
	for _, name := range names {
		at = append(at, knownhosts.Normalize(fmt.Sprintf("%s:%d", name, o.port)))
	}
	must(t, os.WriteFile(o.known, []byte(knownhosts.Line(at, o.host.PublicKey())+"\n"), 0o600))
	return o
}

func (o *sshOutside) note(what string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen = append(o.seen, what)
}

// came returns the commands that arrived since the last call.
func (o *sshOutside) came() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	list := o.seen
	o.seen = nil
	return list
}

// ended returns how many connections have ended.
func (o *sshOutside) ended() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.gone
}

func (o *sshOutside) serve(c net.Conn, conf *ssh.ServerConfig) {
	o.note("connection")
	conn, channels, requests, err := ssh.NewServerConn(c, conf)
	if err != nil {
		return
	}
	defer func() {
		_ = conn.Close()
		o.mu.Lock()
		defer o.mu.Unlock()
		o.gone++
	}()
	go ssh.DiscardRequests(requests)
	for n := range channels {
		ch, asked, err := n.Accept()
		if err != nil {
			return
		}
		go func() {
			for r := range asked {
				var m struct{ Command string }
				_ = r.Reply(true, nil)
				if r.Type != "exec" || ssh.Unmarshal(r.Payload, &m) != nil {
					o.note(r.Type)
					continue
				}
				o.note(conn.User() + " " + m.Command)
				go func() {
					_, _ = io.Copy(ch, ch)
					_, _ = ch.SendRequest("exit-status", false, ssh.Marshal(struct{ S uint32 }{0}))
					_ = ch.Close()
				}()
			}
		}()
	}
}

// lent returns the loans of the agent.
func (o *sshOutside) lent() []wire.Loan {
	return []wire.Loan{{Value: wire.Value(o.agent), Lease: spec.Lease{ID: "lease-ssh", Secret: "lent-ssh", Place: spec.Place{Kind: spec.PlaceAgent}}}}
}

func (o *sshOutside) knownHosts(c *Config) { c.KnownHosts = []string{o.known} }

// sshTo makes a program inside speak SSH with a name. Go's known_hosts takes '*' for port 22 alone;
// OpenSSH does not.
func (w *world) sshTo(t *testing.T, name string, port uint16) (ssh.Conn, error) {
	t.Helper()
	c, err := w.in.DialName(t.Context(), name, port)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(t.TempDir(), "known")
	must(t, os.WriteFile(path, w.KnownHosts(), 0o600))
	trusted, err := knownhosts.New(path)
	must(t, err)
	_ = c.SetDeadline(time.Now().Add(patience))
	conn, channels, requests, err := ssh.NewClientConn(c, name+":22", &ssh.ClientConfig{User: "git", HostKeyCallback: trusted})
	if err != nil {
		return nil, err
	}
	_ = c.SetDeadline(time.Time{})
	t.Cleanup(func() { conn.Close() })
	go ssh.DiscardRequests(requests)
	go func() {
		for n := range channels {
			_ = n.Reject(ssh.Prohibited, "")
		}
	}()
	return conn, nil
}

// ask starts a command and leaves it running.
func ask(t *testing.T, conn ssh.Conn, command string) (ssh.Channel, <-chan *ssh.Request) {
	t.Helper()
	ch, requests, err := conn.OpenChannel("session", nil)
	must(t, err)
	_, err = ch.SendRequest("exec", true, ssh.Marshal(struct{ S string }{command}))
	must(t, err)
	return ch, requests
}

// heard returns the whole result of a command whose input has ended.
func heard(ch ssh.Channel, requests <-chan *ssh.Request) (out, stderr string, status uint32) {
	_ = ch.CloseWrite()
	status = 12345
	done := make(chan struct{})
	go func() {
		defer close(done)
		b, _ := io.ReadAll(ch.Stderr())
		stderr = string(b)
	}()
	b, _ := io.ReadAll(ch)
	for r := range requests {
		if r.Type == "exit-status" {
			var m struct{ S uint32 }
			_ = ssh.Unmarshal(r.Payload, &m)
			status = m.S
		}
	}
	<-done
	return string(b), stderr, status
}

// TestA17GitOverSSH checks that only git passes over SSH, for the repositories of a rule (A17).
func TestA17GitOverSSH(t *testing.T) {
	o := newSSH(t, "git.example.com")
	w := start(t, document(t, 7, fmt.Sprintf("allow:\n  - {host: 'git.example.com:%d', git: [acme/app, 'public/*']}\n  - {host: 'git.example.com:%d', git: [acme/site], push: true}\n", o.port, o.port)),
		map[string][]string{"git.example.com": here}, o.knownHosts)
	must(t, w.SetLoans(o.lent()))
	do := func(command, stdin string) (string, string, uint32) {
		conn, err := w.sshTo(t, "git.example.com", o.port)
		must(t, err)
		defer conn.Close()
		ch, requests := ask(t, conn, command)
		_, _ = io.WriteString(ch, stdin)
		return heard(ch, requests)
	}
	for _, command := range []string{"git-upload-pack 'acme/app.git'", "git-upload-pack '/public/x'", "git-receive-pack 'acme/site'"} {
		if out, stderr, status := do(command, "hello"); out != "hello" || stderr != "" || status != 0 {
			t.Errorf("%s: %q, %q, %d", command, out, stderr, status)
		}
		if got := o.came(); len(got) < 2 || got[0] != "connection" || got[1] != "git "+command {
			t.Errorf("the server saw %q", got)
		}
	}
	r := w.record(t, "the fetch", func(r spec.NetworkRecord) bool { return r.Event == spec.NetworkRequest && r.Path == "/acme/app" })
	if r.Verdict != spec.VerdictAllow || r.Method != "git-upload-pack" || r.Protocol != "ssh" || r.Name != "git.example.com" || r.Up != 5 || r.Down != 5 ||
		!strings.Contains(r.Rule, "git acme/app public/*") || r.Generation != 7 {
		t.Errorf("%+v", r)
	}
	r = w.record(t, "the login", func(r spec.NetworkRecord) bool { return r.Event == spec.NetworkSecret })
	if r.Verdict != spec.VerdictAllow || r.Lease != "lease-ssh" || !strings.Contains(r.Reason, "signed the login of git") {
		t.Errorf("%+v", r)
	}
	o.came()
	for command, allowed := range map[string]string{
		"git-receive-pack 'acme/app'":      "--git acme/app --push",
		"git-upload-pack 'acme/other.git'": "--git acme/other",
		"git-upload-pack 'public/a/b'":     "--git public/a/b",
		"git-upload-pack '../acme/app'":    "",
		"git-upload-pack '-x/app'":         "",
		"git-upload-pack '~/app'":          "",
		"git-upload-pack 'acme/app'; id":   "",
		"id":                               "",
	} {
		out, stderr, status := do(command, "")
		if out != "" || status != 128 || !strings.HasPrefix(stderr, "bothy: ") || allowed != "" && !strings.Contains(stderr, fmt.Sprintf("bothy policy allow git.example.com:%d %s --sandbox box", o.port, allowed)) {
			t.Errorf("%s: %q, %q, %d", command, out, stderr, status)
		}
	}
	if got := o.came(); len(got) != 0 {
		t.Errorf("of what is refused the server saw %q", got)
	}
	r = w.record(t, "the push", func(r spec.NetworkRecord) bool { return r.Method == "git-receive-pack" && r.Path == "/acme/app" })
	if r.Verdict != spec.VerdictDeny || !strings.HasSuffix(r.Suggest, "--git acme/app --push --sandbox box") {
		t.Errorf("%+v", r)
	}
	w.record(t, "the shell command", func(r spec.NetworkRecord) bool { return r.Method == "exec id" && r.Verdict == spec.VerdictDeny })
}

// TestAgentSignsForNoGitServer checks that a connection to a server for git alone does not count as
// a connection for the agent. The agent would otherwise sign a login that the inside makes there on
// another way (C10).
func TestAgentSignsForNoGitServer(t *testing.T) {
	o := newSSH(t, "git.example.com", "plain.example.com")
	w := start(t, document(t, 1, fmt.Sprintf("allow: [{host: 'git.example.com:%d', git: [acme/app]}, 'plain.example.com:%d', 127.0.0.0/8]\n", o.port, o.port)),
		map[string][]string{"git.example.com": here, "plain.example.com": here}, o.knownHosts)
	must(t, w.SetLoans(o.lent()))
	for _, name := range []string{"git.example.com", "plain.example.com"} {
		c, err := w.in.DialName(t.Context(), name, o.port)
		must(t, err)
		defer c.Close()
	}
	var list []sshagent.Server
	eventually(t, "the connection", func() bool { list = w.agents.connected(); return len(list) > 0 })
	time.Sleep(50 * time.Millisecond)
	if list = w.agents.connected(); len(list) != 1 || list[0].Name != "plain.example.com" {
		t.Errorf("the agent would sign for %v", list)
	}
}

// TestStuckSSHIsNotAwaited checks that no SSH peer can delay the end of the sandbox.
func TestStuckSSHIsNotAwaited(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	came := make(chan error, 1)
	go func() { came <- awaitResult(ctx, done, time.Millisecond) }()
	select {
	case err := <-came:
		t.Errorf("it was not waited for: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	cancel()
	if err := <-came; !errors.Is(err, errStuck) {
		t.Error(err)
	}
	done <- io.EOF
	if err := awaitResult(ctx, done, time.Minute); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

// halfRead is a connection with a live far end. Its Read fails once it is reset.
type halfRead struct {
	relay.Conn
	over chan struct{}
}

func (h *halfRead) Read([]byte) (int, error)    { <-h.over; return 0, io.EOF }
func (h *halfRead) Write(p []byte) (int, error) { return len(p), nil }
func (h *halfRead) SetDeadline(time.Time) error { return nil }
func (h *halfRead) Reset()                      { close(h.over) }

// TestSSHKeepsItsPlace checks that a connection keeps its place while the library may still read
// it, but not for good: then it only holds its bytes until it ends.
func TestSSHKeepsItsPlace(t *testing.T) {
	b := held.New(mostHeld + leastHeld)
	watched := func() *watchedSSH {
		w, err := watchConn(&halfRead{over: make(chan struct{})}, b)
		must(t, err)
		return w
	}
	w := watched()
	_, _ = w.Write([]byte("SSH-2.0-x\r\n"))
	_, _ = w.Write([]byte("what it offers"))
	gone := make(chan struct{})
	go func() { w.endWithin(time.Minute); close(gone) }()
	select {
	case <-gone:
		t.Error("nobody has read to its end")
	case <-time.After(20 * time.Millisecond):
	}
	_, _ = w.Read(nil)
	<-gone
	early := watched()
	_, _ = early.Write([]byte("SSH-2.0-x\r\n"))
	early.endWithin(time.Minute) // the library does not read a connection that said no more
	if b.Used() != 0 {
		t.Errorf("%d bytes are held", b.Used())
	}
	never := watched()
	must(t, never.hold.Take(mostHeld))
	_, _ = never.Write(nil)
	_, _ = never.Write(nil)
	never.endWithin(time.Millisecond)
	if b.Used() != mostHeld+leastHeld {
		t.Errorf("%d bytes are held", b.Used())
	}
	if _, err := watchConn(&halfRead{}, b); !errors.Is(err, held.ErrFull) {
		t.Errorf("another has room: %v", err)
	}
	_, _ = never.Read(nil)
	eventually(t, "what was only late", func() bool { return b.Used() == 0 })
}

// TestSSHHoldsWhatComes checks that the bytes that the library may keep of a connection are held as
// they come, up to the maximum.
func TestSSHHoldsWhatComes(t *testing.T) {
	b := held.New(2*mostHeld + 3*leastHeld)
	server, client := net.Pipe()
	go func() { _, _ = io.Copy(client, zeros{}) }()
	w, err := watchConn(pipeConn{server}, b)
	must(t, err)
	_, err = io.CopyN(io.Discard, w, 100<<10)
	must(t, err)
	if n := b.Used(); n < leastHeld+100<<10 || n > leastHeld+200<<10 {
		t.Errorf("%d bytes are held of 100 KiB", n)
	}
	_, err = io.CopyN(io.Discard, w, 2*mostHeld)
	must(t, err)
	if n := b.Used(); n != leastHeld+mostHeld {
		t.Errorf("%d bytes are held of much", n)
	}
	must(t, b.Hold().Take(mostHeld))
	other, otherClient := net.Pipe()
	go func() { _, _ = io.Copy(otherClient, zeros{}) }()
	o, err := watchConn(pipeConn{other}, b)
	must(t, err)
	if _, err := io.CopyN(io.Discard, o, mostHeld); !errors.Is(err, held.ErrFull) || !o.isFull() {
		t.Errorf("without room: %v", err)
	}
	o.endWithin(time.Minute)
	w.endWithin(time.Minute)
	if b.Used() != mostHeld {
		t.Errorf("%d bytes are held in the end", b.Used())
	}
	_, _ = client.Close(), otherClient.Close()
}

// pipeConn is one end of a pipe.
type pipeConn struct{ net.Conn }

func (pipeConn) CloseWrite() error { return nil }
func (pipeConn) Await()            {}
func (p pipeConn) Reset()          { _ = p.Close() }

// TestNoRoomForSSH checks that SSH is refused if no memory is left for it.
func TestNoRoomForSSH(t *testing.T) {
	o := newSSH(t, "git.example.com")
	w := start(t, document(t, 1, fmt.Sprintf("allow: [{host: 'git.example.com:%d', git: [acme/app]}]\n", o.port)),
		map[string][]string{"git.example.com": here}, o.knownHosts)
	rest := w.ssh.Hold()
	must(t, rest.Take(heldBySSH))
	if _, err := w.sshTo(t, "git.example.com", o.port); err == nil {
		t.Error("it is spoken")
	}
	w.record(t, "why", func(r spec.NetworkRecord) bool { return strings.Contains(r.Reason, "start the sandbox again") })
	rest.Release()
	_, err := w.sshTo(t, "git.example.com", o.port)
	must(t, err)
}

// TestA18UploadBudgetOfGit checks that the bytes that git pushes are counted as SSH sends them, and
// cut off where their rule's budget ends (A18).
func TestA18UploadBudgetOfGit(t *testing.T) {
	const bound = 64 << 10
	o := newSSH(t, "git.example.com")
	w := start(t, document(t, 1, fmt.Sprintf("allow: [{host: 'git.example.com:%d', git: [acme/app], push: true, max_upload: 64KiB}]\n", o.port)),
		map[string][]string{"git.example.com": here}, o.knownHosts)
	must(t, w.SetLoans(o.lent()))
	push := func(much int) (string, uint32) {
		conn, err := w.sshTo(t, "git.example.com", o.port)
		must(t, err)
		defer conn.Close()
		ch, requests := ask(t, conn, "git-receive-pack 'acme/app'")
		_, _ = ch.Write(make([]byte, much))
		_, stderr, status := heard(ch, requests)
		return stderr, status
	}
	if stderr, status := push(1 << 10); status != 0 {
		t.Errorf("what there is room for: %q, %d", stderr, status)
	}
	if n := o.sent.Load(); n < 1<<10 || n > bound/2 {
		t.Errorf("%d bytes came", n)
	}
	if stderr, status := push(1 << 20); status != 128 || !strings.Contains(stderr, "--max-upload") {
		t.Errorf("a push beyond the budget: %q, %d", stderr, status)
	}
	if stderr, status := push(1); status != 128 || !strings.Contains(stderr, "--max-upload") {
		t.Errorf("with nothing left: %q, %d", stderr, status)
	}
	if n := o.sent.Load(); n > bound {
		t.Errorf("%d bytes came, of %d", n, bound)
	}
	w.record(t, "the push that was cut off", func(r spec.NetworkRecord) bool {
		return r.Event == spec.NetworkRequest && r.Method == "git-receive-pack" && r.Verdict == spec.VerdictDeny
	})
}

// TestA17NoTunnel checks that the ways out of SSH lead nowhere, whatever the rule says about
// repositories (A17).
func TestA17NoTunnel(t *testing.T) {
	o := newSSH(t, "git.example.com")
	w := start(t, document(t, 1, fmt.Sprintf("allow: [{host: 'git.example.com:%d', git: ['**'], push: true}]\n", o.port)),
		map[string][]string{"git.example.com": here}, o.knownHosts)
	must(t, w.SetLoans(o.lent()))
	conn, err := w.sshTo(t, "git.example.com", o.port)
	must(t, err)
	opened, asked := make(chan ssh.NewChannel), make(chan *ssh.Request)
	defer close(opened)
	defer close(asked)
	client := ssh.NewClient(conn, opened, asked)
	if c, err := client.Dial("tcp", "169.254.169.254:80"); err == nil {
		c.Close()
		t.Error("-L and -D: connected")
	}
	if l, err := client.Listen("tcp", "0.0.0.0:2222"); err == nil {
		l.Close()
		t.Error("-R: listens")
	}
	if l, err := client.ListenUnix("/tmp/x"); err == nil {
		l.Close()
		t.Error("-R of a socket: listens")
	}
	if _, _, err := conn.OpenChannel("tun@openssh.com", nil); err == nil {
		t.Error("-w: opened")
	}
	if got := o.came(); len(got) != 0 {
		t.Errorf("the server saw %q", got)
	}
	for _, what := range []string{"direct-tcpip", "tcpip-forward", "streamlocal-forward@openssh.com", "tun@openssh.com"} {
		r := w.record(t, what, func(r spec.NetworkRecord) bool { return r.Method == what })
		if r.Verdict != spec.VerdictDeny || r.Protocol != "ssh" || r.Event != spec.NetworkRequest || r.Reason == "" {
			t.Errorf("%+v", r)
		}
	}
}

// TestSSHWithoutGitPasses checks that a rule for the port without repositories works as before: the
// connection is not inspected.
func TestSSHWithoutGitPasses(t *testing.T) {
	o := newSSH(t, "git.example.com")
	w := start(t, rules(t, 1, "allow git.example.com", "allow 127.0.0.0/8"), map[string][]string{"git.example.com": here}, o.knownHosts)
	c, err := w.in.DialName(t.Context(), "git.example.com", o.port)
	must(t, err)
	var key ssh.PublicKey
	_, _, _, err = ssh.NewClientConn(c, "git.example.com:22", &ssh.ClientConfig{User: "git", HostKeyCallback: func(_ string, _ net.Addr, k ssh.PublicKey) error {
		key = k
		return errors.New("seen")
	}})
	if err == nil || key == nil || !bytes.Equal(key.Marshal(), o.host.PublicKey().Marshal()) {
		t.Errorf("%v, %v", err, key)
	}
}

// TestGitWithoutAgent checks that a login without a key is refused, and that the refusal names the
// remedy.
func TestGitWithoutAgent(t *testing.T) {
	o := newSSH(t, "git.example.com")
	w := start(t, document(t, 1, fmt.Sprintf("allow: [{host: 'git.example.com:%d', git: [acme/app]}]\n", o.port)), map[string][]string{"git.example.com": here}, o.knownHosts)
	conn, err := w.sshTo(t, "git.example.com", o.port)
	must(t, err)
	_, stderr, status := heard(ask(t, conn, "git-upload-pack 'acme/app'"))
	if status != 128 || !strings.Contains(stderr, "bothy run --name box --lend ssh") || len(o.came()) != 0 {
		t.Errorf("%q, %d", stderr, status)
	}
	w.record(t, "the refusal", func(r spec.NetworkRecord) bool {
		return r.Verdict == spec.VerdictDeny && r.Path == "/acme/app" && strings.Contains(r.Suggest, "--lend ssh")
	})
}

// TestGitEndsWithRuleAndLease checks that active commands end with their rule, with the lease, and
// with its time.
func TestGitEndsWithRuleAndLease(t *testing.T) {
	o := newSSH(t, "git.example.com")
	yaml := fmt.Sprintf("allow: [{host: 'git.example.com:%d', git: [acme/app]}, {host: 'git.example.com:%d', git: [acme/other]}]\n", o.port, o.port)
	for what, change := range map[string]func(w *world){
		"the policy changed": func(w *world) { w.SetPolicy(document(t, 2, strings.Replace(yaml, "acme/app", "acme/apple", 1))) },
		"not lent any more":  func(w *world) { must(t, w.SetLoans(nil)) },
		"SSH agent is not": func(w *world) {
			ends := o.lent()
			ends[0].Until = time.Now().Add(300 * time.Millisecond)
			must(t, w.SetLoans(ends))
		},
		"a deny that is HTTP's": func(w *world) {
			w.SetPolicy(document(t, 2, yaml+"deny: [{host: git.example.com, methods: [DELETE]}]\n"))
		},
	} {
		w := start(t, document(t, 1, yaml), map[string][]string{"git.example.com": here}, o.knownHosts)
		must(t, w.SetLoans(o.lent()))
		conn, err := w.sshTo(t, "git.example.com", o.port)
		must(t, err)
		ch, _ := ask(t, conn, "git-upload-pack 'acme/app'")
		_, err = io.WriteString(ch, "x")
		must(t, err)
		_, err = io.ReadFull(ch, make([]byte, 1))
		must(t, err)
		if n := len(w.Flows()); n != 1 {
			t.Fatalf("%d flows", n)
		}
		// A byte is counted when it is sent, and may be back by then.
		eventually(t, what+": what was sent to be counted", func() bool { return w.Flows()[0].Up == 1 })
		before := o.ended()
		change(w)
		gone := make(chan struct{})
		go func() { _ = conn.Wait(); close(gone) }()
		select {
		case <-gone:
		case <-time.After(patience):
			t.Fatalf("%s: it goes on", what)
		}
		r := w.record(t, what, func(r spec.NetworkRecord) bool { return r.Event == spec.NetworkRequest })
		if reason := map[bool]string{true: "policy changed", false: what}[strings.HasPrefix(what, "a deny")]; r.Verdict != spec.VerdictDeny || !strings.Contains(r.Reason, reason) || r.Up != 1 {
			t.Errorf("%s: %+v", what, r)
		}
		eventually(t, what+": the connection at the server to end", func() bool { return o.ended() != before })
		w.Close()
	}
}

// TestGitAddressIsJudged checks that the address of an allowed name is judged for SSH as for all
// else, and not revealed inside.
func TestGitAddressIsJudged(t *testing.T) {
	o := newSSH(t, "git.example.com")
	p := document(t, 1, fmt.Sprintf("allow: [{host: 'git.example.com:%d', git: [acme/app]}]\n", o.port))
	w := start(t, p, map[string][]string{"git.example.com": {"10.1.2.3"}}, o.knownHosts)
	must(t, w.SetLoans(o.lent()))
	conn, err := w.sshTo(t, "git.example.com", o.port)
	must(t, err)
	_, stderr, status := heard(ask(t, conn, "git-upload-pack 'acme/app'"))
	if status != 128 || !strings.Contains(stderr, "closed to sandboxes") || strings.Contains(stderr, "10.1.2.3") {
		t.Errorf("%q, %d", stderr, status)
	}
	w.record(t, "the refusal", func(r spec.NetworkRecord) bool {
		return r.Event == spec.NetworkRequest && r.Verdict == spec.VerdictDeny && strings.Contains(r.Reason, "10.1.2.3")
	})
	if got := o.came(); len(got) != 0 {
		t.Errorf("the server saw %q", got)
	}
}

// TestGitBesideHTTP checks a port with rules about HTTP, too: each protocol works.
func TestGitBesideHTTP(t *testing.T) {
	o := newSSH(t, "git.example.com")
	w := start(t, document(t, 1, fmt.Sprintf("allow: [{host: 'git.example.com:%d', git: [acme/app]}, {host: git.example.com, methods: [GET], paths: [/x]}]\n", o.port)),
		map[string][]string{"git.example.com": here}, o.knownHosts)
	must(t, w.SetLoans(o.lent()))
	conn, err := w.sshTo(t, "git.example.com", o.port)
	must(t, err)
	if _, stderr, status := heard(ask(t, conn, "git-upload-pack 'acme/app'")); status != 0 {
		t.Errorf("%q, %d", stderr, status)
	}
	status, text, _ := fetch(t, w.client(t, false), http.MethodPost, fmt.Sprintf("http://git.example.com:%d/x", o.port), nil)
	if status != http.StatusForbidden {
		t.Errorf("%d %s", status, text)
	}
	c, err := w.in.DialName(t.Context(), "git.example.com", o.port)
	must(t, err)
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	b := make([]byte, 4) // a silent client gets the greeting of an SSH server
	if _, err := io.ReadFull(c, b); err != nil || string(b) != "SSH-" {
		t.Errorf("%q, %v", b, err)
	}
}

// TestManyGits checks that a new connection is turned away rather than taking the place of a
// working one.
func TestManyGits(t *testing.T) {
	o := newSSH(t, "git.example.com")
	w := start(t, document(t, 1, fmt.Sprintf("allow: [{host: 'git.example.com:%d', git: [acme/app]}]\n", o.port)), map[string][]string{"git.example.com": here}, o.knownHosts)
	for range maxGits {
		_, err := w.sshTo(t, "git.example.com", o.port)
		must(t, err)
	}
	if _, err := w.sshTo(t, "git.example.com", o.port); err == nil {
		t.Error("one more")
	}
	w.record(t, "the refusal", func(r spec.NetworkRecord) bool { return strings.Contains(r.Reason, "looked into already") })
}

// TestKnownHostsAreKept checks that a server's key, as the sandbox knows it, is kept with the
// sandbox's authority.
func TestKnownHostsAreKept(t *testing.T) {
	first := start(t, rules(t, 1), nil)
	second := start(t, rules(t, 1), nil, func(c *Config) { c.Identity = first.Identity() })
	third := start(t, rules(t, 1), nil)
	if !bytes.Equal(first.KnownHosts(), second.KnownHosts()) || bytes.Equal(first.KnownHosts(), third.KnownHosts()) {
		t.Errorf("%s, %s, %s", first.KnownHosts(), second.KnownHosts(), third.KnownHosts())
	}
}

// TestGitAtPrivateAddress checks that a rule about git opens a server's private address only for
// git that it lets through: for no other SSH and no other repository, whatever the name's rule
// says.
func TestGitAtPrivateAddress(t *testing.T) {
	o := newSSH(t, "git.example.com")
	f, err := policyfile.Decode([]byte(fmt.Sprintf("version: 1\nallow: [{host: 'git.example.com:%d', git: ['**']}, {host: '127.0.0.1:%d', git: [acme/app]}]\n", o.port, o.port)))
	must(t, err)
	p, err := policy.Compile(1, policy.Input{Layer: policy.LayerUser, Block: f.Block})
	must(t, err)
	w := start(t, p, map[string][]string{"git.example.com": here}, o.knownHosts)
	must(t, w.SetLoans(o.lent()))
	for command, want := range map[string]uint32{"git-upload-pack 'acme/app'": 0, "git-upload-pack 'acme/other'": 128} {
		o.came()
		conn, err := w.sshTo(t, "git.example.com", o.port)
		must(t, err)
		_, stderr, status := heard(ask(t, conn, command))
		conn.Close()
		if status != want || (len(o.came()) > 0) != (want == 0) || want != 0 && !strings.Contains(stderr, "closed to sandboxes") {
			t.Errorf("%s: %q, %d", command, stderr, status)
		}
	}
	r := w.record(t, "the refusal", func(r spec.NetworkRecord) bool { return r.Path == "/acme/other" })
	if r.Verdict != spec.VerdictDeny || !strings.Contains(r.Suggest, fmt.Sprintf("bothy policy allow 127.0.0.1:%d --git acme/other", o.port)) && !strings.Contains(r.Reason, "127.0.0.1") {
		t.Errorf("%+v", r)
	}
}
