package keeper

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

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// patience is how long an operation in these tests may take before it counts as hung.
const patience = 10 * time.Second

// within fails the test when do does not end.
func within(t testing.TB, what string, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); do() }()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("%s does not end", what)
	}
}

// inside plays init, hostile or not, over a real socket.
type inside struct {
	t    testing.TB
	sock *os.File
}

// connect makes a link and the inside's end of it.
func connect(t testing.TB) (*link, *inside) {
	t.Helper()
	return connectBy(t, newLink)
}

func connectBy(t testing.TB, make func(*os.File) *link) (*link, *inside) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	must(t, err)
	ours, theirs := os.NewFile(uintptr(fds[0]), "keeper"), os.NewFile(uintptr(fds[1]), "init")
	l := make(ours)
	t.Cleanup(func() {
		theirs.Close()
		<-l.down
		ours.Close()
	})
	return l, &inside{t, theirs}
}

func (in *inside) say(frames ...wire.Frame) {
	var b []byte
	for _, f := range frames {
		b = f.Append(b)
	}
	in.raw(b)
}

func (in *inside) raw(b []byte) {
	_ = in.sock.SetWriteDeadline(time.Now().Add(patience))
	_, _ = in.sock.Write(b) // the keeper may have hung up, which is its right
}

func (in *inside) json(k wire.Kind, stream uint32, v any) {
	f, err := wire.JSON(k, stream, v)
	must(in.t, err)
	in.say(f)
}

func (in *inside) hello() { in.json(wire.Hello, 0, wire.Greeting{Protocol: wire.Protocol}) }

func (in *inside) hear() wire.Frame {
	_ = in.sock.SetReadDeadline(time.Now().Add(patience))
	f, err := wire.Read(in.sock)
	if err != nil {
		in.t.Errorf("the keeper says nothing: %v", err)
	}
	return f
}

// spawned returns the stream of a program that init claims to have started.
func spawned(t testing.TB, l *link, in *inside) *stream {
	t.Helper()
	go func() {
		f := in.hear()
		in.json(wire.Reply, f.Stream, wire.Spawned{PID: 7})
	}()
	s, pid, err := l.spawn(t.Context(), wire.Spawn{Args: []string{"sh"}})
	must(t, err)
	if pid != 7 {
		t.Errorf("pid %d", pid)
	}
	return s
}

func (l *link) over() bool {
	select {
	case <-l.down:
		return true
	case <-time.After(patience):
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
			r, err := l.ask(t.Context(), wire.InitAsk{Ask: wire.AskUser, User: "me"})
			if err != nil || r.Account.Name != "me" {
				t.Errorf("answered %+v, %v", r, err)
			}
		})
	}
	in.hello()
	var questions []wire.InitAsk
	for range 8 {
		var q wire.InitAsk
		must(t, in.hear().Decode(&q))
		questions = append(questions, q)
	}
	for i := range questions { // in another order, each twice, with answers to questions never asked
		q := questions[len(questions)-1-i]
		for range 2 {
			in.json(wire.Reply, 0, wire.InitReply{ID: q.ID, Account: wire.Account{Name: q.User}})
		}
		in.json(wire.Reply, 0, wire.InitReply{ID: 1 << 30})
	}
	within(t, "ask", wg.Wait)

	go func() {
		var q wire.InitAsk
		must(t, in.hear().Decode(&q))
		in.json(wire.Reply, 0, wire.InitReply{ID: q.ID, Error: "no such user"})
	}()
	if _, err := l.ask(t.Context(), wire.InitAsk{Ask: wire.AskUser}); !errors.Is(err, spec.ErrUsage) || err.Error() != "no such user" {
		t.Errorf("a refusal came as %v", err)
	}
}

func TestLinkSession(t *testing.T) {
	l, in := connect(t)
	in.hello()
	s := spawned(t, l, in)
	in.say(data(s.id, 10), wire.Frame{Kind: wire.Data2, Stream: s.id, Payload: []byte("err")}, wire.ExitFrame(s.id, wire.Ended{Code: 3}), data(s.id, 5))
	var kinds []wire.Kind
	within(t, "output", func() {
		for {
			f, ok := s.output()
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
	if err := s.input([]byte("late")); !errors.Is(err, os.ErrClosed) {
		t.Errorf("input after the end: %v", err)
	}
}

func TestLinkSpawnFails(t *testing.T) {
	l, in := connect(t)
	in.hello()
	go func() {
		in.json(wire.Failure, in.hear().Stream, spec.ToWire(spec.Errorf(spec.ErrNoSuchBinary, "no sh")))
	}()
	if _, _, err := l.spawn(t.Context(), wire.Spawn{Args: []string{"sh"}}); !errors.Is(err, spec.ErrNoSuchBinary) {
		t.Errorf("spawn: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, _, err := l.spawn(ctx, wire.Spawn{Args: []string{"sh"}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("spawn without an answer: %v", err)
	}
	if _, err := l.ask(ctx, wire.InitAsk{}); err == nil {
		t.Error("ask without an answer")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.streams) != 0 {
		t.Errorf("%d streams stay", len(l.streams))
	}
}

// TestHostileInit checks what the inside may say first, and later. Each of these ends the link, and
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
		say   func(in *inside, s uint32)
	}{
		{"garbage instead of hello", false, func(in *inside, _ uint32) { in.raw(noise) }},
		{"hello that is no document", false, func(in *inside, _ uint32) { in.say(wire.Frame{Kind: wire.Hello, Payload: []byte("{")}) }},
		{"another protocol", false, func(in *inside, _ uint32) {
			in.json(wire.Hello, 0, wire.Greeting{Protocol: wire.Protocol + 1})
		}},
		{"nothing", false, func(in *inside, _ uint32) { in.sock.Close() }},
		{"half a hello", false, func(in *inside, _ uint32) { in.raw([]byte{1, 0, 0}); in.sock.Close() }},

		{"garbage", true, func(in *inside, _ uint32) { in.raw(noise) }},
		{"a frame too long", true, func(in *inside, s uint32) { in.raw(header(byte(wire.Data), s, wire.MaxPayload+1)) }},
		{"four gigabytes", true, func(in *inside, s uint32) { in.raw(header(byte(wire.Data), s, math.MaxUint32)) }},
		{"an unknown kind", true, func(in *inside, s uint32) { in.raw(header(99, s, 0)) }},
		{"an answer that is none", true, func(in *inside, _ uint32) { in.say(wire.Frame{Kind: wire.Reply, Payload: []byte("[")}) }},
		{"malformed credit", true, func(in *inside, s uint32) {
			in.say(wire.Frame{Kind: wire.Credit, Stream: s, Payload: []byte("12345")})
		}},
		{"more than the window", true, func(in *inside, s uint32) {
			for range wire.Window/wire.Chunk + 2 {
				in.say(data(s, wire.Chunk))
			}
		}},
		{"more than the window at once", true, func(in *inside, s uint32) { in.say(data(s, wire.MaxPayload)) }},
		{"more empty frames than the window", true, func(in *inside, s uint32) {
			for range wire.MaxFrames + wire.Chunk {
				in.say(data(s, 0))
			}
		}},
		{"it ends", true, func(in *inside, _ uint32) { in.sock.Close() }},
		{"half a frame", true, func(in *inside, s uint32) {
			in.raw(append(header(byte(wire.Data), s, 100), 'x'))
			in.sock.Close()
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, in := connect(t)
			var s *stream
			id := uint32(1)
			if tt.hello {
				in.hello()
				s = spawned(t, l, in)
				id = s.id
			}
			waits := make(chan error, 1)
			go func() {
				_, err := l.ask(context.Background(), wire.InitAsk{Ask: wire.AskLargest})
				waits <- err
			}()
			if tt.hello {
				in.hear() // the question, which it never answers
			}
			go tt.say(in, id)
			if !l.over() {
				t.Fatal("the link goes on")
			}
			select {
			case err := <-waits:
				if !errors.Is(err, spec.ErrSandbox) {
					t.Errorf("who waited got %v", err)
				}
			case <-time.After(patience):
				t.Error("a question still waits")
			}
			if s == nil {
				return
			}
			within(t, "output", func() {
				held := 0
				for f, ok := s.output(); ok; f, ok = s.output() {
					held += wire.Cost(len(f.Payload))
				}
				if held > wire.Window+2*wire.Cost(wire.Chunk) {
					t.Errorf("%d bytes were queued", held)
				}
			})
			within(t, "input", func() { _ = s.input(make([]byte, 4*wire.Window)) })
			if _, _, err := l.spawn(t.Context(), wire.Spawn{}); err == nil {
				t.Error("a program was started behind a dead link")
			}
		})
	}
}

// TestHostileInitIsIgnored checks that meaningless frames are dropped and the link stays up.
func TestHostileInitIsIgnored(t *testing.T) {
	l, in := connect(t)
	in.hello()
	s := spawned(t, l, in)
	for k := wire.Hello; k <= wire.Detach; k++ {
		in.say(wire.Frame{Kind: k, Stream: s.id + 1000, Payload: []byte("for nobody")})
	}
	for _, k := range []wire.Kind{wire.Hello, wire.Request, wire.EOF, wire.Resize, wire.Signal, wire.Note, wire.Detach, wire.Reply, wire.Failure, wire.Reply} {
		in.say(wire.Frame{Kind: k, Stream: s.id, Payload: []byte("?")})
	}
	for range 100 {
		in.say(wire.CreditFrame(s.id, math.MaxUint32))
	}
	in.say(data(s.id, 3), wire.ExitFrame(s.id, wire.Ended{}), wire.ExitFrame(s.id, wire.Ended{Code: 9}), wire.Frame{Kind: wire.Credit, Stream: s.id})
	within(t, "output", func() {
		for _, want := range []wire.Kind{wire.Data, wire.Exit} {
			if f, ok := s.output(); !ok || f.Kind != want {
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
	in.hello()
	s := spawned(t, l, in)
	const total = 3 * wire.Window
	sent := make(chan error, 1)
	go func() { sent <- s.input(make([]byte, total)) }()
	got, owed := 0, 0
	within(t, "input", func() {
		for got < total {
			for owed+wire.Chunk <= wire.Window && got < total {
				f := in.hear()
				if f.Kind != wire.Data || f.Stream != s.id || len(f.Payload) > wire.Chunk {
					t.Errorf("kind %d of %d bytes", f.Kind, len(f.Payload))
					return
				}
				got += len(f.Payload)
				owed += wire.Cost(len(f.Payload))
			}
			if got < total {
				_ = in.sock.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
				if n, _ := in.sock.Read(make([]byte, 1)); n != 0 {
					t.Error("sent beyond the credit")
					return
				}
			}
			in.say(wire.CreditFrame(s.id, owed))
			owed = 0
		}
		must(t, <-sent)
	})
	// An input that waits for credit is freed by the program's end.
	go func() { sent <- s.input(make([]byte, 2*wire.Window)) }()
	in.hear()
	in.say(wire.ExitFrame(s.id, wire.Ended{}))
	go func() {
		for {
			if _, err := wire.Read(in.sock); err != nil {
				return
			}
		}
	}()
	within(t, "input", func() {
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
		in.hello()
		s := spawned(t, l, in)
		go func() {
			credit, next := wire.Window, byte(0)
			for range 300 {
				n := r.IntN(wire.Chunk)
				if r.IntN(2) == 0 {
					n = r.IntN(40)
				}
				for credit <= 0 {
					c, err := in.hear().CreditValue()
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
				in.say(wire.Frame{Kind: wire.Data, Stream: s.id, Payload: p})
			}
			in.say(wire.ExitFrame(s.id, wire.Ended{}))
		}()
		want := byte(0)
		within(t, "output", func() {
			for {
				f, ok := s.output()
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
				s.grant(f)
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
		l := &link{
			sock: r, streams: map[uint32]*stream{}, asks: map[uint32]chan wire.InitReply{1: make(chan wire.InitReply, 1)},
			up: make(chan struct{}), down: make(chan struct{}),
		}
		s := newStream(l, 1)
		l.streams[1] = s
		go l.listen(l.hello)
		_ = w.SetWriteDeadline(time.Now().Add(patience))
		_, _ = w.Write(b)
		w.Close()
		if !l.over() {
			t.Fatal("the link goes on")
		}
		within(t, "output", func() {
			for _, ok := s.output(); ok; _, ok = s.output() {
			}
		})
		within(t, "input", func() { _ = s.input([]byte("x")) })
		r.Close()
	})
}
