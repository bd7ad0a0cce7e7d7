package initlink

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/keeper/keepertest"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// spawned returns the stream of a program that init claims to have started.
func spawned(t testing.TB, l *Link, in *keepertest.Inside) *Stream {
	t.Helper()
	go in.Starts(7)
	s, pid, err := l.Spawn(t.Context(), wire.Spawn{Args: []string{"sh"}})
	must(t, err)
	if pid != 7 {
		t.Errorf("pid %d", pid)
	}
	return s
}

// connect makes a link and the inside's end of it.
func connect(t testing.TB) (*Link, *keepertest.Inside) {
	t.Helper()
	return keepertest.Connect(t, New)
}

func (l *Link) hasEnded() bool {
	select {
	case <-l.down:
		return true
	case <-time.After(keepertest.Patience):
		return false
	}
}

func data(stream uint32, n int) wire.Frame {
	return wire.Frame{Kind: wire.Data, Stream: stream, Payload: bytes.Repeat([]byte("x"), n)}
}

func TestLinkAsk(t *testing.T) {
	l, in := connect(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			r, err := l.Ask(t.Context(), wire.InitAsk{Ask: wire.AskUser, User: "me"})
			if err != nil || r.Account.Name != "me" {
				t.Errorf("answered %+v, %v", r, err)
			}
		})
	}
	in.Hello()
	var questions []wire.InitAsk
	for range 8 {
		var q wire.InitAsk
		must(t, in.Hear().Decode(&q))
		questions = append(questions, q)
	}
	for i := range questions { // in another order, each twice, with answers to questions never asked
		q := questions[len(questions)-1-i]
		for range 2 {
			in.JSON(wire.Reply, 0, wire.InitReply{ID: q.ID, Account: wire.Account{Name: q.User}})
		}
		in.JSON(wire.Reply, 0, wire.InitReply{ID: 1 << 30})
	}
	keepertest.Within(t, "ask", wg.Wait)

	go func() {
		var q wire.InitAsk
		must(t, in.Hear().Decode(&q))
		in.JSON(wire.Reply, 0, wire.InitReply{ID: q.ID, Error: "no such user"})
	}()
	if _, err := l.Ask(t.Context(), wire.InitAsk{Ask: wire.AskUser}); !errors.Is(err, spec.ErrUsage) || err.Error() != "no such user" {
		t.Errorf("a refusal came as %v", err)
	}
}

func TestLinkSession(t *testing.T) {
	l, in := connect(t)
	in.Hello()
	s := spawned(t, l, in)
	in.Say(data(s.ID, 10), wire.Frame{Kind: wire.Data2, Stream: s.ID, Payload: []byte("err")}, wire.ExitFrame(s.ID, wire.Ended{Code: 3}), data(s.ID, 5))
	var kinds []wire.Kind
	keepertest.Within(t, "output", func() {
		for {
			f, ok := s.Output()
			if !ok {
				return
			}
			kinds = append(kinds, f.Kind)
			if f.Kind == wire.Exit {
				if e, err := f.Ended(); err != nil || e.Code != 3 {
					t.Errorf("it ended with %v, %v", e, err)
				}
				return
			}
		}
	})
	if len(kinds) != 3 || kinds[0] != wire.Data || kinds[1] != wire.Data2 {
		t.Errorf("frames %v", kinds)
	}
	if err := s.Input([]byte("late")); !errors.Is(err, os.ErrClosed) {
		t.Errorf("input after the end: %v", err)
	}
}

func TestLinkSpawnFails(t *testing.T) {
	l, in := connect(t)
	in.Hello()
	go func() {
		in.JSON(wire.Failure, in.Hear().Stream, spec.ToWire(spec.Errorf(spec.ErrNoSuchBinary, "no sh")))
	}()
	if _, _, err := l.Spawn(t.Context(), wire.Spawn{Args: []string{"sh"}}); !errors.Is(err, spec.ErrNoSuchBinary) {
		t.Errorf("spawn: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, _, err := l.Spawn(ctx, wire.Spawn{Args: []string{"sh"}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("spawn without an answer: %v", err)
	}
	if _, err := l.Ask(ctx, wire.InitAsk{}); err == nil {
		t.Error("ask without an answer")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.streams) != 0 {
		t.Errorf("%d streams stay", len(l.streams))
	}
}

// TestExitBeforeReply plays an init that reports a program's end without having reported its start.
func TestExitBeforeReply(t *testing.T) {
	l, in := connect(t)
	in.Hello()
	go func() { in.Say(wire.ExitFrame(in.Hear().Stream, wire.Ended{})) }()
	done := make(chan error, 1)
	go func() {
		_, _, err := l.Spawn(context.Background(), wire.Spawn{Args: []string{"sh"}})
		done <- err
	}()
	select {
	case <-done:
	case <-time.After(keepertest.Patience):
		t.Error("spawn waits for ever")
	}
}

// TestHostileInit checks invalid first and later frames of the inside. Each of them ends the link, and
// with it every wait.
func TestHostileInit(t *testing.T) {
	header := func(kind byte, stream, size uint32) []byte {
		b := binary.BigEndian.AppendUint32([]byte{kind}, stream)
		return binary.BigEndian.AppendUint32(b, size)
	}
	noise := make([]byte, 4096)
	for i := range noise {
		noise[i] = byte(rand.Uint32())
	}
	noise[0] = 0xff
	tests := []struct {
		name  string
		hello bool
		say   func(in *keepertest.Inside, s uint32)
	}{
		{"garbage instead of hello", false, func(in *keepertest.Inside, _ uint32) { in.Raw(noise) }},
		{"hello that is no document", false, func(in *keepertest.Inside, _ uint32) { in.Say(wire.Frame{Kind: wire.Hello, Payload: []byte("{")}) }},
		{"another protocol", false, func(in *keepertest.Inside, _ uint32) {
			in.JSON(wire.Hello, 0, wire.Greeting{Protocol: wire.Protocol + 1})
		}},
		{"nothing", false, func(in *keepertest.Inside, _ uint32) { in.Sock.Close() }},
		{"half a hello", false, func(in *keepertest.Inside, _ uint32) { in.Raw([]byte{1, 0, 0}); in.Sock.Close() }},

		{"garbage", true, func(in *keepertest.Inside, _ uint32) { in.Raw(noise) }},
		{"a frame too long", true, func(in *keepertest.Inside, s uint32) { in.Raw(header(byte(wire.Data), s, wire.MaxPayload+1)) }},
		{"four gigabytes", true, func(in *keepertest.Inside, s uint32) { in.Raw(header(byte(wire.Data), s, math.MaxUint32)) }},
		{"an unknown kind", true, func(in *keepertest.Inside, s uint32) { in.Raw(header(99, s, 0)) }},
		{"an answer that is none", true, func(in *keepertest.Inside, _ uint32) { in.Say(wire.Frame{Kind: wire.Reply, Payload: []byte("[")}) }},
		{"malformed credit", true, func(in *keepertest.Inside, s uint32) {
			in.Say(wire.Frame{Kind: wire.Credit, Stream: s, Payload: []byte("12345")})
		}},
		{"more than the window", true, func(in *keepertest.Inside, s uint32) {
			for range wire.Window/wire.Chunk + 2 {
				in.Say(data(s, wire.Chunk))
			}
		}},
		{"more than the window at once", true, func(in *keepertest.Inside, s uint32) { in.Say(data(s, wire.MaxPayload)) }},
		{"more empty frames than the window", true, func(in *keepertest.Inside, s uint32) {
			for range wire.MaxFrames + wire.Chunk {
				in.Say(data(s, 0))
			}
		}},
		{"it ends", true, func(in *keepertest.Inside, _ uint32) { in.Sock.Close() }},
		{"half a frame", true, func(in *keepertest.Inside, s uint32) {
			in.Raw(append(header(byte(wire.Data), s, 100), 'x'))
			in.Sock.Close()
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, in := connect(t)
			var s *Stream
			id := uint32(1)
			if tt.hello {
				in.Hello()
				s = spawned(t, l, in)
				id = s.ID
			}
			waits := make(chan error, 1)
			go func() {
				_, err := l.Ask(context.Background(), wire.InitAsk{Ask: wire.AskLargest})
				waits <- err
			}()
			if tt.hello {
				in.Hear() // the question, which it never answers
			}
			go tt.say(in, id)
			if !l.hasEnded() {
				t.Fatal("the link goes on")
			}
			select {
			case err := <-waits:
				if !errors.Is(err, spec.ErrSandbox) {
					t.Errorf("who waited got %v", err)
				}
			case <-time.After(keepertest.Patience):
				t.Error("a question still waits")
			}
			if s == nil {
				return
			}
			keepertest.Within(t, "output", func() {
				held := 0
				for f, ok := s.Output(); ok; f, ok = s.Output() {
					held += wire.Cost(len(f.Payload))
				}
				if held > wire.Window+2*wire.Cost(wire.Chunk) {
					t.Errorf("%d bytes were queued", held)
				}
			})
			keepertest.Within(t, "input", func() { _ = s.Input(make([]byte, 4*wire.Window)) })
			if _, _, err := l.Spawn(t.Context(), wire.Spawn{}); err == nil {
				t.Error("a program was started behind a dead link")
			}
		})
	}
}

// TestHostileInitIsIgnored checks that meaningless frames are dropped and the link stays up.
func TestHostileInitIsIgnored(t *testing.T) {
	l, in := connect(t)
	in.Hello()
	s := spawned(t, l, in)
	for k := wire.Hello; k <= wire.Detach; k++ {
		in.Say(wire.Frame{Kind: k, Stream: s.ID + 1000, Payload: []byte("for nobody")})
	}
	for _, k := range []wire.Kind{wire.Hello, wire.Request, wire.EOF, wire.Resize, wire.Signal, wire.Note, wire.Detach, wire.Reply, wire.Failure, wire.Reply} {
		in.Say(wire.Frame{Kind: k, Stream: s.ID, Payload: []byte("?")})
	}
	for range 100 {
		in.Say(wire.CreditFrame(s.ID, math.MaxUint32))
	}
	in.Say(data(s.ID, 3), wire.ExitFrame(s.ID, wire.Ended{}), wire.ExitFrame(s.ID, wire.Ended{Code: 9}), wire.Frame{Kind: wire.Credit, Stream: s.ID})
	keepertest.Within(t, "output", func() {
		for _, want := range []wire.Kind{wire.Data, wire.Exit} {
			if f, ok := s.Output(); !ok || f.Kind != want {
				t.Errorf("got kind %d, %t, want %d", f.Kind, ok, want)
			}
		}
	})
	if s.credit > wire.Window {
		t.Errorf("the credit is %d", s.credit)
	}
	select {
	case <-l.down:
		t.Errorf("the link ended: %v", l.err)
	default:
	}
}

// TestInputCredit checks that input waits for credit and is not sent beyond it.
func TestInputCredit(t *testing.T) {
	l, in := connect(t)
	in.Hello()
	s := spawned(t, l, in)
	const total = 3 * wire.Window
	sent := make(chan error, 1)
	go func() { sent <- s.Input(make([]byte, total)) }()
	got, owed := 0, 0
	keepertest.Within(t, "input", func() {
		for got < total {
			for owed+wire.Chunk <= wire.Window && got < total {
				f := in.Hear()
				if f.Kind != wire.Data || f.Stream != s.ID || len(f.Payload) > wire.Chunk {
					t.Errorf("kind %d of %d bytes", f.Kind, len(f.Payload))
					return
				}
				got += len(f.Payload)
				owed += wire.Cost(len(f.Payload))
			}
			if got < total {
				_ = in.Sock.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
				if n, _ := in.Sock.Read(make([]byte, 1)); n != 0 {
					t.Error("sent beyond the credit")
					return
				}
			}
			in.Say(wire.CreditFrame(s.ID, owed))
			owed = 0
		}
		must(t, <-sent)
	})
	// An input that waits for credit is freed by the program's end.
	go func() { sent <- s.Input(make([]byte, 2*wire.Window)) }()
	in.Hear()
	in.Say(wire.ExitFrame(s.ID, wire.Ended{}))
	go func() {
		for {
			if _, err := wire.Read(in.Sock); err != nil {
				return
			}
		}
	}()
	keepertest.Within(t, "input", func() {
		if err := <-sent; !errors.Is(err, os.ErrClosed) {
			t.Errorf("it ended with %v", err)
		}
	})
}

// TestOutputWithinWindow checks that an inside that keeps to its window is never cut off, however it
// splits frames, and that its bytes arrive in order.
func TestOutputWithinWindow(t *testing.T) {
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 1))
		l, in := connect(t)
		in.Hello()
		s := spawned(t, l, in)
		go func() {
			credit, next := wire.Window, byte(0)
			for range 300 {
				n := r.IntN(wire.Chunk)
				if r.IntN(2) == 0 {
					n = r.IntN(40)
				}
				for credit <= 0 {
					c, err := in.Hear().CreditValue()
					if err != nil {
						t.Error(err)
						return
					}
					credit += c
				}
				credit -= wire.Cost(n)
				p := make([]byte, n)
				for i := range p {
					p[i] = next
					next++
				}
				in.Say(wire.Frame{Kind: wire.Data, Stream: s.ID, Payload: p})
			}
			in.Say(wire.ExitFrame(s.ID, wire.Ended{}))
		}()
		want := byte(0)
		keepertest.Within(t, "output", func() {
			for {
				f, ok := s.Output()
				if !ok {
					t.Errorf("seed %d: cut off: %v", seed, l.err)
					return
				}
				if f.Kind == wire.Exit {
					return
				}
				for _, c := range f.Payload {
					if c != want {
						t.Errorf("seed %d: byte %d for %d", seed, c, want)
						return
					}
					want++
				}
				s.Grant(f)
			}
		})
	}
}

// FuzzInit checks that any bytes from the inside end the link or are dropped. Nothing panics, and
// nothing waits once the socket is closed.
func FuzzInit(f *testing.F) {
	hello, err := wire.JSON(wire.Hello, 0, wire.Greeting{Protocol: wire.Protocol})
	must(f, err)
	f.Add(hello.Append(nil))
	f.Add(data(1, 100).Append(hello.Append(nil)))
	f.Add(wire.ExitFrame(1, wire.Ended{Code: -1}).Append(wire.CreditFrame(1, -1).Append(hello.Append(nil))))
	f.Add([]byte(strings.Repeat("\x03\x00\x00\x00\x00\x00\x00\x00\x02{}", 3)))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, w, err := os.Pipe()
		must(t, err)
		l := &Link{
			sock: r, streams: map[uint32]*Stream{}, asks: map[uint32]chan wire.InitReply{1: make(chan wire.InitReply, 1)},
			up: make(chan struct{}), down: make(chan struct{}),
		}
		s := newStream(l, 1)
		l.streams[1] = s
		go l.listen(l.readHello)
		_ = w.SetWriteDeadline(time.Now().Add(keepertest.Patience))
		_, _ = w.Write(b)
		w.Close()
		if !l.hasEnded() {
			t.Fatal("the link goes on")
		}
		keepertest.Within(t, "output", func() {
			for _, ok := s.Output(); ok; _, ok = s.Output() {
			}
		})
		keepertest.Within(t, "input", func() { _ = s.Input([]byte("x")) })
		r.Close()
	})
}
