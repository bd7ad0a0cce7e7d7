package gitssh

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/bothy-dev/bothy/internal/gateway/relay"
	"github.com/bothy-dev/bothy/internal/gateway/sshagent"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newSigner(t testing.TB) (ed25519.PrivateKey, ssh.Signer) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	s, err := ssh.NewSignerFromKey(key)
	must(t, err)
	return key, s
}

// world is a server outside, its records, and our own server before it.
type world struct {
	*Server
	ours *Key
	ring agent.Agent
	host ssh.Signer // the server's key
	at   string     // where it listens
	run  func(w *world, command string, ch ssh.Channel, conn ssh.Conn) uint32
	dir  string

	authority ssh.PublicKey // certifies the server

	mu      sync.Mutex
	reached int      // connections to the server
	seen    []string // its record: user, variables, commands
	refused []string
	logins  []Login
	asked   []Command
	ended   []error
	deny    error // the error of Ask
	served  []error
	chatter int // requests that the server makes on a channel; then it answers none
}

const serverName = "git.example.com"

// newWorld makes a world whose server runs run.
func newWorld(t *testing.T, run func(w *world, command string, ch ssh.Channel, conn ssh.Conn) uint32) *world {
	t.Helper()
	w := &world{ring: agent.NewKeyring(), run: run, dir: t.TempDir()}
	mine, _ := newSigner(t)
	_, w.host = newSigner(t)
	must(t, w.ring.Add(agent.AddedKey{PrivateKey: mine}))
	w.knows(t, w.host.PublicKey())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var wg sync.WaitGroup
	t.Cleanup(func() { l.Close(); wg.Wait() })
	w.at = l.Addr().String()
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { w.outside(c) })
		}
	})
	secret := make([]byte, 32)
	_, _ = rand.Read(secret)
	w.ours, err = NewKey(secret, time.Now)
	must(t, err)
	w.Server = &Server{
		Name: serverName, Port: 22, Key: w.ours, Counts: &relay.Counts{},
		Known: func() (*sshagent.Known, error) {
			return sshagent.ReadKnown([]string{filepath.Join(w.dir, "known_hosts")})
		},
		Refused: func(what string) { w.note(&w.refused, what) },
		Signed: func(l Login) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.logins = append(w.logins, l)
		},
		Reach: func(ctx context.Context) (net.Conn, error) {
			w.mu.Lock()
			w.reached++
			w.mu.Unlock()
			return (&net.Dialer{}).DialContext(ctx, "tcp", w.at)
		},
		Agent: func(context.Context) (net.Conn, error) {
			a, b := net.Pipe()
			wg.Go(func() { _ = agent.ServeAgent(w.ring, a); a.Close() })
			return b, nil
		},
		Ask: func(c Command) (func(error) error, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.asked = append(w.asked, c)
			if w.deny != nil {
				return nil, w.deny
			}
			return func(err error) error {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.ended = append(w.ended, err)
				return err
			}, nil
		},
	}
	return w
}

func (w *world) note(list *[]string, what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*list = append(*list, what)
}

// knows makes the host know the server by a key.
func (w *world) knows(t *testing.T, key ssh.PublicKey) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(w.dir, "known_hosts"), []byte(knownhosts.Line([]string{knownhosts.HashHostname(serverName)}, key)+"\n"), 0o600))
}

// outside is the server.
func (w *world) outside(c net.Conn) {
	defer c.Close()
	conf := &ssh.ServerConfig{PublicKeyCallback: func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) { return nil, nil }}
	w.mu.Lock()
	conf.AddHostKey(w.host)
	w.mu.Unlock()
	conn, channels, requests, err := ssh.NewServerConn(c, conf)
	if err != nil {
		return
	}
	defer conn.Close()
	w.note(&w.seen, "login "+conn.User())
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		for r := range requests {
			w.note(&w.seen, "global "+r.Type)
			_ = r.Reply(true, nil)
		}
	})
	for n := range channels {
		w.note(&w.seen, "channel "+n.ChannelType())
		ch, asked, err := n.Accept()
		if err != nil {
			return
		}
		for range w.chatter {
			_, _ = ch.SendRequest("exit-hum", false, nil)
		}
		if w.chatter > 0 {
			wg.Go(func() { ssh.DiscardRequests(silent(asked)) })
			continue
		}
		wg.Go(func() {
			for r := range asked {
				var v struct{ A, B string }
				var m struct{ Command string }
				switch {
				case ssh.Unmarshal(r.Payload, &m) == nil:
					w.note(&w.seen, r.Type+" "+m.Command)
				case ssh.Unmarshal(r.Payload, &v) == nil:
					w.note(&w.seen, r.Type+" "+v.A+"="+v.B)
				default:
					w.note(&w.seen, r.Type)
				}
				_ = r.Reply(true, nil)
				if r.Type == "exec" {
					wg.Go(func() {
						code := w.run(w, m.Command, ch, conn)
						_ = ch.CloseWrite()
						_, _ = ch.SendRequest("exit-status", false, ssh.Marshal(struct{ S uint32 }{code}))
						_ = ch.Close()
					})
				}
			}
		})
	}
}

// silent takes requests, and hands none on.
func silent(asked <-chan *ssh.Request) <-chan *ssh.Request {
	none := make(chan *ssh.Request)
	go func() {
		defer close(none)
		for range asked {
		}
	}()
	return none
}

// TestServerAnswersNothing checks that a server that only sends requests and answers nothing is
// waited for as long as the program inside waits, and no longer.
func TestServerAnswersNothing(t *testing.T) {
	w := newWorld(t, repeat)
	w.chatter = 40 // more than the library takes without a reader
	conn := w.connect(t)
	ch, _, err := conn.OpenChannel("session", nil)
	must(t, err)
	_, err = ch.SendRequest("exec", true, ssh.Marshal(struct{ S string }{"git-upload-pack 'a/b'"}))
	must(t, err)
	w.until(func() bool { return slices.Contains(w.seen, "channel session") })
	time.Sleep(50 * time.Millisecond)
	conn.Close()
	w.ends(t, "it still waits for the server")
}

// until waits until a condition on the records is true, for a minute at most.
func (w *world) until(is func() bool) bool {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		w.mu.Lock()
		now := is()
		w.mu.Unlock()
		if now {
			return true
		}
	}
	return false
}

// ends waits until a connection is over.
func (w *world) ends(t *testing.T, otherwise string) {
	t.Helper()
	if !w.until(func() bool { return len(w.served) > 0 }) {
		t.Error(otherwise)
	}
}

// connect returns the SSH connection of a program inside that trusts the right authority.
func (w *world) connect(t *testing.T) ssh.Conn {
	t.Helper()
	conn, channels, requests, err := ssh.NewClientConn(w.dial(t), serverName+":22", w.client(t))
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	go ssh.DiscardRequests(requests)
	go turnAway(channels)
	return conn
}

func (w *world) client(t *testing.T) *ssh.ClientConfig {
	t.Helper()
	path := filepath.Join(t.TempDir(), "known")
	must(t, os.WriteFile(path, w.ours.KnownHosts(), 0o600))
	trusted, err := knownhosts.New(path)
	must(t, err)
	return &ssh.ClientConfig{User: "git", HostKeyCallback: trusted}
}

// dial connects to the server under test.
func (w *world) dial(t *testing.T) net.Conn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	in, err := net.Dial("tcp", l.Addr().String())
	must(t, err)
	c, err := l.Accept()
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		err := w.Serve(ctx, c)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.served = append(w.served, err)
	}()
	t.Cleanup(func() { in.Close(); cancel(); <-over })
	return in
}

// said is the result of a command as a program inside sees it.
type said struct {
	out, err string
	status   uint32
	signal   string
}

// exec asks for a command, and returns its result.
func exec(t *testing.T, conn ssh.Conn, kind, what, stdin string, before ...func(ssh.Channel)) said {
	t.Helper()
	ch, requests, err := conn.OpenChannel("session", nil)
	must(t, err)
	for _, f := range before {
		f(ch)
	}
	var payload []byte
	if kind != "shell" {
		payload = ssh.Marshal(struct{ S string }{what})
	}
	if ok, err := ch.SendRequest(kind, true, payload); !ok || err != nil {
		t.Fatalf("%s %q: %v, %v", kind, what, ok, err)
	}
	go func() { _, _ = io.WriteString(ch, stdin); _ = ch.CloseWrite() }()
	s := said{status: 12345}
	var wg sync.WaitGroup
	wg.Go(func() { b, _ := io.ReadAll(ch); s.out = string(b) })
	var text []byte
	wg.Go(func() { text, _ = io.ReadAll(ch.Stderr()) })
	for r := range requests {
		switch r.Type {
		case "exit-status":
			var m struct{ S uint32 }
			_ = ssh.Unmarshal(r.Payload, &m)
			s.status = m.S
		case "exit-signal":
			s.signal = string(r.Payload)
		}
	}
	wg.Wait()
	s.err = string(text)
	return s
}

// repeat is a command that repeats its input once that has ended.
func repeat(_ *world, command string, ch ssh.Channel, _ ssh.Conn) uint32 {
	b, _ := io.ReadAll(ch)
	fmt.Fprintf(ch.Stderr(), "ran %s\n", command)
	_, _ = ch.Write(b)
	return 3
}

func TestGitPasses(t *testing.T) {
	w := newWorld(t, repeat)
	text := strings.Repeat("0123456789abcdef", 1<<17)
	got := exec(t, w.connect(t), "exec", "git-upload-pack 'acme/app.git'", text, func(ch ssh.Channel) {
		for _, v := range [][2]string{{"GIT_PROTOCOL", "version=2"}, {"LANG", "C"}, {"LC_ALL", "C"}} {
			ok, err := ch.SendRequest("env", true, ssh.Marshal(struct{ N, V string }{v[0], v[1]}))
			if err != nil || ok != (v[0] == "GIT_PROTOCOL") {
				t.Errorf("%v: %v, %v", v, ok, err)
			}
		}
	})
	if got.out != text || got.err != "ran git-upload-pack 'acme/app.git'\n" || got.status != 3 {
		t.Errorf("%d bytes, %q, %d", len(got.out), got.err, got.status)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if want := []string{"login git", "channel session", "env GIT_PROTOCOL=version=2", "exec git-upload-pack 'acme/app.git'"}; !slices.Equal(w.seen, want) {
		t.Errorf("the server saw %q", w.seen)
	}
	if len(w.refused) != 0 || len(w.ended) != 1 || w.ended[0] != nil || w.Counts.Up.Load() != int64(len(text)) || w.Counts.Down.Load() != int64(len(got.out)+len(got.err)) {
		t.Errorf("refused %q, ended %v, %d bytes up, %d down", w.refused, w.ended, w.Counts.Up.Load(), w.Counts.Down.Load())
	}
	if len(w.logins) != 1 || w.logins[0].User != "git" || !strings.HasPrefix(w.logins[0].Key, "SHA256:") || w.logins[0].Err != nil {
		t.Errorf("logins %v", w.logins)
	}
}

// TestA17NothingElsePasses checks that no other use of SSH reaches the server, and that each is
// logged (A17).
func TestA17NothingElsePasses(t *testing.T) {
	never := func(w *world, command string, _ ssh.Channel, _ ssh.Conn) uint32 {
		w.note(&w.seen, "ran "+command)
		return 0
	}
	text := func(s string) []byte { return ssh.Marshal(struct{ S string }{s}) }
	forward := ssh.Marshal(struct {
		A string
		P uint32
	}{"0.0.0.0", 2222})
	direct := ssh.Marshal(struct {
		A string
		P uint32
		B string
		Q uint32
	}{"169.254.169.254", 80, "127.0.0.1", 1})
	for _, what := range []string{
		"global tcpip-forward", "global cancel-tcpip-forward", "global streamlocal-forward@openssh.com", "global hostkeys-prove-00@openssh.com", "global something",
		"channel direct-tcpip", "channel forwarded-tcpip", "channel direct-streamlocal@openssh.com", "channel tun@openssh.com", "channel x11", "channel auth-agent@openssh.com", "channel something",
		"request pty-req", "request x11-req", "request auth-agent-req@openssh.com", "request something",
		"env LD_PRELOAD=/tmp/x", "env GIT_SSH=/tmp/x", "env GIT_PROTOCOL=version=2; id", "env GIT_PROTOCOL=", "env GIT_CONFIG_COUNT=1",
		"shell ", "subsystem sftp", "exec ls -la", "exec git-upload-archive 'acme/app'", "exec git upload-pack 'acme/app'", "exec git-lfs-authenticate acme/app upload",
		"exec git-upload-pack 'a/b'; id", "exec git-upload-pack 'a/b'\nid", "exec ", "exec scp -t /tmp/x",
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t, never)
			conn := w.connect(t)
			kind, name, _ := strings.Cut(what, " ")
			told := name
			switch kind {
			case "global":
				if ok, _, err := conn.SendRequest(name, true, forward); ok || err != nil {
					t.Errorf("%v, %v", ok, err)
				}
			case "channel":
				_, _, err := conn.OpenChannel(name, direct)
				var no *ssh.OpenChannelError
				if !errors.As(err, &no) || no.Reason != ssh.Prohibited {
					t.Errorf("%v", err)
				}
			case "request", "env":
				ch, _, err := conn.OpenChannel("session", nil)
				must(t, err)
				payload := text("xterm")
				if key, value, ok := strings.Cut(name, "="); ok {
					payload, told, name = ssh.Marshal(struct{ N, V string }{key, value}), "env "+key, "env"
				}
				if ok, err := ch.SendRequest(name, true, payload); ok || err != nil {
					t.Errorf("%v, %v", ok, err)
				}
			default:
				got := exec(t, conn, kind, name, "")
				if got.out != "" || got.status != 128 || !strings.HasPrefix(got.err, "bothy: ") || !strings.Contains(got.err, "git-upload-pack 'REPOSITORY'") {
					t.Errorf("%+v", got)
				}
				told = strings.TrimSpace(kind + " " + printable(name))
				if kind != "exec" {
					told = kind
				}
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			if len(w.refused) != 1 || strings.TrimSpace(w.refused[0]) != told || w.reached != 0 || len(w.asked) != 0 {
				t.Errorf("told of %q, not of %q; the server was reached %d times, asked is %v", w.refused, told, w.reached, w.asked)
			}
		})
	}
}

// TestA17OneCommand checks that no second command, or session, follows the first.
func TestA17OneCommand(t *testing.T) {
	w := newWorld(t, func(_ *world, _ string, ch ssh.Channel, _ ssh.Conn) uint32 { _, _ = io.Copy(io.Discard, ch); return 0 })
	conn := w.connect(t)
	ch, _, err := conn.OpenChannel("session", nil)
	must(t, err)
	ask := func(text string) bool {
		ok, err := ch.SendRequest("exec", true, ssh.Marshal(struct{ S string }{text}))
		must(t, err)
		return ok
	}
	if !ask("git-upload-pack 'a/b'") || ask("git-upload-pack 'a/c'") || ask("id") {
		t.Error("a second command")
	}
	if _, _, err := conn.OpenChannel("session", nil); err == nil {
		t.Error("a second session")
	}
	w.until(func() bool { return len(w.asked) > 0 }) // besides the answer that it has begun
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Equal(w.refused, []string{"a second exec", "a second exec", "a second session"}) || len(w.asked) != 1 {
		t.Errorf("refused %q, asked %v", w.refused, w.asked)
	}
}

// TestUsers checks that the policy is asked about the user of a login, if that is a valid name.
func TestUsers(t *testing.T) {
	for user, fine := range map[string]bool{"gitea": true, "-oProxyCommand=x": false} {
		w := newWorld(t, repeat)
		conf := w.client(t)
		conf.User = user
		conn, channels, requests, err := ssh.NewClientConn(w.dial(t), serverName+":22", conf)
		must(t, err)
		t.Cleanup(func() { conn.Close() })
		go ssh.DiscardRequests(requests)
		go turnAway(channels)
		got := exec(t, conn, "exec", "git-upload-pack 'acme/app'", "hello")
		w.mu.Lock()
		if (len(w.asked) == 1 && w.asked[0].User == user && got.out == "hello" && w.seen[0] == "login "+user) != fine || len(w.asked) > 0 != fine {
			t.Errorf("%s: asked %v, %+v, the server saw %q", user, w.asked, got, w.seen)
		}
		w.mu.Unlock()
	}
}

// TestRefusedCommand checks that a refused client gets the reason, and that nothing is dialled.
func TestRefusedCommand(t *testing.T) {
	w := newWorld(t, repeat)
	w.deny = errors.New("no rule allows it.\nMore: elsewhere")
	got := exec(t, w.connect(t), "exec", "git-receive-pack 'acme/app'", "")
	if got.status != 128 || got.err != "bothy: no rule allows it.\r\nbothy: More: elsewhere\r\n" || w.reached != 0 {
		t.Errorf("%+v, reached %d times", got, w.reached)
	}
}

// TestServersKey checks that no login is sent to a server that the host does not know, or knows by
// another key.
func TestServersKey(t *testing.T) {
	_, other := newSigner(t)
	for want, change := range map[string]func(w *world){
		"does not know the key of git.example.com:22": func(w *world) {
			must(t, os.WriteFile(filepath.Join(w.dir, "known_hosts"), []byte(knownhosts.Line([]string{"other.example.com"}, w.host.PublicKey())+"\n"), 0o600))
		},
		"is not the one the host knows":    func(w *world) { w.knows(t, other.PublicKey()) },
		"there is none in its known_hosts": func(w *world) { must(t, os.Remove(filepath.Join(w.dir, "known_hosts"))) },
		"the host's SSH agent has no key":  func(w *world) { must(t, w.ring.RemoveAll()) },
		"the agent went away": func(w *world) {
			w.Agent = func(context.Context) (net.Conn, error) { return nil, errors.New("the agent went away") }
		},
		"git.example.com cannot be reached": func(w *world) {
			w.Reach = func(context.Context) (net.Conn, error) { return nil, errors.New("git.example.com cannot be reached") }
		},
		"no common algorithm for host key":                func(w *world) { w.knows(t, rsaKey(t)) },
		"ssh: cert has expired":                           func(w *world) { w.vouch(t, -time.Hour) },
		"no authorities for hostname: git.example.com:22": func(w *world) { w.vouch(t, time.Hour); w.knowsAuthority(t, "other.example.com") },
	} {
		t.Run(want, func(t *testing.T) {
			w := newWorld(t, repeat)
			change(w)
			got := exec(t, w.connect(t), "exec", "git-upload-pack 'acme/app'", "")
			if got.status != 128 || !strings.Contains(got.err, want) {
				t.Errorf("%+v", got)
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			if len(w.seen) != 0 || len(w.logins) != 0 || len(w.ended) != 1 || w.ended[0] == nil {
				t.Errorf("the server saw %q, logins %v, ended %v", w.seen, w.logins, w.ended)
			}
		})
	}
	w := newWorld(t, repeat)
	w.vouch(t, time.Hour)
	if got := exec(t, w.connect(t), "exec", "git-upload-pack 'acme/app'", "hello"); got.out != "hello" {
		t.Errorf("with a certificate: %+v", got)
	}
}

func rsaKey(t *testing.T) ssh.PublicKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, err)
	public, err := ssh.NewPublicKey(&key.PublicKey)
	must(t, err)
	return public
}

// vouch gives the server a certificate of an authority that the host knows. The certificate ends
// after a time.
func (w *world) vouch(t *testing.T, end time.Duration) {
	t.Helper()
	_, authority := newSigner(t)
	cert := &ssh.Certificate{
		Key: w.host.PublicKey(), CertType: ssh.HostCert, ValidPrincipals: []string{serverName},
		ValidBefore: uint64(time.Now().Add(end).Unix()),
	}
	must(t, cert.SignCert(rand.Reader, authority))
	s, err := ssh.NewCertSigner(cert, w.host)
	must(t, err)
	w.authority = authority.PublicKey()
	w.knowsAuthority(t, "*.example.com")
	w.mu.Lock()
	defer w.mu.Unlock()
	w.host = s
}

func (w *world) knowsAuthority(t *testing.T, pattern string) {
	t.Helper()
	_, plain := newSigner(t) // so that the server is known at all
	must(t, os.WriteFile(filepath.Join(w.dir, "known_hosts"), []byte(
		"@cert-authority "+knownhosts.Line([]string{pattern}, w.authority)+"\n@cert-authority "+knownhosts.Line([]string{serverName}, plain.PublicKey())+"\n"), 0o600))
}

// TestServerAsksBack checks that the server's own requests are refused, too, and that the end of
// the command is passed on.
func TestServerAsksBack(t *testing.T) {
	var opened []error
	w := newWorld(t, func(_ *world, _ string, ch ssh.Channel, conn ssh.Conn) uint32 {
		for _, kind := range []string{"auth-agent@openssh.com", "forwarded-tcpip", "x11", "session"} {
			_, _, err := conn.OpenChannel(kind, nil)
			opened = append(opened, err)
		}
		ok, _, err := conn.SendRequest("hostkeys-00@openssh.com", true, nil)
		if ok {
			err = errors.New("it said yes")
		}
		opened = append(opened, err)
		_, _ = ch.SendRequest("exit-signal", false, []byte("as it came"))
		return 0
	})
	got := exec(t, w.connect(t), "exec", "git-upload-pack 'a/b'", "")
	if len(opened) != 5 || opened[4] != nil {
		t.Errorf("%v", opened)
	}
	for _, err := range opened[:4] {
		if err == nil {
			t.Error("a channel of the server's was opened")
		}
	}
	if got.status != 0 || got.err != "" {
		t.Errorf("%+v", got)
	}
}

func TestExitSignal(t *testing.T) {
	w := newWorld(t, func(_ *world, _ string, ch ssh.Channel, _ ssh.Conn) uint32 {
		_, _ = ch.SendRequest("exit-signal", false, []byte("as it came"))
		_ = ch.Close()
		return 0
	})
	if got := exec(t, w.connect(t), "exec", "git-upload-pack 'a/b'", ""); got.signal != "as it came" || got.status != 12345 {
		t.Errorf("%+v", got)
	}
}

// TestServerGoesAway checks that a server that goes away reports it.
func TestServerGoesAway(t *testing.T) {
	w := newWorld(t, func(_ *world, _ string, ch ssh.Channel, conn ssh.Conn) uint32 {
		_, _ = io.WriteString(ch, "half")
		_ = conn.Close()
		return 0
	})
	got := exec(t, w.connect(t), "exec", "git-upload-pack 'a/b'", "")
	if got.out != "half" || got.status != 128 || !strings.Contains(got.err, errBroken.Error()) {
		t.Errorf("%+v", got)
	}
}

// TestBackPressure checks that output that the inside does not read waits at the server, and that a
// client that goes away takes the server's connection along.
func TestBackPressure(t *testing.T) {
	gone := make(chan int64, 1)
	w := newWorld(t, func(_ *world, _ string, ch ssh.Channel, _ ssh.Conn) uint32 {
		n, _ := io.Copy(ch, rand.Reader)
		gone <- n
		return 0
	})
	conn := w.connect(t)
	ch, _, err := conn.OpenChannel("session", nil)
	must(t, err)
	_, err = ch.SendRequest("exec", true, ssh.Marshal(struct{ S string }{"git-upload-pack 'a/b'"}))
	must(t, err)
	time.Sleep(time.Second)
	conn.Close()
	select {
	case n := <-gone:
		if n > 16<<20 {
			t.Errorf("%d bytes were sent to who does not read", n)
		}
	case <-time.After(time.Minute):
		t.Error("the connection to the server outlives the program inside")
	}
}

// TestSessionIsClosed checks that closing only the session ends the command.
func TestSessionIsClosed(t *testing.T) {
	gone := make(chan struct{})
	w := newWorld(t, func(_ *world, _ string, ch ssh.Channel, conn ssh.Conn) uint32 {
		_, _ = io.WriteString(ch, "x")
		_ = conn.Wait() // and ignores the end of its input
		close(gone)
		return 0
	})
	ch, _, err := w.connect(t).OpenChannel("session", nil)
	must(t, err)
	_, err = ch.SendRequest("exec", true, ssh.Marshal(struct{ S string }{"git-upload-pack 'a/b'"}))
	must(t, err)
	_, err = io.ReadFull(ch, make([]byte, 1))
	must(t, err)
	must(t, ch.Close())
	select {
	case <-gone:
	case <-time.After(time.Minute):
		t.Error("it goes on at the server")
	}
}

// TestAskingWithoutEnd checks that a client that keeps asking is cut off, and cannot fill the log.
func TestAskingWithoutEnd(t *testing.T) {
	w := newWorld(t, repeat)
	conn := w.connect(t)
	for range 10 * mostAsked {
		if _, _, err := conn.SendRequest("tcpip-forward", true, nil); err != nil {
			w.ends(t, "it goes on")
			w.mu.Lock()
			defer w.mu.Unlock()
			if len(w.refused) != mostAsked || len(w.served) != 1 || !errors.Is(w.served[0], errTooMuch) {
				t.Errorf("%d refusals were told, and it ended with %v", len(w.refused), w.served)
			}
			return
		}
	}
	t.Error("it goes on")
}

// TestUsualRequests checks the requests by which clients say that they are alive, and open no
// second session.
func TestUsualRequests(t *testing.T) {
	w := newWorld(t, repeat)
	conn := w.connect(t)
	for _, kind := range usual {
		if ok, _, err := conn.SendRequest(kind, true, nil); ok || err != nil {
			t.Errorf("%s: %v, %v", kind, ok, err)
		}
	}
	if w.mu.Lock(); len(w.refused) != 0 {
		t.Errorf("told of %q", w.refused)
	}
	w.mu.Unlock()
}

// TestInsideTrusts checks that the inside trusts no other authority, and not under another name.
func TestInsideTrusts(t *testing.T) {
	w := newWorld(t, repeat)
	conf := w.client(t)
	if _, _, _, err := ssh.NewClientConn(w.dial(t), "other.example.com:22", conf); err == nil {
		t.Error("it passes for another server")
	}
	secret := make([]byte, 32)
	again, err := NewKey(secret, time.Now)
	must(t, err)
	same, err := NewKey(secret, time.Now)
	must(t, err)
	if !bytes.Equal(again.KnownHosts(), same.KnownHosts()) || bytes.Equal(again.KnownHosts(), w.ours.KnownHosts()) {
		t.Error("the authority is not that of its secret")
	}
	if !strings.HasPrefix(string(again.KnownHosts()), "@cert-authority * ") {
		t.Errorf("it is trusted as %q: plain keys of servers that are not looked into would be wrong", again.KnownHosts())
	}
	w.Key = again
	if _, _, _, err := ssh.NewClientConn(w.dial(t), serverName+":22", conf); err == nil {
		t.Error("another authority is trusted")
	}
}

func TestParseCommand(t *testing.T) {
	for text, want := range map[string]Command{
		"git-upload-pack 'acme/app.git'":                            {Service: "git-upload-pack", Repository: "acme/app.git"},
		"git-receive-pack '/acme/app'":                              {Service: "git-receive-pack", Repository: "/acme/app"},
		"git-upload-pack '~me/app'":                                 {Service: "git-upload-pack", Repository: "~me/app"},
		"git-upload-pack '-x'":                                      {Service: "git-upload-pack", Repository: "-x"}, // for the policy to refuse
		"git-upload-pack acme/app":                                  {},
		"git-upload-pack \"acme/app\"":                              {},
		"git-upload-pack 'a'\\''b'":                                 {},
		"git-upload-pack 'a/b'; id":                                 {},
		"git-upload-pack 'a/b' 'c/d'":                               {},
		"git-upload-pack 'a/b'\n":                                   {},
		"git-upload-pack 'a/b\nid'":                                 {},
		"git-upload-pack '$(id)' ":                                  {},
		"git-upload-pack  'a/b'":                                    {},
		" git-upload-pack 'a/b'":                                    {},
		"git-upload-pack\t'a/b'":                                    {},
		"git-upload-pack --strict 'a/b'":                            {},
		"git-upload-pack -- 'a/b'":                                  {},
		"git-upload-pack '--timeout=1'x":                            {},
		"git-upload-pack ''":                                        {},
		"git-upload-pack '":                                         {},
		"git-upload-pack":                                           {},
		"git upload-pack 'a/b'":                                     {},
		"git-upload-archive 'a/b'":                                  {},
		"git-receive-pack":                                          {},
		"/usr/bin/git-upload-pack 'a/b'":                            {},
		"GIT_DIR=x git-upload-pack 'a/b'":                           {},
		"git-upload-pack 'a/b' || id":                               {},
		"git-upload-pack 'a/b'\x00":                                 {},
		"git-upload-pack 'a b'":                                     {},
		"git-upload-pack 'a\\b'":                                    {},
		"git-upload-pack 'é'":                                       {},
		"GIT-UPLOAD-PACK 'a/b'":                                     {},
		"git-upload-pack '" + strings.Repeat("a", maxCommand) + "'": {},
		"": {},
	} {
		got, err := ParseCommand(text)
		if got != want || (err == nil) != (want != Command{}) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

// FuzzParseCommand checks that an accepted command is written as it was read, and has one meaning
// to a shell.
func FuzzParseCommand(f *testing.F) {
	f.Add("git-upload-pack 'acme/app.git'")
	f.Add("git-receive-pack '/a'\\''; id'")
	f.Add("git-upload-pack 'a/b'\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseCommand(text)
		if err != nil {
			return
		}
		if c.String() != text || strings.ContainsAny(c.Repository, "'\\\n\r\x00 ") || strings.Count(text, "'") != 2 || !strings.HasSuffix(text, "'") {
			t.Errorf("%q is read as %+v", text, c)
		}
	})
}

// TestShort checks that a server's text is cut when it turns a client away.
func TestShort(t *testing.T) {
	if got := clipText(strings.Repeat("é", 1000)); len(got) > 610 || !strings.HasSuffix(got, "é…") || !utf8.ValidString(got) {
		t.Errorf("%q", got)
	}
	if got := clipText("as it is"); got != "as it is" {
		t.Errorf("%q", got)
	}
}
