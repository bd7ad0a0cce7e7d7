package gateway

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/bothy-dev/bothy/internal/gateway/held"
	"github.com/bothy-dev/bothy/internal/gateway/namepool"
	"github.com/bothy-dev/bothy/internal/racetest"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// flooding is a server over HTTP/2 whose answers never end.
func flooding(t *testing.T) *origin {
	return newOrigin(t, true, func(w http.ResponseWriter, _ *http.Request) {
		b := make([]byte, 256<<10)
		for {
			if _, err := w.Write(b); err != nil {
				return
			}
		}
	})
}

// unread opens n connections over HTTP/2, each with 100 requests whose answers the client does not read.
// It leaves out connections that the gateway refuses.
func (w *world) unread(t *testing.T, port uint16, n int, more ...field) (conns []*framed) {
	t.Helper()
	for range n {
		f, err := w.tryFramed(t, port)
		if err != nil {
			continue
		}
		must(t, f.c.SetDeadline(time.Now().Add(patience)))
		conns = append(conns, f)
		must(t, f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}))
		go func() { _, _ = io.Copy(io.Discard, f.c) }()
		for stream := uint32(1); stream < 200; stream += 2 {
			f.heads(t, stream, append(f.usual("GET"), more...)...)
		}
	}
	return conns
}

// TestB10HeldAnswers checks that answers that a client does not read are bounded in sum from the first
// byte on: the servers send as fast as they like.
func TestB10HeldAnswers(t *testing.T) {
	o := flooding(t)
	w := start(t, document(t, 1, "inspect: all\nallow: [api.example.com]\n"), apiHosts, o.trusting)
	before := heap()
	conns := w.unread(t, o.port, 8)
	most := int64(0)
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		most = max(most, heapAbove(before))
	}
	if most > 2*held.Most {
		t.Errorf("the heap has grown by %d MiB", most>>20)
	}
	w.bounded(t, before)
	for _, f := range conns {
		_ = f.c.NetConn().Close()
	}
	w.givesBack(t)
}

// TestB10HeldRefusals checks that the memory of a request is counted until the client has taken the last
// of its answer, also for a request that the gateway itself refuses.
func TestB10HeldRefusals(t *testing.T) {
	racetest.Skip(t)
	o := speechless(t)
	w := start(t, document(t, 1, "inspect: all\nallow: [{host: api.example.com, methods: [HEAD]}]\n"), apiHosts, o.trusting)
	before := heap()
	conns := w.unread(t, o.port, 10, field{"x-large", strings.Repeat("~", 100<<10)})
	if n := w.held.Used(); n < held.Most/2 {
		t.Errorf("%d bytes are held for requests whose answers wait", n)
	}
	w.bounded(t, before)
	f := conns[0]
	before2 := w.held.Used()
	must(t, f.WriteRSTStream(1, http2.ErrCodeCancel))
	must(t, f.WriteWindowUpdate(3, 1<<20))
	eventually(t, "streams that end give back", func() bool { return w.held.Used() <= before2-2*(100<<10) })
	for _, f := range conns {
		_ = f.c.NetConn().Close()
	}
	w.givesBack(t)
}

// TestB10HeldWindows checks that the first answers have a window that fills a long way, and further ones
// a small window, and that all of them arrive.
func TestB10HeldWindows(t *testing.T) {
	const size = 1 << 20
	release := make(chan struct{})
	o := newOrigin(t, true, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-release
		_, _ = w.Write(make([]byte, size))
	})
	w := start(t, document(t, 1, "inspect: all\nallow: [api.example.com]\n"), apiHosts, o.trusting)
	c := w.client(t, true)
	var bodies []io.ReadCloser
	for range 12 {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("https://api.example.com:%d/", o.port), nil)
		must(t, err)
		resp, err := c.Do(r)
		must(t, err)
		defer resp.Body.Close()
		bodies = append(bodies, resp.Body)
	}
	if n := w.held.Used(); n < held.Most/4 || n > held.Most/2 {
		t.Errorf("%d bytes are held for 12 answers", n)
	}
	close(release)
	for _, body := range bodies {
		n, err := io.Copy(io.Discard, body)
		if err != nil || n != size {
			t.Errorf("%d bytes came, %v", n, err)
		}
		body.Close()
	}
	c.CloseIdleConnections()
	w.givesBack(t)
}

// TestB10HeldByAgent checks that messages to the SSH agent are counted while they are read, and refused
// without room.
func TestB10HeldByAgent(t *testing.T) {
	o := newSSH(t, "git.example.com")
	w := start(t, rules(t, 1), nil, o.knownHosts)
	must(t, w.SetLoans(o.lent()))
	say := func() net.Conn {
		c, err := w.in.Dial(t.Context(), netip.AddrPortFrom(namepool.Gateway4, wire.AgentPort))
		must(t, err)
		_, err = c.Write(append(binary.BigEndian.AppendUint32(nil, 256<<10), make([]byte, 100<<10)...))
		must(t, err)
		return c
	}
	var conns []net.Conn
	for range 4 {
		conns = append(conns, say())
	}
	eventually(t, "messages are held", func() bool { return w.held.Used() == 4*2*(256<<10) })
	rest := w.held.Hold()
	must(t, rest.Take(held.Most-w.held.Used()))
	refused := say()
	must(t, refused.SetReadDeadline(time.Now().Add(patience)))
	if _, err := refused.Read(make([]byte, 1)); err == nil || isTimeout(err) {
		t.Errorf("a message is read without room: %v", err)
	}
	w.record(t, "a refusal", func(r spec.NetworkRecord) bool {
		return r.Event == spec.NetworkSecret && r.Verdict == spec.VerdictDeny && strings.Contains(r.Reason, held.ErrFull.Error())
	})
	rest.Release()
	for _, c := range conns {
		_ = c.Close()
	}
	w.givesBack(t)
}

// TestB10HeldByGit checks that bytes of git over SSH that one side sends and the other does not read are
// counted.
func TestB10HeldByGit(t *testing.T) {
	o := newSSH(t, "git.example.com")
	w := start(t, document(t, 1, fmt.Sprintf("allow: [{host: 'git.example.com:%d', git: [acme/app], push: true}]\n", o.port)),
		map[string][]string{"git.example.com": here}, o.knownHosts)
	must(t, w.SetLoans(o.lent()))
	conn, err := w.sshTo(t, "git.example.com", o.port)
	must(t, err)
	ch, _ := ask(t, conn, "git-receive-pack 'acme/app'")
	go func() { _, _ = io.Copy(ch, zeros{}) }() // whose echo is not read
	eventually(t, "much is held", func() bool { return w.held.Used() > 1<<20 })
	if n := w.held.Used(); n > 2*(mostHeld+leastHeld) {
		t.Errorf("%d bytes are held for one connection", n)
	}
	_ = conn.Close()
	w.givesBack(t)
}

// TestB10HeldByRelays checks that connections without inspection, full in both directions, hold no more
// than their part.
func TestB10HeldByRelays(t *testing.T) {
	racetest.Skip(t)
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	must(t, err)
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); _, _ = io.Copy(c, zeros{}) }()
		}
	}()
	w := start(t, document(t, 1, "allow: [{host: api.example.com, passthrough: true}]\n"), apiHosts)
	var conns []net.Conn
	for range 300 {
		c, err := w.in.DialName(t.Context(), "api.example.com", uint16(l.Addr().(*net.TCPAddr).Port))
		must(t, err)
		conns = append(conns, c)
		must(t, c.SetWriteDeadline(time.Now().Add(time.Second)))
		go func() { _, _ = io.Copy(c, zeros{}) }()
	}
	eventually(t, "their part is used up", func() bool { return w.copies.Used() > heldByRelays-64<<10-1 })
	if n := w.held.Used(); n > heldByRelays {
		t.Errorf("%d bytes are held", n)
	}
	for _, c := range conns {
		_ = c.Close()
	}
	w.givesBack(t)
}
