package session

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/keeper/initlink"
	"github.com/bothy-dev/bothy/internal/keeper/keepertest"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// TestAttachWhileFinishing checks that every terminal that attaches while a program ends hears of the end
// exactly once.
func TestAttachWhileFinishing(t *testing.T) {
	for round := range 40 {
		sessions := NewTable()
		s := &Session{}
		sessions.Add(s, KindAgent, wire.Command{}, 7)
		const viewers = 4
		var wg sync.WaitGroup
		start := make(chan struct{})
		var heard [viewers]int
		for i := range viewers {
			ours, theirs := keepertest.Conns(t)
			wg.Go(func() {
				<-start
				if !s.Attach(&Viewer{conn: ours}) {
					_ = s.TellEnd(ours)
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
		wg.Go(func() { <-start; sessions.List(); s.resize(); s.watching() })
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
			sessions := NewTable()
			s := &Session{}
			sessions.Add(s, KindExec, wire.Command{}, 7)
			ours, theirs := keepertest.Conns(t)
			if !s.Attach(&Viewer{conn: ours}) {
				t.Fatal("a fresh session has ended")
			}
			sessions.NoteAll("memory is short")
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
	sessions := NewTable()
	direct := &Session{proc: keepertest.NewProgram()}
	sessions.Add(direct, KindAgent, wire.Command{Args: []string{"a"}}, 7)
	if sessions.Agent() != nil {
		t.Error("a program without a terminal can be attached to")
	}
	agent := &Session{stream: &initlink.Stream{}}
	sessions.Add(agent, KindAgent, wire.Command{TTY: true}, 8)
	exec := &Session{stream: &initlink.Stream{}}
	sessions.Add(exec, KindExec, wire.Command{}, 9)
	if sessions.Agent() != agent {
		t.Error("the agent is another")
	}
	ids := map[string]int{}
	for _, i := range sessions.List() {
		ids[i.ID] = i.Attached
	}
	if len(ids) != 3 || ids[direct.info.ID] != 1 || ids[agent.info.ID] != 0 {
		t.Errorf("listed: %v", ids)
	}
	sessions.Remove(agent)
	sessions.Remove(agent)
	if sessions.Agent() != nil || len(sessions.List()) != 2 {
		t.Errorf("left: %v", sessions.List())
	}
}

// TestPump checks that a program's output reaches every terminal. A vanished terminal is forgotten and
// blocks no other.
func TestPump(t *testing.T) {
	l, in := connectInit(t)
	in.Hello()
	sessions := NewTable()
	s := &Session{stream: startStream(t, l, in)}
	r, w, err := os.Pipe()
	must(t, err)
	s.log = w
	sessions.Add(s, KindAgent, wire.Command{TTY: true}, 7)
	one, first := keepertest.Conns(t)
	two, second := keepertest.Conns(t)
	gone, third := keepertest.Conns(t)
	for _, c := range []*unixconn.Conn{one, two, gone} {
		s.Attach(&Viewer{conn: c})
	}
	third.Close()
	go s.CarryOutput()
	in.Say(wire.Frame{Kind: wire.Data, Stream: s.stream.ID, Payload: []byte("hello")}, wire.ExitFrame(s.stream.ID, wire.Ended{Code: 4}))
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
	s := &Session{stream: startStream(t, l, in), ending: Ending{Explain: fell}}
	NewTable().Add(s, KindExec, wire.Command{}, 7)
	ours, theirs := keepertest.Conns(t)
	s.Attach(&Viewer{conn: ours})
	in.Sock.Close()
	keepertest.Within(t, "pump", s.CarryOutput)
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
			s := &Session{stream: startStream(t, l, in)}
			NewTable().Add(s, KindAgent, wire.Command{TTY: true}, 7)
			s.resize() // without viewers nothing is sent
			for _, w := range tt.sizes {
				s.Attach(&Viewer{size: w})
			}
			s.resize()
			f := in.Hear()
			if w, err := f.Winsize(); f.Kind != wire.Resize || err != nil || w != tt.want {
				t.Errorf("kind %d, %v, %v, want %v", f.Kind, w, err, tt.want)
			}
		})
	}
}

// TestCommand checks the frames that a terminal may send; others are dropped.
func TestCommand(t *testing.T) {
	l, in := connectInit(t)
	in.Hello()
	s := &Session{stream: startStream(t, l, in)}
	NewTable().Add(s, KindAgent, wire.Command{TTY: true}, 7)
	v := &Viewer{}
	s.Attach(v)
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
		if f := in.Hear(); f.Kind != want || f.Stream != s.stream.ID {
			t.Errorf("init got kind %d for stream %d, want %d for %d", f.Kind, f.Stream, want, s.stream.ID)
		}
	}
}

// TestInitThatDoesNotListen checks that an init that talks and never listens does not block status
// requests, and blocks a stop only until the keeper gives up the link.
func TestInitThatDoesNotListen(t *testing.T) {
	t.Parallel() // it waits for answerTimeout
	l, in := connectInit(t)
	in.Hello()
	sessions := NewTable()
	s := &Session{stream: startStream(t, l, in), ending: Ending{Explain: fell}}
	sessions.Add(s, KindAgent, wire.Command{TTY: true}, 7)
	go s.CarryOutput()
	go func() {
		for range 5000 { // each is answered with credit, which init never reads
			in.Say(wire.Frame{Kind: wire.Data, Stream: s.stream.ID, Payload: []byte("x")})
		}
	}()
	time.Sleep(300 * time.Millisecond)
	hung := make(chan struct{})
	go func() { defer close(hung); sessions.HangUp() }()
	time.Sleep(50 * time.Millisecond)
	looked := make(chan struct{})
	go func() { defer close(looked); sessions.List() }()
	select {
	case <-looked:
	case <-time.After(initlink.AnswerTimeout / 2):
		t.Error("who looks waits")
	}
	select {
	case <-hung:
	case <-time.After(2 * initlink.AnswerTimeout):
		t.Error("who stops waits")
	}
	select {
	case <-l.Down():
	case <-time.After(keepertest.Patience):
		t.Error("the link goes on")
	}
}

// TestTellWhileFinishing checks that notes may arrive while the end is reported.
func TestTellWhileFinishing(t *testing.T) {
	for range 200 {
		sessions := NewTable()
		s := &Session{}
		sessions.Add(s, KindExec, wire.Command{}, 7)
		ours, theirs := keepertest.Conns(t)
		s.Attach(&Viewer{conn: ours})
		var wg sync.WaitGroup
		wg.Go(func() { sessions.NoteAll("note") })
		wg.Go(func() { s.finish(wire.Ended{}, nil) })
		wg.Wait()
		ours.Close()
		theirs.Close()
	}
}

// TestNotesAreBounded checks that only the last notes are kept.
func TestNotesAreBounded(t *testing.T) {
	sessions := NewTable()
	s := &Session{}
	sessions.Add(s, KindExec, wire.Command{}, 7)
	for range 1000 {
		sessions.NoteAll("again")
	}
	sessions.NoteAll("the last")
	if n := len(s.notes); n > maxNotes || s.notes[n-1] != "the last" || s.notes[0] != "again" {
		t.Errorf("there are %d notes", n)
	}
}
