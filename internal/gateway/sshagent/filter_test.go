package sshagent

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/crypto/ssh/knownhosts"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newKey(t *testing.T) (ed25519.PrivateKey, ssh.Signer) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	s, err := ssh.NewSignerFromKey(key)
	must(t, err)
	return key, s
}

// world is an agent of the host with one key, and a program inside that asks it.
type world struct {
	agent  agent.ExtendedAgent // of the host, really
	asked  *asked
	user   ssh.Signer
	server ssh.Signer  // its key is known as git.example.com's
	other  ssh.Signer  // its key is known as other.example.com's
	ended  atomic.Bool // logins are not lent any more
	signs  atomic.Bool // signatures are lent
	mu     sync.Mutex
	uses   []Use
	filter *Filter
}

// asked is the host's agent, which knows session-bind.
type asked struct {
	agent.ExtendedAgent
	bound int
}

func (a *asked) Extension(name string, _ []byte) ([]byte, error) {
	if name != sessionBind {
		return nil, agent.ErrExtensionUnsupported
	}
	a.bound++
	return []byte{saySuccess}, nil
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{}
	key, user := newKey(t)
	w.user = user
	_, w.server = newKey(t)
	_, w.other = newKey(t)
	ring := agent.NewKeyring().(agent.ExtendedAgent)
	must(t, ring.Add(agent.AddedKey{PrivateKey: key, Comment: "mine"}))
	w.asked = &asked{ExtendedAgent: ring}
	w.agent = ring
	known := filepath.Join(t.TempDir(), "known_hosts")
	text := knownhosts.Line([]string{knownhosts.HashHostname("[git.example.com]:2222")}, w.server.PublicKey()) + "\n" +
		knownhosts.Line([]string{"other.example.com"}, w.other.PublicKey()) + "\n"
	must(t, os.WriteFile(known, []byte(text), 0o644))
	w.filter = &Filter{
		Dial: func(context.Context) (net.Conn, error) {
			mine, theirs := net.Pipe()
			go func() { _ = agent.ServeAgent(w.asked, theirs); theirs.Close() }()
			return mine, nil
		},
		Logins:     func() bool { return !w.ended.Load() },
		Signatures: func() bool { return w.signs.Load() },
		Reached:    func() []Server { return []Server{{"elsewhere.example.com", 22}, {"git.example.com", 2222}} },
		Known:      []string{filepath.Join(t.TempDir(), "missing"), known},
		Log: func(u Use) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.uses = append(w.uses, u)
		},
	}
	return w
}

// conn returns the inside's end of a conversation.
func (w *world) conn(t *testing.T) net.Conn {
	t.Helper()
	inside, outside := net.Pipe()
	done := make(chan struct{})
	go func() {
		_ = w.filter.Serve(context.Background(), outside)
		outside.Close()
		close(done)
	}()
	t.Cleanup(func() { inside.Close(); <-done })
	return inside
}

func (w *world) last() Use {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.uses) == 0 {
		return Use{}
	}
	return w.uses[len(w.uses)-1]
}

var session = []byte("the identifier of a session, 32 ")

// bindTo returns the contents of session-bind.
func bindTo(t *testing.T, key ssh.PublicKey, by ssh.Signer, id []byte, forwarding bool) []byte {
	t.Helper()
	sig, err := by.Sign(rand.Reader, id)
	must(t, err)
	return ssh.Marshal(struct {
		Key, Session, Signature []byte
		Forwarding              bool
	}{key.Marshal(), id, ssh.Marshal(sig), forwarding})
}

// loginData returns the text that a client has signed.
func loginData(id []byte, user, service, method string, signed bool, key ssh.PublicKey, rest []byte) []byte {
	head := ssh.Marshal(struct{ Session []byte }{id})
	return append(append(head, ssh.Marshal(struct {
		Type                  byte
		User, Service, Method string
		Signed                bool
		Algorithm             string
		Key                   []byte
	}{50, user, service, method, signed, key.Type(), key.Marshal()})...), rest...)
}

func TestLoginIsSigned(t *testing.T) {
	w := newWorld(t)
	for _, hostbound := range []bool{false, true} {
		c := agent.NewClient(w.conn(t))
		keys, err := c.List()
		if err != nil || len(keys) != 1 || keys[0].Comment != "mine" {
			t.Fatalf("%v, %v", keys, err)
		}
		_, err = c.Extension(sessionBind, bindTo(t, w.server.PublicKey(), w.server, session, false))
		must(t, err)
		data := loginData(session, "git", "ssh-connection", "publickey", true, w.user.PublicKey(), nil)
		if hostbound {
			data = loginData(session, "git", "ssh-connection", "publickey-hostbound-v00@openssh.com", true, w.user.PublicKey(), ssh.Marshal(struct{ K []byte }{w.server.PublicKey().Marshal()}))
		}
		sig, err := c.Sign(w.user.PublicKey(), data)
		must(t, err)
		must(t, w.user.PublicKey().Verify(data, sig))
		if u := w.last(); u.Err != nil || u.Server != (Server{"git.example.com", 2222}) || u.User != "git" || u.Key != ssh.FingerprintSHA256(w.user.PublicKey()) {
			t.Errorf("%+v", u)
		}
	}
	if w.asked.bound != 2 {
		t.Errorf("the host's agent was told of %d sessions", w.asked.bound)
	}
}

// TestC10NothingElseIsSigned checks that the agent signs nothing else (C10).
func TestC10NothingElseIsSigned(t *testing.T) {
	me := func(w *world) ssh.PublicKey { return w.user.PublicKey() }
	usual := func(w *world) []byte {
		return loginData(session, "git", "ssh-connection", "publickey", true, me(w), nil)
	}
	for name, c := range map[string]struct {
		bind func(t *testing.T, w *world) []byte
		data func(w *world) []byte
		want string
	}{
		"unbound":        {nil, usual, "which server"},
		"another server": {func(t *testing.T, w *world) []byte { return bindTo(t, w.other.PublicKey(), w.other, session, false) }, usual, "none that the sandbox is connected to"},
		"an unknown server": {func(t *testing.T, _ *world) []byte {
			_, s := newKey(t)
			return bindTo(t, s.PublicKey(), s, session, false)
		}, usual, "none that the sandbox is connected to"},
		"a server's key, signed by another": {func(t *testing.T, w *world) []byte { return bindTo(t, w.server.PublicKey(), w.other, session, false) }, usual, "which server"},
		"passed on":                         {func(t *testing.T, w *world) []byte { return bindTo(t, w.server.PublicKey(), w.server, session, true) }, usual, "which server"},
		"another session": {nil, func(w *world) []byte {
			return loginData([]byte("x"), "git", "ssh-connection", "publickey", true, me(w), nil)
		}, "another session"},
		"another method": {nil, func(w *world) []byte {
			return loginData(session, "git", "ssh-connection", "hostbased", true, me(w), nil)
		}, "not a login"},
		"another service": {nil, func(w *world) []byte { return loginData(session, "git", "ssh-userauth", "publickey", true, me(w), nil) }, "not a login"},
		"not signed": {nil, func(w *world) []byte {
			return loginData(session, "git", "ssh-connection", "publickey", false, me(w), nil)
		}, "not a login"},
		"another key": {nil, func(w *world) []byte {
			return loginData(session, "git", "ssh-connection", "publickey", true, w.other.PublicKey(), nil)
		}, "not a login"},
		"more behind it": {nil, func(w *world) []byte { return append(usual(w), 'x') }, "not a login"},
		"another host key": {nil, func(w *world) []byte {
			return loginData(session, "git", "ssh-connection", "publickey-hostbound-v00@openssh.com", true, me(w), ssh.Marshal(struct{ K []byte }{w.other.PublicKey().Marshal()}))
		}, "another server"},
		"no session": {nil, func(w *world) []byte { return loginData(nil, "git", "ssh-connection", "publickey", true, me(w), nil) }, "not a login"},
		"a signed file": {nil, func(*world) []byte {
			return append([]byte("SSHSIG"), ssh.Marshal(struct{ A, B, C, D []byte }{[]byte("git"), nil, []byte("sha512"), make([]byte, 64)})...)
		}, "signatures are not lent"},
		"anything": {nil, func(*world) []byte { return []byte("anything") }, "not a login"},
		"nothing":  {nil, func(*world) []byte { return nil }, "not a login"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			client := agent.NewClient(w.conn(t))
			bind := c.bind
			if bind == nil && name != "unbound" {
				bind = func(t *testing.T, w *world) []byte { return bindTo(t, w.server.PublicKey(), w.server, session, false) }
			}
			if bind != nil {
				_, _ = client.Extension(sessionBind, bind(t, w))
			}
			if sig, err := client.Sign(me(w), c.data(w)); err == nil {
				t.Errorf("it was signed: %v", sig)
			}
			if u := w.last(); u.Err == nil || !strings.Contains(u.Err.Error(), c.want) {
				t.Errorf("%+v", u)
			}
		})
	}
}

// TestC10BoundOnce checks that a client that has named its server cannot name another one
// afterwards.
func TestC10BoundOnce(t *testing.T) {
	w := newWorld(t)
	c := agent.NewClient(w.conn(t))
	_, err := c.Extension(sessionBind, bindTo(t, w.server.PublicKey(), w.server, session, false))
	must(t, err)
	if _, err := c.Extension(sessionBind, bindTo(t, w.other.PublicKey(), w.other, session, false)); err == nil {
		t.Error("it was bound twice")
	}
	if _, err := c.Sign(w.user.PublicKey(), loginData(session, "git", "ssh-connection", "publickey", true, w.user.PublicKey(), nil)); err == nil {
		t.Error("it was signed")
	}
}

// TestC10NothingElseIsAsked checks that nothing else is asked of the host's agent (C10).
func TestC10NothingElseIsAsked(t *testing.T) {
	w := newWorld(t)
	c := agent.NewClient(w.conn(t))
	key, _ := newKey(t)
	for name, err := range map[string]error{
		"add":       c.Add(agent.AddedKey{PrivateKey: key}),
		"remove":    c.Remove(w.user.PublicKey()),
		"removeAll": c.RemoveAll(),
		"lock":      c.Lock([]byte("x")),
		"unlock":    c.Unlock([]byte("x")),
	} {
		if err == nil {
			t.Errorf("%s was passed on", name)
		}
	}
	for _, name := range []string{"query", "anything@example.com"} {
		if _, err := c.Extension(name, nil); err == nil {
			t.Errorf("extension %s was passed on", name)
		}
	}
	if keys, err := w.agent.List(); err != nil || len(keys) != 1 {
		t.Errorf("the agent has %v, %v", keys, err)
	}
	if keys, err := c.List(); err != nil || len(keys) != 1 {
		t.Errorf("afterwards: %v, %v", keys, err)
	}
}

// TestC12LeaseEnds checks that a conversation ends with the lease.
func TestC12LeaseEnds(t *testing.T) {
	w := newWorld(t)
	c := agent.NewClient(w.conn(t))
	if keys, err := c.List(); err != nil || len(keys) != 1 {
		t.Fatalf("%v, %v", keys, err)
	}
	w.ended.Store(true)
	if keys, err := c.List(); err == nil {
		t.Errorf("afterwards: %v", keys)
	}
}

// TestMalformed checks that an invalid message ends the conversation.
func TestMalformed(t *testing.T) {
	for _, b := range [][]byte{{0, 0, 0, 0}, {0xff, 0xff, 0xff, 0xff, 11}, {0, 4, 0, 1, 11}} {
		w := newWorld(t)
		c := w.conn(t)
		if _, err := c.Write(b[:4]); err != nil {
			t.Fatal(err)
		}
		if n, err := c.Read(make([]byte, 1)); err == nil {
			t.Errorf("%x: %d bytes came", b, n)
		}
	}
}

// TestKnownHosts checks that files of keys that others may write, or that are missing, vouch for no
// server.
func TestKnownHosts(t *testing.T) {
	for name, prepare := range map[string]func(path string) error{
		"writable": func(path string) error { return os.Chmod(path, 0o666) },
		"missing":  os.Remove,
		"broken": func(path string) error {
			return os.WriteFile(path, []byte("git.example.com ssh-ed25519 nonsense\n"), 0o600)
		},
		"revoked": func(path string) error {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			_, key, _ := strings.Cut(string(b), " ")
			return os.WriteFile(path, []byte(string(b)+"@revoked * "+key), 0o600)
		},
		"revoked, with a long comment": func(path string) error {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			first, _, _ := strings.Cut(string(b), "\n")
			_, key, _ := strings.Cut(first, " ")
			return os.WriteFile(path, []byte(string(b)+"@revoked * "+key+" it was on a disk that was sold\n"), 0o600)
		},
		"something is revoked, nobody knows what": func(path string) error {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return os.WriteFile(path, []byte(string(b)+"@revoked * ssh-new AAAAB3\n"), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			must(t, prepare(w.filter.Known[1]))
			c := agent.NewClient(w.conn(t))
			_, err := c.Extension(sessionBind, bindTo(t, w.server.PublicKey(), w.server, session, false))
			must(t, err)
			if _, err := c.Sign(w.user.PublicKey(), loginData(session, "git", "ssh-connection", "publickey", true, w.user.PublicKey(), nil)); err == nil || w.last().Err == nil {
				t.Errorf("it was signed: %+v", w.last())
			}
		})
	}
}

// TestKnownHostsOfOthers checks that keys of an unknown kind, of other servers, do not matter.
func TestKnownHostsOfOthers(t *testing.T) {
	w := newWorld(t)
	path := w.filter.Known[1]
	b, err := os.ReadFile(path)
	must(t, err)
	first, rest, _ := strings.Cut(string(b), "\n")
	text := "# mine\nold.example.com 1024 35 1234567890\nnew.example.com ssh-new AAAAB3\n\nhalf.example.com\n" + first + " with a comment of many words\n" + rest
	must(t, os.WriteFile(path, []byte(text), 0o600))
	c := agent.NewClient(w.conn(t))
	_, err = c.Extension(sessionBind, bindTo(t, w.server.PublicKey(), w.server, session, false))
	must(t, err)
	_, err = c.Sign(w.user.PublicKey(), loginData(session, "git", "ssh-connection", "publickey", true, w.user.PublicKey(), nil))
	must(t, err)
}
