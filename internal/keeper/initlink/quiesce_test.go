package initlink

import (
	"context"
	"os"
	"testing"

	"github.com/bothy-dev/bothy/internal/keeper/keepertest"
	"github.com/bothy-dev/bothy/internal/wire"
)

// TestQuiesce checks that the keeper sends nothing while init is silent, and sends waiting frames after.
func TestQuiesce(t *testing.T) {
	l, in := connect(t)
	in.Hello()
	spoke := make(chan func(), 1)
	go func() {
		speak, err := l.Quiesce(context.Background())
		if err != nil {
			t.Error(err)
		}
		spoke <- speak
	}()
	in.Asked(wire.AskSilence)
	speak := <-spoke
	sent := make(chan error, 1)
	go func() { sent <- l.Send(wire.SignalFrame(7, 1)) }()
	speak()
	in.Asked(wire.AskSpeak)
	if f := in.Hear(); f.Kind != wire.Signal || f.Stream != 7 {
		t.Errorf("after the silence comes %v of stream %d", f.Kind, f.Stream)
	}
	must(t, <-sent)
}

// TestQuiesceInVain checks that an init that does not fall silent in time is told to speak anyway: it
// may have heard the question.
func TestQuiesceInVain(t *testing.T) {
	l, in := connect(t)
	in.Hello()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := l.Quiesce(ctx)
		done <- err
	}()
	in.Hear()
	cancel()
	if err := <-done; err == nil {
		t.Error("it is silent without having said so")
	}
	in.Asked(wire.AskSpeak)
	must(t, l.Send(wire.SignalFrame(7, 1)))
}

// TestResumeLink checks that a resumed stream has its remaining credit, and that numbers continue.
func TestResumeLink(t *testing.T) {
	l, in := keepertest.Connect(t, func(sock *os.File) *Link { return Continue(sock, 41) })
	s := l.ResumeStream(7, 100)
	done := make(chan error, 1)
	go func() { done <- l.Resume() }()
	if q := in.Asked(wire.AskSpeak); q.ID != 42 {
		t.Errorf("the first question has number %d", q.ID)
	}
	must(t, <-done)
	in.Say(wire.Frame{Kind: wire.Data, Stream: 7, Payload: []byte("on")})
	f, ok := s.Output()
	if !ok || string(f.Payload) != "on" {
		t.Errorf("it says %q, %v", f.Payload, ok)
	}
	if credit, held, runs := s.Balance(); !runs || credit != 100 || held != wire.Cost(2) {
		t.Errorf("before a grant: %d, %d, %v", credit, held, runs)
	}
	s.Grant(f)
	if _, held, runs := s.Balance(); !runs || held != 0 {
		t.Errorf("after a grant: %d, %v", held, runs)
	}
}
