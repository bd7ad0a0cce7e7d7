package keeper

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/keeper/initlink"
	"github.com/bothy-dev/bothy/internal/keeper/keepertest"
	"github.com/bothy-dev/bothy/internal/keeper/usage"
	"github.com/bothy-dev/bothy/internal/layer"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// TestInitThatDoesNotListen checks that an init that talks and never listens does not block status
// requests, and blocks a stop only until the keeper gives up the link.
func TestInitThatDoesNotListen(t *testing.T) {
	t.Parallel() // it waits for answerTimeout
	l, in := connectInit(t)
	in.Hello()
	sessions := table()
	s := &session{st: startStream(t, l, in), why: fell}
	sessions.add(s, kindAgent, wire.Command{TTY: true}, 7)
	go s.pump()
	go func() {
		for range 5000 { // each is answered with credit, which init never reads
			in.Say(wire.Frame{Kind: wire.Data, Stream: s.st.ID, Payload: []byte("x")})
		}
	}()
	time.Sleep(300 * time.Millisecond)
	hung := make(chan struct{})
	go func() { defer close(hung); sessions.hangUp() }()
	time.Sleep(50 * time.Millisecond)
	looked := make(chan struct{})
	go func() { defer close(looked); sessions.list() }()
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
		sessions := table()
		s := &session{}
		sessions.add(s, kindExec, wire.Command{}, 7)
		ours, theirs := keepertest.Conns(t)
		s.attach(&viewer{conn: ours})
		var wg sync.WaitGroup
		wg.Go(func() { sessions.tell("note") })
		wg.Go(func() { s.finish(wire.Ended{}, nil) })
		wg.Wait()
		ours.Close()
		theirs.Close()
	}
}

// TestWorkDuringSave checks that work done while a save is written to disk is saved within the bound.
func TestWorkDuringSave(t *testing.T) {
	pid, work := keepertest.Worker(t)
	saved := make(chan struct{}, 100)
	first := true
	s := &saver{wall: &wall{pids: []int{pid}}, store: layer.Store{Dir: t.TempDir()}, log: quiet(), every: 10 * time.Millisecond}
	s.note = func(spec.RootLayer) {
		if first {
			first = false
			work() // SaveRoot let the sandbox go on; fsync and rename take their time
		}
		saved <- struct{}{}
	}
	s.worked = usage.CPU([]int{pid})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go s.run(ctx)
	work()
	<-saved
	select {
	case <-saved:
	case <-time.After(time.Duration(s.layer().Bound) + keepertest.Patience):
		t.Error("not saved")
	}
}
