package relay

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/held"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// pair returns both ends of a connection.
func pair(t testing.TB) (TCP, *net.TCPConn) {
	t.Helper()
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	must(t, err)
	defer l.Close()
	far, err := net.DialTCP("tcp", nil, l.Addr().(*net.TCPAddr))
	must(t, err)
	near, err := l.AcceptTCP()
	must(t, err)
	t.Cleanup(func() { near.Close(); far.Close() })
	return TCP{near}, far
}

// start relays between two programs' connections.
func start(t testing.TB) (client, server *net.TCPConn, n *Counts, end chan error) {
	t.Helper()
	inside, client := pair(t)
	outside, server := pair(t)
	n, end = &Counts{}, make(chan error, 1)
	go func() { end <- Run(inside, outside, n, held.New(bufferRoom)) }()
	return client, server, n, end
}

func finish(t testing.TB, end chan error) error {
	t.Helper()
	select {
	case err := <-end:
		return err
	case <-time.After(time.Minute):
		t.Fatal("the relay does not end")
		return nil
	}
}

func TestBothWays(t *testing.T) {
	client, server, n, end := start(t)
	up, down := make([]byte, 5<<20), make([]byte, 3<<20)
	_, _ = rand.Read(up)
	_, _ = rand.Read(down)
	go func() { _, _ = client.Write(up); _ = client.CloseWrite() }()
	go func() { _, _ = server.Write(down); _ = server.CloseWrite() }()
	got := make(chan []byte, 1)
	go func() { b, _ := io.ReadAll(server); got <- b }()
	b, err := io.ReadAll(client)
	must(t, err)
	if !bytes.Equal(b, down) || !bytes.Equal(<-got, up) {
		t.Error("other bytes arrive than were sent")
	}
	must(t, finish(t, end))
	if n.Up.Load() != int64(len(up)) || n.Down.Load() != int64(len(down)) {
		t.Errorf("counted %d up and %d down", n.Up.Load(), n.Down.Load())
	}
}

// TestHalfClose checks that a client may end its output and go on reading, for as long as it likes.
func TestHalfClose(t *testing.T) {
	client, server, _, end := start(t)
	_, err := client.Write([]byte("question"))
	must(t, err)
	must(t, client.CloseWrite())
	b, err := io.ReadAll(server)
	must(t, err)
	if string(b) != "question" {
		t.Errorf("%q", b)
	}
	time.Sleep(100 * time.Millisecond)
	_, err = server.Write([]byte("answer"))
	must(t, err)
	must(t, server.Close())
	b, err = io.ReadAll(client)
	must(t, err)
	if string(b) != "answer" {
		t.Errorf("%q", b)
	}
	must(t, finish(t, end))
}

// TestReset checks that a cut on one side becomes a cut on the other, in either direction.
func TestReset(t *testing.T) {
	for _, name := range []string{"client", "server"} {
		t.Run(name, func(t *testing.T) {
			client, server, _, end := start(t)
			cutter, victim := client, server
			if name == "server" {
				cutter, victim = server, client
			}
			_, err := cutter.Write([]byte("half of i"))
			must(t, err)
			_, err = io.ReadFull(victim, make([]byte, 9))
			must(t, err)
			TCP{cutter}.Reset()
			if _, err := io.ReadAll(victim); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("the other side sees %v, not a reset", err)
			}
			if finish(t, end) == nil {
				t.Error("the relay sees nothing wrong")
			}
		})
	}
}

// TestEndOfCut checks that CloseWrite succeeds on a connection that the peer has cut: no peer is
// left to receive the end.
func TestEndOfCut(t *testing.T) {
	near, far := pair(t)
	TCP{far}.Reset()
	near.Await()
	if _, err := io.ReadAll(near); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%v, not a reset", err)
	}
	must(t, near.CloseWrite())
}

// TestBackPressure checks that a slow reader stops the writer; nothing piles up between them.
func TestBackPressure(t *testing.T) {
	client, server, n, end := start(t)
	_ = client.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
	total := 0
	for {
		m, err := client.Write(make([]byte, 1<<20))
		total += m
		if err != nil {
			break
		}
		if total > 64<<20 {
			t.Fatal("64 MB went nowhere")
		}
	}
	if held := int64(total) - n.Up.Load(); held < 0 {
		t.Errorf("%d bytes more arrived than were sent", -held)
	}
	client.Close()
	server.Close()
	_ = finish(t, end)
}

// bufferRoom is enough for two relays with large buffers.
const bufferRoom = 16 * Segment

// TestBuffersOfBudget checks that buffers are taken from the budget, and that all are given back.
// Without room they are tiny.
func TestBuffersOfBudget(t *testing.T) {
	b := held.New(2*Segment + 4*Segment)
	one, other := firstBuffer(b), firstBuffer(b)
	if len(*one.bytes) != Segment || len(*other.bytes) != Segment {
		t.Fatal("there is room for two")
	}
	one = one.growBuffer(b)
	if len(*one.bytes) != 4*Segment || b.Used() != 5*Segment {
		t.Errorf("%d bytes are large, %d are taken", len(*one.bytes), b.Used())
	}
	if other = other.growBuffer(b); len(*other.bytes) != Segment {
		t.Error("a buffer grows for which there is no room")
	}
	_ = firstBuffer(b)
	last := firstBuffer(b)
	if len(*last.bytes) != tiny.size || b.Used() != 6*Segment {
		t.Errorf("the last has %d bytes, %d are taken", len(*last.bytes), b.Used())
	}
	one.putBuffer()
	if last = last.growBuffer(b); len(*last.bytes) != Segment || b.Used() != 3*Segment {
		t.Errorf("a tiny one grows to %d, %d are taken", len(*last.bytes), b.Used())
	}
}

// TestRelayWithinBudget checks that a relay works with large buffers and without room for any, and
// gives all back.
func TestRelayWithinBudget(t *testing.T) {
	for _, room := range []int64{bufferRoom, 0} {
		inside, client := pair(t)
		outside, server := pair(t)
		b, n, end := held.New(room), &Counts{}, make(chan error, 1)
		go func() { end <- Run(inside, outside, n, b) }()
		sent := make([]byte, 40*Segment)
		go func() { _, _ = client.Write(sent); _ = client.CloseWrite() }()
		got, err := io.Copy(io.Discard, server)
		must(t, err)
		if got != int64(len(sent)) {
			t.Errorf("%d of %d bytes came", got, len(sent))
		}
		server.Close()
		must(t, <-end)
		if b.Used() != 0 {
			t.Errorf("%d bytes of buffers are still held", b.Used())
		}
	}
}
