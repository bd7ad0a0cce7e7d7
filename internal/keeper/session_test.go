package keeper

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/keeper/initlink"
	"github.com/bothy-dev/bothy/internal/keeper/keepertest"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// table returns an empty table of sessions.
func table() *sessions { return &sessions{live: map[string]*session{}} }

// fakeProgram is a program of the wall: Wait blocks until the test ends it.
type fakeProgram struct {
	end  chan driver.Exit
	mu   sync.Mutex
	sigs []int
}

func (p *fakeProgram) PID() int                   { return 9 }
func (p *fakeProgram) Wait() (driver.Exit, error) { return <-p.end, nil }
func (p *fakeProgram) Signal(sig int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sigs = append(p.sigs, sig)
	return nil
}

// TestAttachWhileFinishing checks that every terminal that attaches while a program ends hears of the end
// exactly once.
func TestAttachWhileFinishing(t *testing.T) {
	for round := range 40 {
		sessions := table()
		s := &session{}
		sessions.add(s, kindAgent, wire.Command{}, 7)
		const viewers = 4
		var wg sync.WaitGroup
		start := make(chan struct{})
		var heard [viewers]int
		for i := range viewers {
			ours, theirs := keepertest.Conns(t)
			wg.Go(func() {
				<-start
				if !s.attach(&viewer{conn: ours}) {
					_ = s.tellEnd(ours)
				}
			})
			wg.Go(func() {
				for {
					f, err := theirs.Receive()
					if err != nil {
						return
					}
					if e, err := f.Ended(); f.Kind == wire.Exit && err == nil && e.Code == 5 {
						heard[i]++
					}
					if heard[i] == 1 {
						_ = theirs.Send(wire.Frame{Kind: wire.Detach})
					}
				}
			})
			wg.Go(func() {
				if _, err := ours.Receive(); err == nil {
					time.Sleep(time.Millisecond)
				}
				ours.Close()
			})
		}
		wg.Go(func() { <-start; s.finish(wire.Ended{Code: 5}, nil) })
		wg.Go(func() { <-start; sessions.list(); s.resize(); s.watching() })
		close(start)
		keepertest.Within(t, "the end", wg.Wait)
		for i, n := range heard {
			if n != 1 {
				t.Fatalf("round %d: viewer %d heard of the end %d times", round, i, n)
			}
		}
	}
}

// fell is the error of a program that ended with the whole sandbox.
func fell() error { return spec.Errorf(spec.ErrSandbox, "it fell") }

func TestFinishTells(t *testing.T) {
	tests := []struct {
		name string
		err  error
		exit wire.Ended
	}{
		{"an exit", nil, wire.Ended{Code: 3}},
		{"a signal", nil, wire.Ended{Signal: 9}},
		{"a fall", fell(), wire.Ended{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sessions := table()
			s := &session{}
			sessions.add(s, kindExec, wire.Command{}, 7)
			ours, theirs := keepertest.Conns(t)
			if !s.attach(&viewer{conn: ours}) {
				t.Fatal("a fresh session has ended")
			}
			sessions.tell("memory is short")
			s.finish(tt.exit, tt.err)
			f, err := theirs.Receive()
			must(t, err)
			if f.Kind != wire.Note || string(f.Payload) != "memory is short" {
				t.Errorf("first comes kind %d, %q", f.Kind, f.Payload)
			}
			f, err = theirs.Receive()
			must(t, err)
			if tt.err != nil {
				if err := f.Failure(); f.Kind != wire.Failure || !errors.Is(err, spec.ErrSandbox) {
					t.Errorf("then kind %d, %v", f.Kind, err)
				}
				return
			}
			if e, err := f.Ended(); f.Kind != wire.Exit || err != nil || e != tt.exit {
				t.Errorf("then kind %d, %v, %v", f.Kind, e, err)
			}
		})
	}
}

func TestSessionTable(t *testing.T) {
	sessions := table()
	direct := &session{proc: &fakeProgram{}}
	sessions.add(direct, kindAgent, wire.Command{Args: []string{"a"}}, 7)
	if sessions.agent() != nil {
		t.Error("a program without a terminal can be attached to")
	}
	agent := &session{st: &initlink.Stream{}}
	sessions.add(agent, kindAgent, wire.Command{TTY: true}, 8)
	exec := &session{st: &initlink.Stream{}}
	sessions.add(exec, kindExec, wire.Command{}, 9)
	if sessions.agent() != agent {
		t.Error("the agent is another")
	}
	ids := map[string]int{}
	for _, i := range sessions.list() {
		ids[i.ID] = i.Attached
	}
	if len(ids) != 3 || ids[direct.info.ID] != 1 || ids[agent.info.ID] != 0 {
		t.Errorf("listed: %v", ids)
	}
	sessions.remove(agent)
	sessions.remove(agent)
	if sessions.agent() != nil || len(sessions.list()) != 2 {
		t.Errorf("left: %v", sessions.list())
	}
}

// TestPump checks that a program's output reaches every terminal. A vanished terminal is forgotten and
// blocks no other.
func TestPump(t *testing.T) {
	l, in := connectInit(t)
	in.Hello()
	sessions := table()
	s := &session{st: startStream(t, l, in)}
	r, w, err := os.Pipe()
	must(t, err)
	s.log = w
	sessions.add(s, kindAgent, wire.Command{TTY: true}, 7)
	one, first := keepertest.Conns(t)
	two, second := keepertest.Conns(t)
	gone, third := keepertest.Conns(t)
	for _, c := range []*unixconn.Conn{one, two, gone} {
		s.attach(&viewer{conn: c})
	}
	third.Close()
	go s.pump()
	in.Say(wire.Frame{Kind: wire.Data, Stream: s.st.ID, Payload: []byte("hello")}, wire.ExitFrame(s.st.ID, wire.Ended{Code: 4}))
	keepertest.Within(t, "the output", func() {
		for _, c := range []*unixconn.Conn{first, second} {
			f, err := c.Receive()
			if err != nil || f.Kind != wire.Data || string(f.Payload) != "hello" {
				t.Errorf("got kind %d, %q, %v", f.Kind, f.Payload, err)
			}
			f, err = c.Receive()
			if e, _ := f.Ended(); err != nil || f.Kind != wire.Exit || e.Code != 4 {
				t.Errorf("got kind %d, %v", f.Kind, err)
			}
		}
		<-s.life.Done()
	})
	w.Close()
	if b, _ := io.ReadAll(r); string(b) != "hello" {
		t.Errorf("the log has %q", b)
	}
	if f := in.Hear(); f.Kind != wire.Credit {
		t.Errorf("init got kind %d instead of credit", f.Kind)
	}
}

// TestPumpWithoutInit checks that all callers hear that the sandbox ended when the link is lost.
func TestPumpWithoutInit(t *testing.T) {
	l, in := connectInit(t)
	in.Hello()
	s := &session{st: startStream(t, l, in), why: fell}
	table().add(s, kindExec, wire.Command{}, 7)
	ours, theirs := keepertest.Conns(t)
	s.attach(&viewer{conn: ours})
	in.Sock.Close()
	keepertest.Within(t, "pump", s.pump)
	if err := theirs.Expect(wire.Exit, &struct{}{}); !errors.Is(err, spec.ErrSandbox) {
		t.Errorf("the viewer got %v", err)
	}
}

// TestResize checks that the program gets the largest size that every terminal can show.
func TestResize(t *testing.T) {
	tests := []struct {
		sizes []wire.Winsize
		want  wire.Winsize
	}{
		{[]wire.Winsize{{Rows: 24, Cols: 80}}, wire.Winsize{Rows: 24, Cols: 80}},
		{[]wire.Winsize{{Rows: 24, Cols: 80}, {Rows: 50, Cols: 70}}, wire.Winsize{Rows: 24, Cols: 70}},
		{[]wire.Winsize{{}, {Rows: 50, Cols: 70}, {Rows: 9}}, wire.Winsize{Rows: 50, Cols: 70}},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.sizes), func(t *testing.T) {
			l, in := connectInit(t)
			in.Hello()
			s := &session{st: startStream(t, l, in)}
			table().add(s, kindAgent, wire.Command{TTY: true}, 7)
			s.resize() // without viewers nothing is sent
			for _, w := range tt.sizes {
				s.attach(&viewer{size: w})
			}
			s.resize()
			f := in.Hear()
			if w, err := f.Winsize(); f.Kind != wire.Resize || err != nil || w != tt.want {
				t.Errorf("kind %d, %v, %v, want %v", f.Kind, w, err, tt.want)
			}
		})
	}
}

// TestCommand checks what a terminal may send; the rest is dropped.
func TestCommand(t *testing.T) {
	l, in := connectInit(t)
	in.Hello()
	s := &session{st: startStream(t, l, in)}
	table().add(s, kindAgent, wire.Command{TTY: true}, 7)
	v := &viewer{}
	s.attach(v)
	for _, f := range []wire.Frame{{Kind: wire.Resize, Payload: []byte("x")}, wire.SignalFrame(0, 65), {Kind: wire.Signal}} {
		if err := s.command(f, v); err == nil {
			t.Errorf("a malformed frame of kind %d is fine", f.Kind)
		}
	}
	for _, f := range []wire.Frame{
		{Kind: wire.Hello}, {Kind: wire.Request}, {Kind: wire.Exit}, {Kind: wire.Credit, Stream: 99}, // dropped
		{Kind: wire.Data, Stream: 99, Payload: []byte("keys")}, wire.ResizeFrame(99, wire.Winsize{Rows: 2, Cols: 3}), wire.SignalFrame(99, 15), {Kind: wire.EOF, Stream: 99},
	} {
		must(t, s.command(f, v))
	}
	for _, want := range []wire.Kind{wire.Data, wire.Resize, wire.Signal, wire.EOF} {
		if f := in.Hear(); f.Kind != want || f.Stream != s.st.ID {
			t.Errorf("init got kind %d for stream %d, want %d for %d", f.Kind, f.Stream, want, s.st.ID)
		}
	}
}

// TestPlainStream checks that only pipes are handed on.
func TestPlainStream(t *testing.T) {
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	defer w.Close()
	for _, f := range []*os.File{r, w} {
		must(t, plainStream(f))
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	must(t, err)
	defer unix.Close(fds[1])
	others := []*os.File{os.NewFile(uintptr(fds[0]), "a socket")}
	for _, name := range []string{"/dev/null", "/dev/ptmx", ".", "session_test.go"} {
		if f, err := os.Open(name); err == nil {
			others = append(others, f)
		}
	}
	for _, f := range others {
		if err := plainStream(f); !errors.Is(err, spec.ErrDenied) {
			t.Errorf("%s: %v", f.Name(), err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestAbandon checks that a vanished caller's program ends with all that it has started, and that a
// sandbox made for that caller ends too.
func TestAbandon(t *testing.T) {
	for _, made := range []bool{false, true} {
		k := bare()
		k.spec.Remove, k.asked = made, make(chan struct{})
		l, in := connectInit(t)
		k.link = l
		in.Hello()
		p := &fakeProgram{end: make(chan driver.Exit, 1)}
		s := &session{proc: p}
		table().add(s, kindExec, wire.Command{}, 9)
		ours, theirs := keepertest.Conns(t)
		done := make(chan struct{})
		go func() { defer close(done); k.obey(ours, s) }()
		must(t, theirs.Send(wire.SignalFrame(0, 10)))
		must(t, theirs.Send(wire.Frame{Kind: wire.Data, Payload: []byte("ignored")}))
		must(t, theirs.Send(wire.Frame{Kind: wire.Signal, Payload: []byte{200}}))
		theirs.Close()
		ends(t, in, 9, 1)
		if k.discard {
			t.Error("it is destroyed while its program may still end")
		}
		p.end <- driver.Exit{Signal: 1}
		s.wait()
		ends(t, in, 9, 9)
		keepertest.Within(t, "obey", func() { <-done })
		if got := fmt.Sprint(p.sigs); got != "[10]" {
			t.Errorf("it got the signals %v", got)
		}
		if s.exit.Signal != 1 || s.err != nil {
			t.Errorf("it ended with %v, %v", s.exit, s.err)
		}
		if k.stopping != made || k.discard != made {
			t.Errorf("made for it %t, it is destroyed %t", made, k.discard)
		}
	}
}

// ends checks that the keeper asks for a signal to all that a program has started.
func ends(t *testing.T, in *keepertest.Inside, pid, sig int) {
	t.Helper()
	if q := in.Asked(wire.AskTree); q.Tree.PID != pid || q.Tree.Signal != sig {
		t.Errorf("it is asked for %+v, not to end %d by %d", q, pid, sig)
	}
}
