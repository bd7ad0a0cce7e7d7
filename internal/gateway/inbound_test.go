package gateway

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"

	"github.com/bothy-dev/bothy/internal/gateway/namepool"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// patience is how long anything here may take before it counts as hung.
const patience = time.Minute

// serve answers connections inside.
func (w *world) serve(t testing.TB, at netip.AddrPort, answer func(*gonet.TCPConn)) {
	t.Helper()
	l := w.in.Listen(t, at)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go answer(c.(*gonet.TCPConn))
		}
	}()
}

func repeat(c *gonet.TCPConn) {
	_, _ = io.Copy(c, c)
	_ = c.CloseWrite()
}

func at4(port uint16) netip.AddrPort { return netip.AddrPortFrom(namepool.Inside4, port) }
func at6(port uint16) netip.AddrPort { return netip.AddrPortFrom(namepool.Inside6, port) }

// listen makes a listener on the host.
func listen(t testing.TB) *net.TCPListener {
	t.Helper()
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// call connects to a listener.
func call(t testing.TB, l *net.TCPListener) *net.TCPConn {
	t.Helper()
	c, err := net.DialTCP("tcp4", nil, l.Addr().(*net.TCPAddr))
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	must(t, c.SetDeadline(time.Now().Add(patience)))
	return c
}

func inRecord(r spec.NetworkRecord) bool { return r.Direction == spec.DirectionIn }

func TestDial(t *testing.T) {
	w := start(t, rules(t, 1), nil)
	w.serve(t, at4(3000), repeat)
	w.serve(t, at6(3001), repeat)
	for _, port := range []uint16{3000, 3001} {
		c, err := w.Dial(t.Context(), port)
		must(t, err)
		_, err = c.Write([]byte("hello"))
		must(t, err)
		must(t, c.(interface{ CloseWrite() error }).CloseWrite())
		if got, err := io.ReadAll(c); err != nil || string(got) != "hello" {
			t.Errorf("port %d says %q, %v", port, got, err)
		}
		_ = c.Close()
	}
	if c, err := w.Dial(t.Context(), 3002); err == nil {
		_ = c.Close()
		t.Error("a server that is not there was reached")
	} else if !strings.Contains(err.Error(), "3002") || !strings.Contains(err.Error(), "refused") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Dial(ctx, 3000); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestPublish(t *testing.T) {
	w := start(t, rules(t, 1), nil)
	w.serve(t, at4(3000), repeat)
	l := listen(t)
	w.Publish(l, 3000)
	c := call(t, l)
	sent := make([]byte, 4<<20)
	_, _ = rand.Read(sent)
	go func() { _, _ = c.Write(sent); _ = c.CloseWrite() }()
	b := make([]byte, 1)
	_, err := io.ReadFull(c, b)
	must(t, err)
	if flows := w.Flows(); len(flows) != 1 || flows[0].Direction != spec.DirectionIn || flows[0].Port != 3000 || !flows[0].Addr.IsLoopback() {
		t.Errorf("under way: %+v", flows)
	}
	rest, err := io.ReadAll(c)
	must(t, err)
	if !bytes.Equal(sent, append(b, rest...)) {
		t.Errorf("%d bytes came back of %d, or others", len(rest)+1, len(sent))
	}
	r := w.record(t, "the flow", inRecord)
	if r.Event != spec.NetworkFlow || r.State != spec.FlowClosed || len(w.openings()) != 1 || r.Verdict != spec.VerdictAllow || r.Addr.String() != "127.0.0.1" || r.Port != 3000 ||
		r.Up != 4<<20 || r.Down != 4<<20 || !strings.HasPrefix(r.Rule, "--publish 127.0.0.1:") || r.Sandbox != "box" {
		t.Errorf("the record says %+v", r)
	}
}

// TestPublishReset checks that a cut on one side becomes a cut on the other.
func TestPublishReset(t *testing.T) {
	w := start(t, rules(t, 1), nil)
	heard := make(chan error, 1)
	w.serve(t, at4(3000), func(c *gonet.TCPConn) {
		b := make([]byte, 1)
		_, _ = io.ReadFull(c, b)
		_, _ = c.Write(b)
		_, err := c.Read(b)
		heard <- err
	})
	w.serve(t, at4(3001), func(c *gonet.TCPConn) {
		_, _ = io.WriteString(c, "half of it")
		_, _ = io.ReadFull(c, make([]byte, 1))
		_ = c.Close() // a reset, because unread bytes are left
	})
	l := listen(t)
	w.Publish(l, 3000)
	c := call(t, l)
	_, err := c.Write([]byte("x"))
	must(t, err)
	_, err = io.ReadFull(c, make([]byte, 1))
	must(t, err)
	must(t, c.SetLinger(0))
	must(t, c.Close())
	select {
	case err := <-heard:
		if err == nil || err == io.EOF {
			t.Errorf("a client that vanished looks inside like one that is done: %v", err)
		}
	case <-time.After(patience):
		t.Error("the inside never hears that its client vanished")
	}
	l = listen(t)
	w.Publish(l, 3001)
	c = call(t, l)
	_, err = io.ReadFull(c, make([]byte, 10))
	must(t, err)
	_, err = c.Write([]byte("xy"))
	must(t, err)
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("an answer that broke off ends with %v", err)
	}
}

func TestPublishNobodyThere(t *testing.T) {
	w := start(t, rules(t, 1), nil)
	l := listen(t)
	w.Publish(l, 3000)
	// The reset may come before the client knows that it is connected.
	c, err := net.Dial("tcp4", l.Addr().String())
	if err == nil {
		defer c.Close()
		_, err = c.Read(make([]byte, 1))
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("without a server: %v", err)
	}
	if r := w.record(t, "the failure", inRecord); r.Verdict != spec.VerdictError || !strings.Contains(r.Reason, "port 3000 inside") {
		t.Errorf("it says %+v", r)
	}
}

// TestPublishEnds checks that unpublishing a port closes it, with its connections and no others. A
// policy does not affect published ports.
func TestPublishEnds(t *testing.T) {
	w := start(t, rules(t, 1), nil)
	w.serve(t, at4(3000), repeat)
	one, two := listen(t), listen(t)
	end := w.Publish(one, 3000)
	w.Publish(two, 3000)
	a, b := call(t, one), call(t, two)
	for _, c := range []*net.TCPConn{a, b} {
		_, err := c.Write([]byte("x"))
		must(t, err)
		_, err = io.ReadFull(c, make([]byte, 1))
		must(t, err)
	}
	w.SetPolicy(rules(t, 2, "deny **"))
	end()
	if _, err := a.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("its connection ends with %v", err)
	}
	if c, err := net.Dial("tcp4", one.Addr().String()); err == nil {
		_ = c.Close()
		t.Error("its listener is open")
	}
	_, err := b.Write([]byte("y"))
	must(t, err)
	_, err = io.ReadFull(b, make([]byte, 1))
	must(t, err)
	if r := w.record(t, "the end", inRecord); !strings.Contains(r.Reason, "not published") {
		t.Errorf("it says %+v", r)
	}
	w.Close()
	if _, err := b.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("at the gateway's end: %v", err)
	}
	if c, err := net.Dial("tcp4", two.Addr().String()); err == nil {
		_ = c.Close()
		t.Error("a listener outlives its gateway")
	}
}

// TestPublishBound checks that the number of clients is bounded, since each takes file descriptors of
// the host, and that there is room again when others have gone.
func TestPublishBound(t *testing.T) {
	w := start(t, rules(t, 1), nil)
	w.serve(t, at4(3000), repeat)
	l := listen(t)
	w.Publish(l, 3000)
	echoed := func() (*net.TCPConn, error) {
		c, err := net.DialTCP("tcp4", nil, l.Addr().(*net.TCPAddr))
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(patience))
		_, err = c.Write([]byte("x"))
		if err == nil {
			_, err = io.ReadFull(c, make([]byte, 1))
		}
		return c, err
	}
	const room = 3
	w.callers.Add(maxInbound - room)
	var open []*net.TCPConn
	for range room {
		c, err := echoed()
		must(t, err)
		open = append(open, c)
	}
	if _, err := echoed(); err == nil {
		t.Error("one too many is served")
	}
	if r := w.record(t, "the refusal", func(r spec.NetworkRecord) bool { return r.Verdict == spec.VerdictDeny }); !strings.Contains(r.Reason, "already") {
		t.Errorf("it says %+v", r)
	}
	for _, c := range open {
		_ = c.Close()
	}
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if _, err := echoed(); err == nil {
			return
		}
	}
	t.Error("there is no room when the others are gone")
}

// joiner plays init: it comes back with a connection for each request.
func joiner(change func(*wire.Join)) func(*Config, *world) {
	return func(c *Config, w *world) {
		c.Join = func(ctx context.Context, j wire.Join) error {
			if j.Port != 3000 {
				return errors.New("nobody there")
			}
			change(&j)
			back, err := w.in.Dial(ctx, j.To)
			if err != nil {
				return err
			}
			if _, err := io.WriteString(back, j.Key); err != nil {
				return err
			}
			go repeat(back)
			return nil
		}
	}
}

// TestMeet checks that a server on the inside's loopback is reached through init.
func TestMeet(t *testing.T) {
	w := startWith(t, rules(t, 1), nil, joiner(func(*wire.Join) {}))
	l := listen(t)
	w.Publish(l, 3000)
	c := call(t, l)
	_, err := io.WriteString(c, "by way of init")
	must(t, err)
	must(t, c.CloseWrite())
	if got, err := io.ReadAll(c); err != nil || string(got) != "by way of init" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := w.Dial(t.Context(), 3001); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("nobody there: %v", err)
	}
	if n := len(w.inside.meetings.waiting); n != 0 {
		t.Errorf("%d are still awaited", n)
	}
}

// TestMeetStrangers checks that a connection that is not expected, or lacks the key, is refused.
func TestMeetStrangers(t *testing.T) {
	meetAt := netip.AddrPortFrom(namepool.Gateway4, meetPort)
	w := startWith(t, rules(t, 1), nil, joiner(func(j *wire.Join) { j.Key = strings.Repeat("A", keySize) }))
	if c, err := w.in.Dial(t.Context(), meetAt); err == nil {
		_ = c.Close()
		t.Error("somebody uninvited is let in")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if c, err := w.Dial(ctx, 3000); err == nil {
		_ = c.Close()
		t.Error("a wrong key opens")
	}

	// While one connection is expected, a bounded number of silent ones may wait.
	asked := make(chan struct{})
	w = startWith(t, rules(t, 1), nil, func(c *Config, _ *world) {
		c.Join = func(ctx context.Context, _ wire.Join) error { close(asked); <-ctx.Done(); return ctx.Err() }
	})
	ctx, cancel = context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() { defer close(gone); _, _ = w.Dial(ctx, 3000) }()
	<-asked
	let := 0
	for range maxMeets + 20 {
		if c, err := w.in.Dial(t.Context(), meetAt); err == nil {
			let++
			defer c.Close()
		}
	}
	if let != maxMeets {
		t.Errorf("%d silent ones are let in, want %d", let, maxMeets)
	}
	cancel()
	<-gone
}
