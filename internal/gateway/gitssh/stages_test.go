package gitssh

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// TestServerStops checks that a server that stops at any stage is given up, that the program inside
// learns it, and that nothing of the connection is left.
func TestServerStops(t *testing.T) {
	stops := func(part string) func(w *world, c net.Conn, late func()) {
		return func(_ *world, c net.Conn, late func()) {
			_, _ = io.WriteString(c, part)
			late()
			_, _ = io.Copy(io.Discard, c)
		}
	}
	serve := func(auth bool, then func(n ssh.NewChannel, late func())) func(w *world, c net.Conn, late func()) {
		return func(w *world, c net.Conn, late func()) {
			conf := &ssh.ServerConfig{PublicKeyCallback: func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) {
				if !auth {
					late()
					_, _ = io.Copy(io.Discard, c)
				}
				return nil, nil
			}}
			conf.AddHostKey(w.host)
			_, channels, requests, err := ssh.NewServerConn(c, conf)
			if err != nil {
				return
			}
			go ssh.DiscardRequests(requests)
			for n := range channels {
				then(n, late)
			}
		}
	}
	for stage, tt := range map[string]struct {
		speak func(w *world, c net.Conn, late func())
		want  string
	}{
		"before its version": {stops(""), "log in at"},
		"in its version":     {stops("SSH-2.0-x"), "log in at"},
		"behind its version": {stops("SSH-2.0-x\r\n"), "log in at"},
		"in a packet":        {stops("SSH-2.0-x\r\n\x00\x00\x01\x00\x04\x14"), "log in at"},
		"in the login":       {serve(false, nil), "log in at"},
		"before the session": {serve(true, func(_ ssh.NewChannel, late func()) { late() }), "open a session"},
		"in the session": {serve(true, func(n ssh.NewChannel, late func()) {
			if _, requests, err := n.Accept(); err == nil { // and sends no request and no answer
				<-requests
				late()
			}
		}), serverName},
		"in the command": {serve(true, func(n ssh.NewChannel, _ func()) {
			_, requests, err := n.Accept()
			if err != nil {
				return
			}
			go func() {
				for r := range requests {
					_ = r.Reply(true, nil)
				}
			}()
		}), errQuiet.Error()},
	} {
		t.Run(stage, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, repeat)
			w.quiet = 200 * time.Millisecond
			gone := make(chan struct{})
			w.Reach = func(context.Context) (net.Conn, error) {
				l, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					return nil, err
				}
				defer l.Close()
				near, err := net.Dial("tcp", l.Addr().String())
				if err != nil {
					return nil, err
				}
				far, err := l.Accept()
				if err != nil {
					return nil, err
				}
				c := &hurried{Conn: near, bounded: make(chan struct{})}
				go func() { defer close(gone); defer far.Close(); tt.speak(w, far, c.late) }()
				return c, nil
			}
			got := exec(t, w.connect(t), "exec", "git-upload-pack 'a/b'", "")
			if got.status != 128 || !strings.Contains(got.err, tt.want) {
				t.Errorf("%+v", got)
			}
			select {
			case <-gone:
			case <-time.After(time.Minute):
				t.Error("the connection to the server is left")
			}
		})
	}
}

// hurried is a connection whose deadline comes when late is called, however far it was put off.
type hurried struct {
	net.Conn
	bounded chan struct{} // closed when it has one
	once    sync.Once
}

func (h *hurried) SetDeadline(at time.Time) error {
	if at.IsZero() {
		return h.Conn.SetDeadline(at)
	}
	h.once.Do(func() { close(h.bounded) })
	return nil
}

func (h *hurried) late() {
	<-h.bounded
	_ = h.Conn.SetDeadline(time.Unix(1, 0))
}

// TestInsideStops checks that a program inside that stops reading, and so blocks the output, is
// given up.
func TestInsideStops(t *testing.T) {
	w := newWorld(t, func(_ *world, _ string, ch ssh.Channel, _ ssh.Conn) uint32 {
		_, _ = io.Copy(ch, bufio.NewReader(zeros{}))
		return 0
	})
	w.quiet = 300 * time.Millisecond
	ch, _, err := w.connect(t).OpenChannel("session", nil)
	must(t, err)
	_, err = ch.SendRequest("exec", true, ssh.Marshal(struct{ S string }{"git-upload-pack 'a/b'"}))
	must(t, err)
	w.ends(t, "it has its place for good")
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// picky is an agent with keys that do not sign.
type picky struct {
	agent.Agent
	first []ssh.PublicKey // in this order
	wont  map[string]bool // by their public keys
}

func (p *picky) List() ([]*agent.Key, error) {
	list := make([]*agent.Key, 0, len(p.first))
	for _, k := range p.first {
		list = append(list, &agent.Key{Format: k.Type(), Blob: k.Marshal()})
	}
	return list, nil
}

func (p *picky) Sign(key ssh.PublicKey, data []byte) (*ssh.Signature, error) {
	if p.wont[string(key.Marshal())] {
		return nil, errors.New("nobody touched it")
	}
	return p.Agent.Sign(key, data)
}

// TestNextKey checks that the next key is tried if one does not sign, because it is restricted or
// its user did not touch it.
func TestNextKey(t *testing.T) {
	for _, n := range []int{1, 2, 3} { // number of keys that do not sign, of three
		w := newWorld(t, repeat)
		p := &picky{Agent: w.ring, wont: map[string]bool{}}
		must(t, w.ring.RemoveAll())
		for i := range 3 {
			key, signer := newSigner(t)
			must(t, w.ring.Add(agent.AddedKey{PrivateKey: key}))
			p.first = append(p.first, signer.PublicKey())
			p.wont[string(signer.PublicKey().Marshal())] = i < n
		}
		w.ring = p
		got := exec(t, w.connect(t), "exec", "git-upload-pack 'a/b'", "hello")
		w.mu.Lock()
		logins := w.logins
		w.mu.Unlock()
		if n == 3 {
			if got.status != 128 || !strings.Contains(got.err, "did not sign with the key "+ssh.FingerprintSHA256(p.first[2])) || strings.Contains(got.err, "agent:") || len(logins) != 3 {
				t.Errorf("none signs: %+v, %v", got, logins)
			}
			continue
		}
		if got.out != "hello" || len(logins) != n+1 || logins[n].Err != nil || logins[n].Key != ssh.FingerprintSHA256(p.first[n]) || logins[0].Err == nil {
			t.Errorf("%d do not sign: %+v, %v", n, got, logins)
		}
	}
}
