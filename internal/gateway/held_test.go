package gateway

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/bothy-dev/bothy/internal/gateway/held"
	"github.com/bothy-dev/bothy/internal/racetest"
	"github.com/bothy-dev/bothy/spec"
)

// speechless is a server that reads requests and answers none before the test ends.
func speechless(t *testing.T) *origin {
	over := make(chan struct{})
	o := newOrigin(t, true, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-over:
		case <-r.Context().Done():
		}
	})
	t.Cleanup(func() { close(over) })
	return o
}

// heapAbove returns how much more the heap holds than before.
func heapAbove(before uint64) int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) - int64(before)
}

func heap() uint64 { return uint64(heapAbove(0)) }

// bounded checks the bytes that a crowd holds, and that all of them are given back.
func (w *world) bounded(t *testing.T, before uint64) {
	t.Helper()
	if n := w.held.Used(); n > held.Most {
		t.Errorf("%d bytes are held", n)
	}
	if n := heapAbove(before); n > 4*held.Most { // the servers and clients of the test are on this heap, too
		t.Errorf("the heap has grown by %d MiB", n>>20)
	}
	w.record(t, "a refusal", func(r spec.NetworkRecord) bool {
		return r.Verdict == spec.VerdictDeny && strings.Contains(r.Reason, held.ErrFull.Error())
	})
}

func (w *world) givesBack(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(patience); w.held.Used() != 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d bytes are still held", w.held.Used())
		}
	}
}

// TestB10HeldHeads checks that heads of requests that their server does not answer are bounded in
// sum, over any number of connections. Streams beyond the bound are refused, and others pass when
// those have ended.
func TestB10HeldHeads(t *testing.T) {
	racetest.Skip(t)
	o := speechless(t)
	w := start(t, document(t, 1, "inspect: all\nallow: [api.example.com]\n"), apiHosts, o.trusting)
	before := heap()
	var conns []*framed
	refused := 0
	for range 12 {
		f := w.framed(t, o.port)
		must(t, f.c.SetDeadline(time.Now().Add(patience)))
		conns = append(conns, f)
		stream := uint32(1)
		for range 100 {
			f.heads(t, stream, append(f.usual("GET"), field{"x-large", strings.Repeat("~", 100<<10)})...)
			stream += 2
		}
		_ = f.WritePing(false, [8]byte{1})
		for over := false; !over; {
			frame, err := f.ReadFrame()
			must(t, err)
			switch x := frame.(type) {
			case *http2.RSTStreamFrame:
				if refused++; x.ErrCode != http2.ErrCodeRefusedStream {
					t.Fatalf("a stream ends with %v", x.ErrCode)
				}
			case *http2.PingFrame:
				over = x.IsAck()
			}
		}
	}
	if refused == 0 {
		t.Error("no stream is refused")
	}
	w.bounded(t, before)
	for _, f := range conns {
		_ = f.c.NetConn().Close()
	}
	w.givesBack(t)
	f := w.framed(t, o.port)
	f.heads(t, 1, f.usual("GET")...)
	for end := time.Now().Add(patience); w.held.Used() < 32<<10; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("nothing passes afterwards")
		}
	}
}

// heads sends a head in as many frames as it needs.
func (f *framed) heads(t *testing.T, stream uint32, fields ...field) {
	b := block(fields...)
	const most = 16 << 10
	first := b[:min(len(b), most)]
	b = b[len(first):]
	must(t, f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: first, EndHeaders: len(b) == 0, EndStream: true}))
	for len(b) > 0 {
		part := b[:min(len(b), most)]
		b = b[len(part):]
		must(t, f.WriteContinuation(stream, len(b) == 0, part))
	}
}

// TestB10HeldUnfinished checks that unfinished heads count, too. A connection with one too many
// gets ENHANCE_YOUR_CALM.
func TestB10HeldUnfinished(t *testing.T) {
	o := speechless(t)
	w := start(t, document(t, 1, "inspect: all\nallow: [api.example.com]\n"), apiHosts, o.trusting)
	before, calmed := heap(), 0
	var wg sync.WaitGroup
	var mu sync.Mutex
	var conns []*framed
	for range 60 {
		f, err := w.tryFramed(t, o.port)
		if err != nil {
			continue
		}
		must(t, f.c.SetDeadline(time.Now().Add(patience)))
		conns = append(conns, f)
		b := block(append(f.usual("GET"), field{"x-large", strings.Repeat("~", 60<<10)})...)
		_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: b[:16<<10], EndStream: true})
		_ = f.WriteContinuation(1, false, b[16<<10:32<<10])
		wg.Go(func() {
			for {
				frame, err := f.ReadFrame()
				if err != nil {
					return
				}
				if x, ok := frame.(*http2.GoAwayFrame); ok && x.ErrCode == http2.ErrCodeEnhanceYourCalm {
					mu.Lock()
					calmed++
					mu.Unlock()
				}
			}
		})
	}
	w.bounded(t, before)
	for _, f := range conns {
		_ = f.c.NetConn().Close()
	}
	wg.Wait()
	if calmed == 0 {
		t.Error("no connection is told why it ends")
	}
	w.givesBack(t)
}

// TestB10HeldCancelled checks that heads of requests that are cancelled at once are not queued.
func TestB10HeldCancelled(t *testing.T) {
	racetest.Skip(t)
	o := speechless(t)
	w := start(t, document(t, 1, "inspect: all\nallow: [api.example.com]\n"), apiHosts, o.trusting)
	before := heap()
	for range 3 {
		f := w.framed(t, o.port)
		must(t, f.c.SetDeadline(time.Now().Add(patience)))
		go func() { _, _ = io.Copy(io.Discard, f.c) }()
		stream := uint32(1)
		for range 300 {
			f.heads(t, stream, append(f.usual("GET"), field{"x-large", strings.Repeat("~", 100<<10)})...)
			must(t, f.WriteRSTStream(stream, http2.ErrCodeCancel))
			stream += 2
		}
		if n := heapAbove(before); n > 4*held.Most {
			t.Fatalf("the heap has grown by %d MiB", n>>20)
		}
		_ = f.c.NetConn().Close()
	}
	w.givesBack(t)
}

// TestB10HeldHeadsHTTP1 checks the same over HTTP/1, for incomplete heads.
func TestB10HeldHeadsHTTP1(t *testing.T) {
	racetest.Skip(t)
	o := newOrigin(t, false, func(http.ResponseWriter, *http.Request) {})
	w := start(t, document(t, 1, "inspect: all\nallow: [api.example.com]\n"), apiHosts, o.trusting)
	before, busy, turnedAway := heap(), 0, 0
	var conns []net.Conn
	for range 400 {
		c, err := w.in.DialName(t.Context(), "api.example.com", o.port)
		if err != nil && strings.Contains(err.Error(), "connection reset") && turnedAway < 100 { // while very many ask at once
			turnedAway++
			continue
		}
		must(t, err)
		defer c.Close()
		must(t, c.SetDeadline(time.Now().Add(patience)))
		conns = append(conns, c)
		_, _ = fmt.Fprintf(c, "GET /ok HTTP/1.1\r\nHost: api.example.com:%d\r\nX-Large: %s", o.port, strings.Repeat("~", 120<<10))
	}
	for end := time.Now().Add(patience); w.held.Used() < held.Most/2 && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	w.bounded(t, before)
	for _, c := range conns {
		must(t, c.SetReadDeadline(time.Now().Add(20*time.Millisecond)))
		head := make([]byte, 12)
		if _, err := io.ReadFull(c, head); err == nil && string(head) == "HTTP/1.1 503" {
			busy++
		}
		_ = c.Close()
	}
	if busy == 0 {
		t.Error("nobody is told that there is no room")
	}
	w.givesBack(t)
}

// TestUnreadHeadsAreRecorded checks that a head that the HTTP/2 server refuses by itself reaches no
// rule, and that the flow's record says so.
func TestUnreadHeadsAreRecorded(t *testing.T) {
	for what, send := range map[string]func(t *testing.T, f *framed){
		"without a path": func(t *testing.T, f *framed) { f.heads(t, 1, f.usual("GET")[:3]...) },
		"two paths":      func(t *testing.T, f *framed) { f.heads(t, 1, append(f.usual("GET"), field{":path", "/other"})...) },
		"too large": func(t *testing.T, f *framed) {
			f.heads(t, 1, append(f.usual("GET"), field{"x-large", strings.Repeat("~", 300<<10)})...)
		},
		"capitals":          func(t *testing.T, f *framed) { f.heads(t, 1, append(f.usual("GET"), field{"X-Name", "value"})...) },
		"no head at all":    func(t *testing.T, f *framed) { f.writeBlock(t, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}) },
		"of the connection": func(t *testing.T, f *framed) { f.heads(t, 1, append(f.usual("GET"), field{"connection", "close"})...) },
	} {
		t.Run(what, func(t *testing.T) {
			o := newOrigin(t, false, func(http.ResponseWriter, *http.Request) { t.Error("it reached the server") })
			w := start(t, document(t, 1, "inspect: all\nallow: [api.example.com]\n"), apiHosts, o.trusting)
			f := w.framed(t, o.port)
			send(t, f)
			_ = f.c.SetReadDeadline(time.Now().Add(time.Second))
			_, _ = io.Copy(io.Discard, f.c)
			_ = f.c.NetConn().Close()
			w.record(t, "the refusal", func(r spec.NetworkRecord) bool {
				return r.Verdict == spec.VerdictDeny && strings.Contains(r.Reason, "head")
			})
		})
	}
}

// writeBlock sends a head as it is.
func (f *framed) writeBlock(t *testing.T, b []byte) {
	must(t, f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: b, EndHeaders: true, EndStream: true}))
}
