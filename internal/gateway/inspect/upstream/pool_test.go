package upstream

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"net"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/ca"
	"github.com/bothy-dev/bothy/internal/gateway/relay"
)

// recorder counts the writes to a connection, and may keep them back.
type recorder struct {
	relay.TCP
	writes atomic.Int32
	keep   bool
	kept   bytes.Buffer
}

func (r *recorder) Write(b []byte) (int, error) {
	r.writes.Add(1)
	if r.keep {
		return r.kept.Write(b)
	}
	return r.TCP.Write(b)
}

// recorded returns both ends of a connection, both watched.
func recorded(t *testing.T) (near, far *recorder) {
	t.Helper()
	a, b := connected(t)
	return &recorder{TCP: relay.TCP{TCPConn: a}}, &recorder{TCP: relay.TCP{TCPConn: b}}
}

// secureLink returns a link over TLS, with the connections beneath it at both ends.
func secureLink(t *testing.T) (l *link, near, far *recorder, peer *tls.Conn) {
	t.Helper()
	authority, err := ca.New("outside", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := authority.Leaf("far.example")
	if err != nil {
		t.Fatal(err)
	}
	near, far = recorded(t)
	u := &Servers{head: time.Hour, set: map[*outside]struct{}{}}
	out := &outside{Conn: near, u: u}
	peer = tls.Server(far, &tls.Config{Certificates: []tls.Certificate{*leaf}})
	client := tls.Client(out, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // whom it trusts is not the matter
	shaken := make(chan error, 1)
	go func() { shaken <- peer.Handshake() }()
	if err := client.Handshake(); err != nil {
		t.Fatal(err)
	}
	if err := <-shaken; err != nil {
		t.Fatal(err)
	}
	return newLink(u, &server{}, client, out), near, far, peer
}

// TestQuietOverTLS checks bytes after a server's answer that are in TLS, where the kernel does not
// know of them.
func TestQuietOverTLS(t *testing.T) {
	l, _, far, server := secureLink(t)
	answer := []byte("an answer")
	turn := func(said ...[]byte) {
		t.Helper()
		far.keep = true
		for _, s := range said { // a record each, but one segment
			_, _ = server.Write(s)
		}
		far.keep = false
		if _, err := far.TCP.Write(far.kept.Bytes()); err != nil {
			t.Fatal(err)
		}
		far.kept.Reset()
		b := make([]byte, len(answer))
		if n, err := l.r.Read(b); err != nil || string(b[:n]) != string(answer) {
			t.Fatalf("%q, %v", b[:n], err)
		}
	}
	for range 2 { // asking does not make it unusable
		turn(answer)
		if !l.isQuiet() {
			t.Fatal("a server that only answered is not quiet")
		}
	}
	turn(answer, []byte("and something else"))
	if l.isQuiet() {
		t.Error("a server that said more than its answer is quiet")
	}
}

// TestCloseWithoutGoodbye checks that closing idle connections waits for no server: the rules may
// have changed, and forbidden traffic would go on meanwhile.
func TestCloseWithoutGoodbye(t *testing.T) {
	l, near, _, _ := secureLink(t)
	before := near.writes.Load()
	l.closeLink()
	if n := near.writes.Load() - before; n > 0 {
		t.Errorf("%d writes to close a connection", n)
	}
}

// TestBackBeforeLeaving checks that a server is in use until its connection is back: otherwise it
// could be forgotten, and the connection with it.
func TestBackBeforeLeaving(t *testing.T) {
	for range 1000 {
		u := &Servers{}
		l := &link{u: u, server: &server{users: 1, places: make(chan struct{})}, r: bufio.NewReader(nil)}
		go (&AnswerBody{link: l, stop: func() bool { return true }}).endBody()
		runtime.Gosched()
		l.server.places <- struct{}{} // taken when it leaves
		u.links.mu.Lock()
		back := slices.Contains(l.server.idle, l)
		u.links.mu.Unlock()
		u.links.closeAll()
		if !back {
			t.Fatal("the place is free, and the connection not there")
		}
	}
}

// connected returns both ends of a connection.
func connected(t *testing.T) (near, far *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = a.Close(), b.Close() })
	return a.(*net.TCPConn), b.(*net.TCPConn)
}
