package attacks

import (
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/bothy-dev/bothy/test/harness"
	"github.com/bothy-dev/bothy/test/stage"
)

// sshWorld is a server of SSH at every address of a stage, and an agent of the host with the one key
// that the server accepts.
type sshWorld struct {
	config *ssh.ServerConfig
	key    ssh.PublicKey
	host   ssh.PublicKey
	ring   agent.Agent

	// run carries out a command; nil: every client gets a greeting, whatever its command.
	run func(command, protocol string, ch ssh.Channel) uint32

	mu     sync.Mutex
	logins []string
	asked  []string // all requests but logins
}

const (
	knownServer   = "ssh.example.net"
	unknownServer = "stranger.example.net"
)

func newSSHWorld(t *testing.T, c *harness.Caller, l net.Listener) *sshWorld {
	t.Helper()
	w := &sshWorld{ring: agent.NewKeyring()}
	newKey := func() (ed25519.PrivateKey, ssh.Signer) {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		s, err := ssh.NewSignerFromKey(key)
		if err != nil {
			t.Fatal(err)
		}
		return key, s
	}
	mine, signer := newKey()
	_, server := newKey()
	w.key, w.host = signer.PublicKey(), server.PublicKey()
	if err := w.ring.Add(agent.AddedKey{PrivateKey: mine, Comment: "of the host"}); err != nil {
		t.Fatal(err)
	}
	w.config = &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if string(key.Marshal()) != string(w.key.Marshal()) {
			return nil, fmt.Errorf("who is that?")
		}
		return nil, nil
	}}
	w.config.AddHostKey(server)
	go each(l, w.serve)
	path := filepath.Join(c.Base, "agent.sock")
	a, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	c.Own(t, path)
	t.Cleanup(func() { a.Close() })
	go each(a, func(conn net.Conn) { _ = agent.ServeAgent(w.ring, conn) })
	c.Env = append(c.Env, "SSH_AUTH_SOCK="+path)
	c.Mkdir(t, filepath.Join(c.Home, ".ssh"))
	c.Write(t, filepath.Join(c.Home, ".ssh/known_hosts"), knownhosts.Line([]string{knownhosts.HashHostname(knownServer)}, w.host)+"\n")
	return w
}

// each serves every connection to a listener until it is closed.
func each(l net.Listener, serve func(net.Conn)) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			serve(c)
		}()
	}
}

// serve accepts the clients with the right key.
func (w *sshWorld) serve(c net.Conn) {
	conn, channels, requests, err := ssh.NewServerConn(c, w.config)
	if err != nil {
		return
	}
	w.mu.Lock()
	w.logins = append(w.logins, conn.User())
	w.mu.Unlock()
	go func() {
		for r := range requests {
			w.note("global " + r.Type)
			_ = r.Reply(true, nil)
		}
	}()
	for n := range channels {
		if n.ChannelType() != "session" {
			w.note("channel " + n.ChannelType())
		}
		ch, asked, err := n.Accept()
		if err != nil {
			return
		}
		go w.session(conn.User(), ch, asked)
	}
}

// session carries out the requests of a session, and records all of them.
func (w *sshWorld) session(user string, ch ssh.Channel, asked <-chan *ssh.Request) {
	protocol := ""
	for r := range asked {
		var text struct{ Command string }
		var variable struct{ Name, Value string }
		_ = r.Reply(r.Type == "exec" || r.Type == "env", nil)
		switch {
		case r.Type == "env" && ssh.Unmarshal(r.Payload, &variable) == nil:
			w.note("env " + variable.Name)
			protocol = variable.Value
		case r.Type == "exec" && ssh.Unmarshal(r.Payload, &text) == nil:
			w.note(text.Command)
			go func() {
				status := uint32(0)
				if w.run != nil {
					status = w.run(text.Command, protocol, ch)
				} else {
					fmt.Fprintf(ch, "hello %s\n", user)
				}
				_, _ = ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{status}))
				_ = ch.Close()
			}()
		default:
			w.note(r.Type)
		}
	}
}

func (w *sshWorld) note(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = append(w.asked, what)
}

// wanted returns the requests since the last call.
func (w *sshWorld) wanted() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := w.asked
	w.asked = nil
	return list
}

func (w *sshWorld) came() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := w.logins
	w.logins = nil
	return list
}

// TestC10SSHAgent checks that ssh inside logs in with the key of the host's agent, at a server that
// the host knows. The agent does nothing else for the inside, for any program (C10, A17).
func TestC10SSHAgent(t *testing.T) {
	harness.AsUser(t)
	for _, program := range []string{"/usr/bin/ssh", "/usr/bin/ssh-add", "/usr/bin/ssh-keygen"} {
		if _, err := os.Stat(program); err != nil {
			harness.Missing(t, "%v", err)
		}
	}
	stage.On(t, func(t *testing.T, c *harness.Caller, s *stage.Stage) {
		w := newSSHWorld(t, c, s.Take(t, "22"))
		for _, host := range []string{knownServer, unknownServer} {
			s.Leads(host, stage.Host4.String())
			c.Must(t, "policy", "allow", host+":22")
		}
		login := func(host string) harness.Result {
			return c.Sh("box", "", "ssh -o BatchMode=yes -o StrictHostKeyChecking=accept-new git@"+host+" hello")
		}
		c.Must(t, "create", "--name", "box", "shell", c.Work)
		if r := login(knownServer); r.Code == 0 || c.Sh("box", "", "echo $SSH_AUTH_SOCK; ls -A /tmp/.bothy").Stdout != "\n" {
			t.Errorf("nothing was lent, and a login: %v", r)
		}
		c.Must(t, "run", "--name", "box", "--lend", "ssh", "--", "true")
		for range 2 {
			if r := login(knownServer); r.Stdout != "hello git\n" {
				t.Errorf("a login: %v", r)
			}
		}
		if got := w.came(); len(got) != 2 {
			t.Errorf("the server let in %q", got)
		}
		if r := c.Sh("box", "", `printf x > /tmp/x; git init -q /tmp/g && cd /tmp/g && echo "$GIT_SSH_COMMAND" && git ls-remote git@`+knownServer+`:team/app.git; true`); !strings.Contains(r.Stdout, "accept-new") || len(w.came()) != 1 {
			t.Errorf("git did not log in: %v", r)
		}
		w.refuses(t, c, login)
		out := c.Must(t, "secret", "audit", "--json")
		for _, want := range []string{`"secret":"lent-ssh"`, `"name":"` + knownServer + `"`, "signed the login of git", ssh.FingerprintSHA256(w.key), `"verdict":"deny"`, "signatures are not lent (--lend ssh-sign)", "that the sandbox is connected to"} {
			if !strings.Contains(out, want) {
				t.Errorf("%s is not in the audit:\n%s", want, out)
			}
		}
		c.Must(t, "secret", "revoke", "--all")
		w.came()
		if r := login(knownServer); r.Code == 0 || len(w.came()) != 0 {
			t.Errorf("after the end: %v", r)
		}
		if r := c.Sh("box", "", "SSH_AUTH_SOCK=/tmp/.bothy/ssh-agent ssh-add -l"); strings.Contains(r.Stdout, "SHA256") {
			t.Errorf("after the end: %v", r)
		}
		c.Must(t, "rm", "-f", "box")
	})
}

// refuses checks the requests that the agent refuses.
func (w *sshWorld) refuses(t *testing.T, c *harness.Caller, login func(string) harness.Result) {
	t.Helper()
	if r := login(unknownServer); r.Code == 0 || len(w.came()) != 0 {
		t.Errorf("at a server the host does not know by that name: %v", r)
	}
	if r := c.Sh("box", "", "ssh-add -l"); !strings.Contains(r.Stdout, ssh.FingerprintSHA256(w.key)) {
		t.Errorf("which keys there are: %v", r)
	}
	for what, script := range map[string]string{
		"a signed file":   `ssh-add -L > /tmp/key.pub && ssh-keygen -Y sign -n git -f /tmp/key.pub /tmp/x`,
		"a removed key":   `ssh-add -D`,
		"an added key":    `rm -f /tmp/k; ssh-keygen -q -t ed25519 -N "" -f /tmp/k && ssh-add /tmp/k`,
		"a lock":          `printf '#!/bin/sh\necho x\n' > /tmp/ask && chmod +x /tmp/ask && SSH_ASKPASS_REQUIRE=force SSH_ASKPASS=/tmp/ask ssh-add -x`,
		"a jump":          `ssh -o BatchMode=yes -o StrictHostKeyChecking=accept-new -J git@` + unknownServer + ` git@` + knownServer + ` hello`,
		"the host's file": `ls ` + filepath.Join(c.Base, "agent.sock"),
	} {
		if r := c.Sh("box", "", script); r.Code == 0 {
			t.Errorf("%s: %v", what, r)
		}
	}
	if keys, err := w.ring.List(); err != nil || len(keys) != 1 {
		t.Errorf("the agent has %v, %v", keys, err)
	}
	w.came()
}
